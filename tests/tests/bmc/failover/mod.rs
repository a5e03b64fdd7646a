//! One host with a Redfish and an IPMI BMC, and failover between both drivers; then the same
//! through the real agent.

mod agent;

use std::sync::Arc;
use std::time::Duration;

use super::profiles::client::{
    SETTLED, Seen, config, count, done, off, operate, received, stepped, watched,
};
use crate::rack_support::redfish_client::Sim;
use rackhand_bmc::operation::{Goal, Outcome};
use rackhand_bmc::{
    Bmc, BreakerSettings, ErrorKind, Failover, FailoverSettings, PowerCommand, PowerReading,
    PowerSource, PowerState, ipmi, redfish::connect,
};
use rackhand_tests::rack::ipmi::counters::Command;
use rackhand_tests::rack::ipmi::{self as sim_ipmi, ChassisControl, IpmiBmc};
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{Action, Counters, PowerState as Real, ResetType, Rule};

const MINUTE: Duration = Duration::from_secs(60);

/// Off after a command.
const OFF: Outcome = Outcome::Confirmed {
    state: PowerState::Off,
    commanded: true,
};

/// A host in single-step mode with both BMCs.
struct Both {
    sim: Sim,
    ipmi: IpmiBmc,
}

impl Both {
    async fn start() -> Self {
        let sim = stepped(Vendor::Generic).await;
        let ipmi = IpmiBmc::attach(&sim.host).await.unwrap();
        Self { sim, ipmi }
    }

    fn redfish(&self) -> Arc<dyn Bmc> {
        Arc::from(connect(config(&self.sim)).unwrap())
    }

    fn ipmi_config(&self) -> ipmi::IpmiConfig {
        let address = format!("ipmi://{}", self.ipmi.address());
        ipmi::IpmiConfig::new(address.parse().unwrap(), "admin", "secret".into())
    }

    fn ipmi(&self) -> Arc<dyn Bmc> {
        Arc::from(ipmi::connect(self.ipmi_config()).unwrap())
    }

    /// Redfish first, then IPMI.
    fn failover(&self, settings: FailoverSettings) -> Failover {
        Failover::new(vec![self.redfish(), self.ipmi()], settings).unwrap()
    }

    /// Resets every Redfish connection from now on.
    fn cut_redfish(&self) {
        self.sim.host.inject(Rule::always(Action::Reset));
    }
}

/// Settings without a preference and without pauses.
fn forgetful() -> FailoverSettings {
    FailoverSettings {
        prefer: Duration::ZERO,
        breaker: BreakerSettings {
            failures: u32::MAX,
            ..BreakerSettings::default()
        },
        ..FailoverSettings::default()
    }
}

fn protocols(readings: &[PowerReading]) -> Vec<PowerSource> {
    readings.iter().map(|reading| reading.source).collect()
}

#[tokio::test]
async fn ipmi_is_unused_while_redfish_works() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(FailoverSettings::default());
    assert_eq!(operate(&bmc, host, off()).await.outcome, OFF);
    assert!(operate(&bmc, host, Goal::On).await.outcome.is_done());
    assert_eq!(both.ipmi.counters().packets, 0);
    bmc.close().await.unwrap();
    assert_eq!(host.sessions_open(), 0);
}

#[tokio::test]
async fn ipmi_reads_and_switches_while_redfish_is_dead() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(FailoverSettings::default());
    assert_eq!(bmc.power().await.unwrap().source, PowerSource::Redfish);
    host.bmc_dead().await.unwrap();

    let reading = bmc.power().await.unwrap();
    assert_eq!(reading.source, PowerSource::Ipmi);
    assert_eq!(reading.state, PowerState::On);
    assert!(reading.bmc.starts_with("ipmi://"), "{reading:?}");
    // The UUID must match by both protocols, or the operation ends as a mismatch.
    let report = operate(&bmc, host, off()).await;
    assert_eq!(report.outcome, OFF, "{report:?}");
    assert_eq!(protocols(&report.readings), [PowerSource::Ipmi; 2]);
    host.advance(SETTLED);
    let report = operate(&bmc, host, Goal::On).await;
    assert!(report.outcome.is_done(), "{report:?}");

    let sent = both.ipmi.counters();
    assert_eq!(sent.controlled(ChassisControl::Down), 1, "{sent:?}");
    assert_eq!(sent.controlled(ChassisControl::Up), 1, "{sent:?}");
    let expected = Counters {
        offs: 1,
        ons: 1,
        ..received(&[(ResetType::ForceOff, 1), (ResetType::On, 1)])
    };
    assert_eq!(done(host), expected);
    // A dead driver keeps no session of the other open.
    bmc.close().await.ok();
    let closed = |bmc: &mut sim_ipmi::Bmc, now| bmc.sessions(now) == 0;
    both.ipmi.wait_for(MINUTE, closed).await.unwrap();
}

