//! Updates of firmware that run when a host would lose its power.

use std::sync::Mutex;

use tokio::time::Instant;

use super::*;
use crate::{
    Accepted, Bmc, BmcFuture, FirmwareUpdate, FirmwareUpdates, UpdatePhase, operation::run,
};

fn update(phase: UpdatePhase) -> FirmwareUpdate {
    FirmwareUpdate {
        source: "job JID_1".into(),
        name: "BIOS".into(),
        phase,
        state: "Running".into(),
        percent: Some(40),
        message: String::new(),
    }
}

fn found(updates: &[FirmwareUpdate]) -> FirmwareUpdates {
    FirmwareUpdates {
        updates: updates.to_vec(),
        ..FirmwareUpdates::default()
    }
}

/// What the BMC does when it is asked for updates.
#[derive(Debug, Clone)]
enum Asked {
    Says(FirmwareUpdates),
    Fails,
    Hangs,
}

/// A BMC that is on until it is sent a command, and records its calls.
#[derive(Debug)]
struct Updating {
    asked: Asked,
    state: Mutex<PowerState>,
    calls: Mutex<Vec<String>>,
}

impl Updating {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            state: Mutex::new(On),
            calls: Mutex::default(),
        }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn commands(&self) -> usize {
        let calls = self.calls();
        let others = ["power", "updates"];
        calls
            .iter()
            .filter(|call| !others.contains(&&***call))
            .count()
    }
}

impl Bmc for Updating {
    fn address(&self) -> &str {
        "memory"
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async {
            self.calls.lock().unwrap().push("power".into());
            let state = *self.state.lock().unwrap();
            Ok(PowerReading {
                state,
                raw: String::new(),
                source: PowerSource::Redfish,
                identity: SystemIdentity::default(),
                at: jiff::Timestamp::UNIX_EPOCH,
                bmc: "memory".into(),
                connection: None,
                identify_led: None,
            })
        })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(format!("{command:?}"));
            if let Some(state) = command.leads_to() {
                *self.state.lock().unwrap() = state;
            }
            Ok(Accepted::taken("ForceOff", "204"))
        })
    }

    fn firmware_updates(&self) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async {
            self.calls.lock().unwrap().push("updates".into());
            match &self.asked {
                Asked::Says(updates) => Ok(updates.clone()),
                Asked::Hangs => std::future::pending().await,
                Asked::Fails => Err(BmcError {
                    kind: ErrorKind::Unsupported,
                    bmc: "memory".into(),
                    message: "none".into(),
                    retry_after: None,
                    maybe_sent: false,
                }),
            }
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn goals() -> [Goal; 5] {
    let soft = Goal::SoftOff {
        limit: s(10),
        then_force: false,
        confirmations: 2,
        confirm_interval: s(2),
    };
    let cycle = Goal::Cycle {
        hold_off: s(5),
        confirmations: 2,
        confirm_interval: s(2),
    };
    [off().goal, soft, cycle, Goal::Reset, Goal::Nmi]
}

#[tokio::test(start_paused = true)]
async fn nothing_that_takes_the_power_is_sent_into_an_update() {
    for goal in goals() {
        let running = update(UpdatePhase::Running);
        let bmc = Updating::new(Asked::Says(found(&[
            update(UpdatePhase::AtNextStart),
            running.clone(),
        ])));
        let request = OperationRequest {
            goal: goal.clone(),
            ..off()
        };
        let report = run(&bmc, request, &mut ()).await;
        assert_eq!(report.outcome, Outcome::FirmwareUpdate(running), "{goal:?}");
        assert_eq!((report.commands, bmc.commands()), (0, 0), "{goal:?}");
        let text = report.outcome.to_string();
        assert!(text.contains("job JID_1 \"BIOS\", Running, 40 %"), "{text}");
        assert!(text.contains("--during-firmware-update"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn updates_are_read_right_before_the_command() {
    let scheduled = found(&[update(UpdatePhase::AtNextStart)]);
    let bmc = Updating::new(Asked::Says(scheduled));
    let report = run(&bmc, off(), &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(&bmc.calls()[..3], ["power", "updates", "Off"]);
    let readings = bmc.calls().iter().filter(|call| *call == "updates").count();
    assert_eq!(readings, 1, "{:?}", bmc.calls());
}

#[tokio::test(start_paused = true)]
async fn person_may_go_on_deliberately_and_then_nothing_is_read() {
    let bmc = Updating::new(Asked::Says(found(&[update(UpdatePhase::Running)])));
    let request = OperationRequest {
        during_update: DuringUpdate::Proceed,
        ..off()
    };
    let report = run(&bmc, request, &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert!(!bmc.calls().contains(&"updates".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn f8_updates_that_cannot_be_read_delay_the_power_off_by_seconds_at_most() {
    for (asked, most) in [(Asked::Fails, s(5)), (Asked::Hangs, s(11))] {
        let bmc = Updating::new(asked.clone());
        let begun = Instant::now();
        let report = run(&bmc, off(), &mut ()).await;
        assert!(report.outcome.is_done(), "{asked:?}: {}", report.outcome);
        assert_eq!(bmc.commands(), 1);
        // The observation of the BMC is not interrupted, so the command proves off.
        assert_eq!(report.proof, Some(OffProof::Taken), "{asked:?}");
        assert!(begun.elapsed() < most, "{asked:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn power_on_reads_no_updates() {
    let bmc = Updating::new(Asked::Says(found(&[update(UpdatePhase::Running)])));
    *bmc.state.lock().unwrap() = Off;
    let report = run(&bmc, on(), &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert!(!bmc.calls().contains(&"updates".to_owned()));
}
