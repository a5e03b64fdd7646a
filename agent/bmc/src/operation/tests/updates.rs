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
    /// No update runs before this reading, which is the second one; what it shows runs from then on.
    Later(FirmwareUpdate, Meanwhile),
    Fails(ErrorKind),
    Hangs,
    /// A whole reading takes so long, and shows this update at its end.
    Takes(Duration, FirmwareUpdate),
}

/// What happens to the host when the update is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    StaysOn,
    GoesOff,
}

/// A BMC that is on until it is sent a command, and records its calls.
#[derive(Debug)]
struct Updating {
    asked: Asked,
    state: Mutex<PowerState>,
    calls: Mutex<Vec<String>>,
    /// How long it takes for a power reading, the first one is number 1.
    power_takes: fn(usize) -> Duration,
    /// How long it takes for a reading of the updates.
    updates_take: Duration,
}

impl Updating {
    fn new(asked: Asked) -> Self {
        Self {
            asked,
            state: Mutex::new(On),
            calls: Mutex::default(),
            power_takes: |_| Duration::ZERO,
            updates_take: Duration::ZERO,
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
            let read = self.calls();
            let read = read.iter().filter(|call| *call == "power").count();
            tokio::time::sleep((self.power_takes)(read)).await;
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
            let is_ignored =
                matches!(self.asked, Asked::Later(..)) && command.leads_to() == Some(Off);
            if let Some(state) = command.leads_to().filter(|_| !is_ignored) {
                *self.state.lock().unwrap() = state;
            }
            Ok(Accepted::taken("ForceOff", "204"))
        })
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            self.calls.lock().unwrap().push("updates".into());
            tokio::time::sleep(self.updates_take).await;
            match &self.asked {
                Asked::Takes(whole, update) => {
                    tokio::time::sleep(limit.min(*whole)).await;
                    let partial = FirmwareUpdates {
                        unread: vec!["tasks: not read in time".into()],
                        needs: Some(*whole),
                        ..FirmwareUpdates::default()
                    };
                    let is_whole = limit >= *whole;
                    Ok(if is_whole {
                        found(std::slice::from_ref(update))
                    } else {
                        partial
                    })
                }
                Asked::Says(updates) => Ok(updates.clone()),
                Asked::Hangs => std::future::pending().await,
                Asked::Later(update, meanwhile) => {
                    let read = self.calls();
                    let read = read.iter().filter(|call| *call == "updates").count();
                    if read < 2 {
                        return Ok(FirmwareUpdates::default());
                    }
                    if *meanwhile == Meanwhile::GoesOff {
                        *self.state.lock().unwrap() = Off;
                    }
                    Ok(found(std::slice::from_ref(update)))
                }
                Asked::Fails(kind) => Err(BmcError {
                    kind: *kind,
                    bmc: "memory".into(),
                    message: "none".into(),
                    retry_after: None,
                    maybe_sent: false,
                    not_sent: false,
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
        let expected = Outcome::FirmwareUpdate {
            update: running,
            commands: 0,
        };
        assert_eq!(report.outcome, expected, "{goal:?}");
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
    for (asked, most) in [
        (Asked::Fails(ErrorKind::Timeout), s(5)),
        (Asked::Hangs, s(11)),
    ] {
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

/// Runs an operation at a BMC that takes its first command without effect, and reports an update from then on.
async fn run_into(goal: Goal, meanwhile: Meanwhile) -> (Report, Vec<String>) {
    let bmc = Updating::new(Asked::Later(update(UpdatePhase::Running), meanwhile));
    let request = OperationRequest {
        goal,
        deadline: s(120),
        ..off()
    };
    let report = run(&bmc, request, &mut ()).await;
    let mut commands = bmc.calls();
    commands.retain(|call| !["power", "updates"].contains(&&**call));
    (report, commands)
}

#[tokio::test(start_paused = true)]
async fn power_off_is_not_repeated_into_an_update_that_has_begun_since() {
    let (report, commands) = run_into(off().goal, Meanwhile::StaysOn).await;
    assert_eq!(commands, ["Off"]);
    assert_eq!(
        report.outcome,
        Outcome::FirmwareUpdate {
            update: update(UpdatePhase::Running),
            commands: 1
        }
    );
    let text = report.outcome.to_string();
    assert!(text.contains("may still take effect"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn host_that_shuts_down_is_not_forced_off_into_an_update() {
    let soft = Goal::SoftOff {
        limit: s(10),
        then_force: true,
        confirmations: 2,
        confirm_interval: s(2),
    };
    let (report, commands) = run_into(soft, Meanwhile::StaysOn).await;
    assert_eq!(commands, ["SoftOff"]);
    assert!(
        matches!(report.outcome, Outcome::FirmwareUpdate { commands: 1, .. }),
        "{}",
        report.outcome
    );
}

#[tokio::test(start_paused = true)]
async fn cycle_that_finds_an_update_after_its_power_off_leaves_the_host_on() {
    let cycle = Goal::Cycle {
        hold_off: s(5),
        confirmations: 2,
        confirm_interval: s(2),
    };
    let (report, commands) = run_into(cycle.clone(), Meanwhile::StaysOn).await;
    assert_eq!(commands, ["Off"]);
    assert!(
        matches!(report.outcome, Outcome::FirmwareUpdate { commands: 1, .. }),
        "{}",
        report.outcome
    );
    // The power-off takes effect late.
    let (report, commands) = run_into(cycle, Meanwhile::GoesOff).await;
    assert_eq!(commands, ["Off", "On"]);
    assert!(
        matches!(report.outcome, Outcome::FirmwareUpdate { commands: 2, .. }),
        "{}",
        report.outcome
    );
    assert_eq!(report.readings.last().unwrap().state, On);
}

#[tokio::test(start_paused = true)]
async fn report_says_that_updates_were_not_known() {
    let partial = FirmwareUpdates {
        read: vec!["UpdateService".into()],
        unread: vec!["tasks: not read in time".into()],
        ..FirmwareUpdates::default()
    };
    for (asked, unknown) in [
        (Asked::Fails(ErrorKind::Timeout), Some("none")),
        (Asked::Says(partial), Some("tasks: not read in time")),
        // Such a BMC never reports them.
        (Asked::Fails(ErrorKind::Unsupported), None),
        (Asked::Says(found(&[])), None),
    ] {
        let bmc = Updating::new(asked.clone());
        let report = run(&bmc, off(), &mut ()).await;
        assert!(report.outcome.is_done(), "{asked:?}: {}", report.outcome);
        assert_eq!(report.updates_unknown.as_deref(), unknown, "{asked:?}");
    }
}

#[test]
fn slow_bmc_has_more_time_for_its_updates_within_the_deadline() {
    let limit = |took: Duration, now: Duration| {
        let mut operation = Operation::new(OperationRequest {
            deadline: s(120),
            ..off()
        });
        let seen = Observation {
            state: On,
            source: PowerSource::Redfish,
            identity: SystemIdentity::default(),
            connection: None,
        };
        operation.read(Duration::ZERO, took, Ok(seen));
        operation.updates_limit(now)
    };
    let ms = Duration::from_millis;
    assert_eq!(limit(ms(20), s(1)), s(6));
    assert_eq!(limit(s(1), s(1)), s(24));
    assert_eq!(limit(s(9), s(1)), s(30));
    assert_eq!(limit(s(9), s(60)), s(20), "a third of what is left");
    assert_eq!(limit(ms(20), s(111)), s(3));
    assert_eq!(limit(ms(20), s(130)), s(0));
}

#[tokio::test(start_paused = true)]
async fn update_that_begins_during_a_slow_power_reading_is_seen() {
    for takes in [3, 9, 15] {
        let bmc = Updating {
            power_takes: match takes {
                3 => |number| s(if number == 2 { 3 } else { 0 }),
                9 => |number| s(if number == 2 { 9 } else { 0 }),
                _ => |number| s(if number == 2 { 15 } else { 0 }),
            },
            // So long that the power is read again.
            updates_take: s(4),
            ..Updating::new(Asked::Later(
                update(UpdatePhase::Running),
                Meanwhile::StaysOn,
            ))
        };
        let report = run(&bmc, off(), &mut ()).await;
        let is_update = matches!(report.outcome, Outcome::FirmwareUpdate { commands: 0, .. });
        assert!(is_update, "{takes}: {}", report.outcome);
        let calls = ["power", "updates", "power", "updates"];
        assert_eq!(bmc.calls(), calls, "{takes}");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_bmc_is_not_read_for_ever() {
    for (power_takes, calls) in [
        // Its updates are the last that is read.
        (
            (|_| s(9)) as fn(usize) -> Duration,
            &["power", "updates", "Off"][..],
        ),
        (|_| s(1), &["power", "updates", "power", "Off"]),
    ] {
        let bmc = Updating {
            power_takes,
            updates_take: s(5),
            ..Updating::new(Asked::Says(found(&[])))
        };
        let report = run(&bmc, off(), &mut ()).await;
        assert!(report.outcome.is_done(), "{}", report.outcome);
        assert_eq!(&bmc.calls()[..calls.len()], calls);
        assert_eq!(report.updates_unknown, None);
    }
}

#[tokio::test(start_paused = true)]
async fn time_for_updates_follows_what_they_take() {
    let running = update(UpdatePhase::Running);
    let bmc = Updating::new(Asked::Takes(s(12), running));
    let request = OperationRequest {
        deadline: s(60),
        ..off()
    };
    let report = run(&bmc, request.clone(), &mut ()).await;
    let is_update = matches!(report.outcome, Outcome::FirmwareUpdate { commands: 0, .. });
    assert!(is_update, "{}", report.outcome);
    // Never longer than a third of what is left, and not again and again.
    let bmc = Updating::new(Asked::Takes(s(40), update(UpdatePhase::Running)));
    let report = run(&bmc, request, &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    let unknown = report.updates_unknown.as_deref();
    assert_eq!(unknown, Some("tasks: not read in time"));
    assert_eq!(
        bmc.calls().iter().filter(|call| *call == "updates").count(),
        2
    );
}

#[test]
fn command_is_bound_to_what_was_read_of_the_updates() {
    let mut operation = Operation::new(off());
    let at = |tenths: u64| Duration::from_millis(tenths * 100);
    assert_eq!(operation.sends_until(PowerCommand::Off), None, "not read");
    operation.updates_read(at(0), at(10), Ok(&found(&[])));
    assert_eq!(operation.sends_until(PowerCommand::Off), Some(at(30)));
    assert_eq!(operation.sends_until(PowerCommand::On), None);
    assert!(!operation.reads_updates(PowerCommand::Off, at(30)));
    assert!(operation.reads_updates(PowerCommand::Off, at(31)));
    for _ in 0..2 {
        operation.was_late(at(50));
        assert!(operation.reads_updates(PowerCommand::Off, at(50)));
        operation.updates_read(at(50), at(60), Ok(&found(&[])));
    }
    // A BMC that is too slow each time is switched all the same, and that is said.
    assert_eq!(operation.sends_until(PowerCommand::Off), None);
    operation.sending(at(60));
    let unknown = operation.updates_unknown().unwrap_or_default();
    assert!(unknown.contains("longer than 2 s"), "{unknown}");
    // A BMC that does not answer, or reports none, is not asked again at once.
    operation.updates_read(at(60), at(70), Err("none".into()));
    assert_eq!(operation.sends_until(PowerCommand::Off), None);
    assert!(!operation.reads_updates(PowerCommand::Off, at(200)));
}