/// F1: two readings of one protocol, not one reading of each of two.
#[tokio::test]
async fn f1_one_off_reading_per_protocol_does_not_confirm() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(FailoverSettings::default());
    let mut seen = Seen::with(host, |_, readings| {
        if count(readings, PowerState::Off) == 1 {
            both.cut_redfish();
        }
    });
    let report = watched(&bmc, &mut seen, off()).await;
    assert_eq!(report.outcome, OFF, "{report:?}");
    assert_eq!(protocols(&report.readings), [PowerSource::Ipmi; 2]);
    let off = |reading: &&PowerReading| reading.state == PowerState::Off;
    let by: Vec<_> = seen.readings.iter().filter(off).cloned().collect();
    let by = protocols(&by);
    assert_eq!(
        by.iter().filter(|by| **by == PowerSource::Redfish).count(),
        1
    );
    assert_eq!(by[0], PowerSource::Redfish);
    assert_eq!(host.counters().offs, 1);
    assert!(
        both.ipmi.counters().controls.is_empty(),
        "read, not switched"
    );
}

#[tokio::test]
async fn recovered_redfish_is_used_again() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(forgetful());
    for _ in 0..2 {
        assert_eq!(bmc.power().await.unwrap().source, PowerSource::Redfish);
        host.bmc_dead().await.unwrap();
        assert_eq!(bmc.power().await.unwrap().source, PowerSource::Ipmi);
        host.bmc_alive().await.unwrap();
    }
    let before = both.ipmi.counters().packets;
    assert_eq!(operate(&bmc, host, off()).await.outcome, OFF);
    assert_eq!(both.ipmi.counters().packets, before);
}

/// A change of the protocol within an operation would reset its confirmation, so the preference
/// lasts for a while.
#[tokio::test]
async fn ipmi_stays_preferred_after_a_failover() {
    let both = Both::start().await;
    let bmc = both.failover(FailoverSettings::default());
    both.sim.host.bmc_dead().await.unwrap();
    bmc.power().await.unwrap();
    both.sim.host.bmc_alive().await.unwrap();
    let requests = both.sim.host.counters().requests;
    assert_eq!(bmc.power().await.unwrap().source, PowerSource::Ipmi);
    assert_eq!(both.sim.host.counters().requests, requests);
}

#[tokio::test]
async fn unresponsive_driver_is_paused() {
    let both = Both::start().await;
    let settings = FailoverSettings {
        prefer: Duration::ZERO,
        breaker: BreakerSettings {
            failures: 3,
            first: MINUTE,
            longest: MINUTE,
            ..BreakerSettings::default()
        },
        ..FailoverSettings::default()
    };
    let bmc = both.failover(settings);
    both.cut_redfish();
    let mut requests = vec![both.sim.host.counters().requests];
    for _ in 0..6 {
        assert_eq!(bmc.power().await.unwrap().source, PowerSource::Ipmi);
        requests.push(both.sim.host.counters().requests);
    }
    assert!(requests[..4].is_sorted_by(|a, b| a < b), "{requests:?}");
    assert!(
        requests[3..].iter().all(|one| *one == requests[3]),
        "{requests:?}"
    );
}

#[tokio::test]
async fn failure_of_both_drivers_names_both() {
    let both = Both::start().await;
    let mut config = both.ipmi_config();
    config.timeouts = ipmi::Timeouts {
        connect: Duration::from_secs(1),
        call: Duration::from_secs(1),
    };
    let ipmi: Arc<dyn Bmc> = Arc::from(ipmi::connect(config).unwrap());
    let (first, second) = (both.redfish(), ipmi);
    let names = [first.address().to_owned(), second.address().to_owned()];
    let bmc = Failover::new(vec![first, second], forgetful()).unwrap();
    both.sim.host.bmc_dead().await.unwrap();
    both.ipmi.with(|bmc, _| bmc.set_dead(true));
    for error in [
        bmc.power().await.unwrap_err(),
        bmc.off().await.unwrap_err(),
        bmc.command(PowerCommand::Reset).await.unwrap_err(),
    ] {
        for name in &names {
            assert!(error.message.contains(name.as_str()), "{error}");
        }
        assert!(error.kind.is_transient(), "{error}");
        assert!(!error.maybe_sent, "nothing got through: {error}");
    }
    assert_eq!(done(&both.sim.host), Counters::default());

    both.ipmi.with(|bmc, _| bmc.set_dead(false));
    assert_eq!(bmc.power().await.unwrap().source, PowerSource::Ipmi);
}

