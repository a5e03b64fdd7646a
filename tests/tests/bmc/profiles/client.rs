//! Our own client on a simulated BMC, and power operations that wait for nothing but the wire.

// Not every test binary needs all of it.
#![allow(dead_code)]

use std::time::Duration;

use rackhand_bmc::operation::{
    Expected, Goal, Hooks, OperationRequest, Proof, Report, Timing, run,
};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, ErrorKind, PowerCommand, PowerReading, PowerState,
    redfish::RedfishConfig,
};
use rackhand_tests::rack::redfish::{Profile, Vendor};
use rackhand_tests::rack::{Counters, ResetType, SimHost};

use crate::rack_support::ask::Sim;

/// Longer than any operation here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Longer than the machine, its boot, and a BMC that settles take, on the host's own clock.
pub(crate) const SETTLED: Duration = Duration::from_secs(10);

/// A BMC of this make, whose host changes only when it is told to.
pub(crate) async fn stepped(vendor: Vendor) -> Sim {
    stepped_with(vendor, |_| {}).await
}

/// The same with a make that is changed first.
pub(crate) async fn stepped_with(vendor: Vendor, change: impl Fn(&mut Profile)) -> Sim {
    let sim = Sim::start(|host| {
        host.bmc.profile = Profile::of(vendor);
        change(&mut host.bmc.profile);
    })
    .await;
    sim.host.single_step(true);
    sim
}

/// Settings that name no system.
pub(crate) fn config(sim: &Sim) -> RedfishConfig {
    config_at(sim, "")
}

/// Settings that name this path.
pub(crate) fn config_at(sim: &Sim, path: &str) -> RedfishConfig {
    let address = sim.base.replacen("http://", "redfish+http://", 1) + path;
    RedfishConfig::new(address.parse().unwrap(), "admin", "secret".into())
}

/// A client that names no system.
pub(crate) fn client(sim: &Sim) -> Box<dyn Bmc> {
    rackhand_bmc::redfish::connect(config(sim)).unwrap()
}

/// Hard off, confirmed as it is for fencing, but sooner.
pub(crate) fn off() -> Goal {
    Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_millis(20),
        command_after: Duration::ZERO,
    }
}

/// What an operation read and what failed in it; moves the host on when a command is taken, or may
/// have been.
pub(crate) struct Seen<'a> {
    pub(crate) host: &'a SimHost,
    pub(crate) readings: Vec<PowerReading>,
    pub(crate) errors: Vec<BmcError>,
    on_reading: Hook<'a>,
}

/// Something to do after a reading, which is the last of these.
type Hook<'a> = Box<dyn FnMut(&SimHost, &[PowerReading]) + Send + 'a>;

impl<'a> Seen<'a> {
    pub(crate) fn new(host: &'a SimHost) -> Self {
        Self::with(host, |_, _| {})
    }

    pub(crate) fn with(
        host: &'a SimHost,
        on_reading: impl FnMut(&SimHost, &[PowerReading]) + Send + 'a,
    ) -> Self {
        Self {
            host,
            readings: Vec::new(),
            errors: Vec::new(),
            on_reading: Box::new(on_reading),
        }
    }

    /// How many readings showed this.
    pub(crate) fn shown(&self, state: PowerState) -> usize {
        count(&self.readings, state)
    }
}

/// How many of these readings show this.
pub(crate) fn count(readings: &[PowerReading], state: PowerState) -> usize {
    let shown = readings.iter().filter(|reading| reading.state == state);
    shown.count()
}

impl Hooks for Seen<'_> {
    fn reading(&mut self, reading: &PowerReading, _: Proof) {
        self.readings.push(reading.clone());
        (self.on_reading)(self.host, &self.readings);
    }

    fn accepted(&mut self, _: &Accepted) {
        self.host.step();
    }

    fn failed(&mut self, error: &BmcError) {
        if error.maybe_sent {
            self.host.step();
        }
        self.errors.push(error.clone());
    }
}

/// Carries an operation out.
pub(crate) async fn operate(bmc: &dyn Bmc, host: &SimHost, goal: Goal) -> Report {
    watched(bmc, &mut Seen::new(host), goal).await
}

/// The same, seen by somebody.
pub(crate) async fn watched(bmc: &dyn Bmc, seen: &mut Seen<'_>, goal: Goal) -> Report {
    let expected = Expected {
        system_uuid: Some(seen.host.config().uuid.clone()),
        serial: None,
    };
    let timing = Timing {
        poll_first: Duration::from_millis(2),
        poll_max: Duration::from_millis(20),
        retry_after: Duration::from_millis(10),
        // Nothing is sent twice because the machine is busy.
        resend_after: DEADLINE,
        ..Timing::default()
    };
    let asked = OperationRequest {
        goal,
        deadline: DEADLINE,
        expected,
        timing,
    };
    run(bmc, asked, seen).await
}

/// What was really done to a host, without the requests that it took.
pub(crate) fn done(host: &SimHost) -> Counters {
    Counters {
        requests: 0,
        ..host.counters()
    }
}

/// The commands that a host is to have received.
pub(crate) fn received(commands: &[(ResetType, u64)]) -> Counters {
    Counters {
        commands: commands.iter().copied().collect(),
        ..Counters::default()
    }
}

/// The kind of the failure of a command, which must have left nobody in doubt.
pub(crate) async fn refusal(bmc: &dyn Bmc, command: PowerCommand) -> ErrorKind {
    let error = bmc.command(command).await.unwrap_err();
    assert!(!error.maybe_sent, "{error}");
    error.kind
}
