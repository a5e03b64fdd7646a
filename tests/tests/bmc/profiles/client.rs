//! The Redfish client on a simulated BMC, and power operations without real waits.

// No test binary uses all items.
#![allow(dead_code)]

use std::time::Duration;

use rackhand_bmc::operation::{
    DuringUpdate, Expected, Goal, Hooks, OperationRequest, Proof, Report, Timing, run,
};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, ErrorKind, PowerCommand, PowerReading, PowerState,
    redfish::RedfishConfig,
};
use rackhand_tests::rack::redfish::{Profile, Vendor};
use rackhand_tests::rack::{Counters, ResetType, SimHost};

use crate::rack_support::redfish_client::Sim;

/// Longer than any operation here takes on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Longer than the power transitions, the boot, and the settling of a BMC, on the host's own clock.
pub(crate) const SETTLED: Duration = Duration::from_secs(10);

/// A BMC with this profile, whose host changes in single steps only.
pub(crate) async fn stepped(vendor: Vendor) -> Sim {
    stepped_with(vendor, |_| {}).await
}

/// The same with a modified profile.
pub(crate) async fn stepped_with(vendor: Vendor, change: impl Fn(&mut Profile)) -> Sim {
    let sim = Sim::start(|host| {
        host.bmc.profile = Profile::of(vendor);
        change(&mut host.bmc.profile);
    })
    .await;
    sim.host.single_step(true);
    sim
}

/// Settings without a system path.
pub(crate) fn config(sim: &Sim) -> RedfishConfig {
    config_at(sim, "")
}

/// Settings with this system path.
pub(crate) fn config_at(sim: &Sim, path: &str) -> RedfishConfig {
    let address = sim.base.replacen("http://", "redfish+http://", 1) + path;
    RedfishConfig::new(address.parse().unwrap(), "admin", "secret".into())
}

/// A client without a system path.
pub(crate) fn client(sim: &Sim) -> Box<dyn Bmc> {
    rackhand_bmc::redfish::connect(config(sim)).unwrap()
}

/// Hard off, confirmed as for fencing, but with a shorter interval.
pub(crate) fn off() -> Goal {
    Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_millis(20),
        command_after: Duration::ZERO,
    }
}

/// Hooks that record readings and failures, and advance the host when a command may have been
/// accepted.
pub(crate) struct Seen<'a> {
    pub(crate) host: &'a SimHost,
    pub(crate) readings: Vec<PowerReading>,
    pub(crate) errors: Vec<BmcError>,
    on_reading: Hook<'a>,
}

/// Callback after each reading.
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

    /// Number of readings with this state.
    pub(crate) fn shown(&self, state: PowerState) -> usize {
        count(&self.readings, state)
    }
}

/// Number of readings with this state.
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

/// Runs an operation.
pub(crate) async fn operate(bmc: &dyn Bmc, host: &SimHost, goal: Goal) -> Report {
    watched(bmc, &mut Seen::new(host), goal).await
}

/// Runs an operation with these hooks.
pub(crate) async fn watched(bmc: &dyn Bmc, seen: &mut Seen<'_>, goal: Goal) -> Report {
    let expected = Expected {
        system_uuid: Some(seen.host.config().uuid.clone()),
        ..Expected::default()
    };
    expecting(bmc, seen, goal, expected).await
}

/// Runs an operation with these hooks on a system with this identity.
pub(crate) async fn expecting(
    bmc: &dyn Bmc,
    seen: &mut Seen<'_>,
    goal: Goal,
    expected: Expected,
) -> Report {
    let timing = Timing {
        poll_first: Duration::from_millis(2),
        poll_max: Duration::from_millis(20),
        retry_after: Duration::from_millis(10),
        // No command is repeated because the machine is slow.
        resend_after: DEADLINE,
        ..Timing::default()
    };
    let asked = OperationRequest {
        goal,
        deadline: DEADLINE,
        expected,
        timing,
        during_update: DuringUpdate::Refuse,
    };
    run(bmc, asked, seen).await
}

/// Power changes of a host, without the number of requests.
pub(crate) fn done(host: &SimHost) -> Counters {
    Counters {
        requests: 0,
        ..host.counters()
    }
}

/// Counters for received commands.
pub(crate) fn received(commands: &[(ResetType, u64)]) -> Counters {
    Counters {
        commands: commands.iter().copied().collect(),
        ..Counters::default()
    }
}

/// The error kind of a command, which must not have been sent.
pub(crate) async fn refusal(bmc: &dyn Bmc, command: PowerCommand) -> ErrorKind {
    let error = bmc.command(command).await.unwrap_err();
    assert!(!error.maybe_sent, "{error}");
    error.kind
}