fn reset_once() -> Counters {
    Counters {
        resets: 1,
        ..received(&[(ResetType::ForceRestart, 1)])
    }
}

#[tokio::test]
async fn reset_possibly_sent_by_redfish_is_not_sent_by_ipmi() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(FailoverSettings::default());
    host.lose_next_answer();
    let error = bmc.command(PowerCommand::Reset).await.unwrap_err();
    assert!(error.maybe_sent, "{error}");
    assert_eq!(both.ipmi.counters().packets, 0);
    assert_eq!(done(host), reset_once());
    host.advance(SETTLED);

    // An operation does not send it either; it continues to read by the other driver.
    let lost = Rule::always(Action::Reset).on("POST", "**/Actions/ComputerSystem.Reset");
    host.inject(lost);
    let report = operate(&bmc, host, Goal::Reset).await;
    let unknown = matches!(report.outcome, Outcome::Unknown { .. });
    assert!(unknown, "{report:?}");
    assert!(both.ipmi.counters().controls.is_empty());
    assert_eq!(done(host).resets, 1);
}

#[tokio::test]
async fn reset_possibly_sent_by_ipmi_is_not_sent_by_redfish() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let mut config = both.ipmi_config();
    config.timeouts.call = Duration::from_secs(5);
    let first: Arc<dyn Bmc> = Arc::from(ipmi::connect(config).unwrap());
    let bmc = Failover::new(vec![first, both.redfish()], forgetful()).unwrap();
    let lose = sim_ipmi::Action::LoseAnswer;
    let lost = sim_ipmi::Rule::command(Command::CHASSIS_CONTROL, lose);
    both.ipmi.inject(lost.times(1));
    let error = bmc.command(PowerCommand::Reset).await.unwrap_err();
    assert!(error.maybe_sent, "{error}");
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert_eq!(host.counters().requests, 0);
    assert_eq!(done(host), reset_once());
    assert_eq!(both.ipmi.counters().controlled(ChassisControl::Reset), 1);
}

#[tokio::test]
async fn unsent_reset_fails_over() {
    let both = Both::start().await;
    let bmc = both.failover(FailoverSettings::default());
    both.sim.host.bmc_dead().await.unwrap();
    bmc.command(PowerCommand::Reset).await.unwrap();
    assert_eq!(done(&both.sim.host), reset_once());
    assert_eq!(both.ipmi.counters().controlled(ChassisControl::Reset), 1);
}

/// A power-off is idempotent, so it is sent by the driver that responds, when it is asked for again.
#[tokio::test]
async fn power_off_with_a_lost_response_goes_by_ipmi_in_the_next_call() {
    let both = Both::start().await;
    let host = &both.sim.host;
    let bmc = both.failover(FailoverSettings::default());
    host.lose_next_answer();
    let error = bmc.off().await.unwrap_err();
    assert!(error.maybe_sent, "{error}");
    assert!(both.ipmi.counters().controls.is_empty());
    let accepted = bmc.off().await.unwrap();
    assert!(accepted.answer.contains("completion code"), "{accepted:?}");
    host.step();
    assert_eq!(host.real_power(), Real::Off);
    let expected = Counters {
        offs: 1,
        ..received(&[(ResetType::ForceOff, 2)])
    };
    assert_eq!(done(host), expected);
}

/// It is usually the same account, and each attempt counts towards locking it.
#[tokio::test]
async fn wrong_password_does_not_fail_over() {
    let both = Both::start().await;
    let mut wrong = config(&both.sim);
    wrong.password = "wrong".into();
    let redfish: Arc<dyn Bmc> = Arc::from(connect(wrong).unwrap());
    let mut wrong = both.ipmi_config();
    wrong.password = "wrong".into();
    let ipmi: Arc<dyn Bmc> = Arc::from(ipmi::connect(wrong).unwrap());

    let settings = FailoverSettings::default();
    let bmc = Failover::new(vec![redfish, both.ipmi()], settings).unwrap();
    for command in PowerCommand::ALL {
        let error = bmc.command(command).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    }
    assert_eq!(both.ipmi.counters().packets, 0);

    let requests = both.sim.host.counters().requests;
    let bmc = Failover::new(vec![ipmi, both.redfish()], settings).unwrap();
    let error = bmc.power().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Authentication, "{error}");
    assert_eq!(both.sim.host.counters().requests, requests);
    assert_eq!(done(&both.sim.host), Counters::default());
}
