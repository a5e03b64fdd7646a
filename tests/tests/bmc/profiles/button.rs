//! A BMC that has only the power button and reports the power state late: what is really switched.

use std::time::Duration;

use rackhand_bmc::operation::{DuringUpdate, Expected, OperationRequest};
use rackhand_bmc::operation::{Goal, Outcome, Report, Timing, run};
use rackhand_bmc::{Bmc, PowerState};
use rackhand_tests::rack::redfish::Profile;
use rackhand_tests::rack::{PowerState as RealPower, PowerTimings, ResetType};

use super::client::{client, off};
use crate::rack_support::redfish_client::Sim;

/// A minute of lag, and the 90 s after which the state is trusted, a hundred times as fast.
const LAG: Duration = Duration::from_millis(600);
const TRUSTED: Duration = Duration::from_millis(900);

async fn lagging(is_on: bool) -> Sim {
    let none = Duration::ZERO;
    Sim::start(|host| {
        host.starts_on = is_on;
        host.timings = PowerTimings {
            off_takes: none,
            on_takes: none,
            boot_takes: none,
            shutdown_takes: none,
            cycle_pause: none,
        };
        host.bmc.profile = Profile {
            state_lag: LAG,
            ..Profile::button_only()
        };
    })
    .await
}

async fn operate(bmc: &dyn Bmc, goal: Goal) -> Report {
    let request = OperationRequest {
        goal,
        deadline: Duration::from_secs(30),
        expected: Expected::default(),
        timing: Timing {
            poll_first: Duration::from_millis(2),
            poll_max: Duration::from_millis(20),
            resend_after: Duration::from_millis(100),
            state_lag: TRUSTED,
            ..Timing::default()
        },
        during_update: DuringUpdate::Refuse,
    };
    run(bmc, request, &mut ()).await
}

#[tokio::test]
async fn host_with_only_a_button_is_switched_on_once_while_the_state_lags() {
    let sim = lagging(false).await;
    let report = operate(client(&sim).as_ref(), Goal::On).await;
    assert_eq!(
        report.outcome,
        Outcome::Confirmed {
            state: PowerState::On,
            commanded: true
        },
        "{report:?}"
    );
    assert_eq!(report.commands, 1);
    let counters = sim.host.counters();
    assert_eq!(counters.received(ResetType::PushPowerButton), 1);
    assert_eq!((counters.ons, counters.offs), (1, 0));
    assert_eq!(sim.host.real_power(), RealPower::On);
}

#[tokio::test]
async fn lost_press_is_repeated_once_after_the_lag() {
    let sim = lagging(false).await;
    sim.host.ignore_commands();
    let begun = std::time::Instant::now();
    let bmc = client(&sim);
    let operation = operate(bmc.as_ref(), Goal::On);
    let second = async {
        while sim.host.counters().received(ResetType::PushPowerButton) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let waited = begun.elapsed();
        // The second press is ignored too; another hand switches the host on.
        sim.host.switch(ResetType::On, "a person");
        waited
    };
    let (report, waited) = tokio::join!(operation, second);
    assert!(waited > TRUSTED, "pressed again after {waited:?}");
    assert!(report.outcome.is_done(), "{report:?}");
    assert_eq!(report.commands, 2);
    let counters = sim.host.counters();
    assert_eq!(counters.received(ResetType::PushPowerButton), 2);
    assert_eq!((counters.ons, counters.offs), (1, 0));
}

#[tokio::test]
async fn cycle_with_only_a_button_ends_on() {
    let sim = lagging(true).await;
    let Goal::Off {
        confirmations,
        confirm_interval,
        ..
    } = off()
    else {
        panic!()
    };
    let cycle = Goal::Cycle {
        hold_off: Duration::from_millis(10),
        confirmations,
        confirm_interval,
    };
    let report = operate(client(&sim).as_ref(), cycle).await;
    assert_eq!(report.outcome, Outcome::Cycled { was_off: false });
    let counters = sim.host.counters();
    assert_eq!(counters.received(ResetType::PushPowerButton), 1);
    assert_eq!((counters.offs, counters.ons), (1, 1));
}
