//! The runner against a BMC in memory, in paused time.

use std::sync::Mutex;

use tokio::time::Instant;

use super::*;
use crate::{Accepted, Bmc, BmcFuture};

/// A BMC that records commands.
#[derive(Debug)]
struct Memory {
    state: Mutex<PowerState>,
    commands: Mutex<Vec<PowerCommand>>,
    /// Whether readings get no response.
    mute: bool,
    /// Error of every command.
    refuse: Option<ErrorKind>,
    /// Whether a refused command is carried out all the same.
    obeys: bool,
    /// Whether the host ignores a soft power-off.
    deaf: bool,
    /// How long a reading takes.
    slow: Duration,
}

impl Memory {
    fn new(state: PowerState) -> Self {
        Self {
            state: Mutex::new(state),
            commands: Mutex::default(),
            mute: false,
            refuse: None,
            obeys: false,
            deaf: false,
            slow: ms(10),
        }
    }

    fn error(&self, kind: ErrorKind) -> BmcError {
        BmcError {
            kind,
            bmc: "memory".into(),
            message: "said so".into(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        }
    }
}

impl Bmc for Memory {
    fn address(&self) -> &str {
        "memory"
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async {
            if self.mute {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(self.slow).await;
            let state = *self.state.lock().unwrap();
            Ok(PowerReading {
                state,
                raw: format!("{state:?}"),
                source: PowerSource::Ipmi,
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
            self.commands.lock().unwrap().push(command);
            if let Some(kind) = self.refuse {
                if self.obeys
                    && let Some(state) = command.leads_to()
                {
                    *self.state.lock().unwrap() = state;
                }
                return Err(self.error(kind));
            }
            let is_ignored = self.deaf && command == PowerCommand::SoftOff;
            if let Some(state) = command.leads_to().filter(|_| !is_ignored) {
                *self.state.lock().unwrap() = state;
            }
            Ok(Accepted::taken(command.words(), "0x00"))
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Records the calls of the hooks.
#[derive(Default)]
struct Notes(Vec<String>);

impl Hooks for Notes {
    fn reading(&mut self, reading: &PowerReading, _: Proof) {
        self.0.push(format!("read {}", state_word(reading.state)));
    }

    fn sending(&mut self, command: PowerCommand) {
        self.0.push(format!("sending {}", command.words()));
    }

    fn accepted(&mut self, accepted: &Accepted) {
        self.0.push(format!("answered {}", accepted.answer));
    }

    fn failed(&mut self, error: &BmcError) {
        self.0.push(format!("failed {}", error.message));
    }
}

#[tokio::test(start_paused = true)]
async fn power_off_reports_progress_and_readings() {
    let (bmc, mut notes) = (Memory::new(On), Notes::default());
    let report = super::super::run(&bmc, off(), &mut notes).await;
    assert_eq!(report.outcome.to_string(), "confirmed off");
    assert_eq!((report.commands, report.readings.len()), (1, 2));
    assert!(report.readings.iter().all(|reading| reading.state == Off));
    assert!(report.elapsed >= s(2) && report.elapsed < s(3));
    assert_eq!(
        notes.0,
        [
            "read on",
            "sending power off",
            "answered 0x00",
            "read off",
            "read off"
        ]
    );
}

/// Records for what the BMC was acquired.
#[derive(Default)]
struct Acquisitions {
    is_soft: bool,
    sent: Vec<(PowerCommand, bool)>,
}

impl Hooks for Acquisitions {
    async fn acquire(&mut self, operation: &Operation) -> bool {
        self.is_soft = operation.is_soft();
        true
    }

    fn sending(&mut self, command: PowerCommand) {
        self.sent.push((command, self.is_soft));
    }
}

/// The time for the shutdown ends during a reading, which has acquired the BMC for a soft operation.
#[tokio::test(start_paused = true)]
async fn bmc_is_acquired_anew_before_a_soft_power_off_forces() {
    for slow in (1..20).map(|step| ms(step * 700)) {
        let bmc = Memory {
            deaf: true,
            slow,
            ..Memory::new(On)
        };
        let mut acquired = Acquisitions::default();
        super::super::run(&bmc, super::soft::soft(s(9), true), &mut acquired).await;
        let forced: Vec<bool> = acquired
            .sent
            .iter()
            .filter(|(command, _)| *command == PowerCommand::Off)
            .map(|(_, is_soft)| *is_soft)
            .collect();
        assert!(
            !forced.is_empty() && forced.iter().all(|is_soft| !is_soft),
            "{slow:?}: {:?}",
            acquired.sent
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cycle_ends_with_the_host_on() {
    let bmc = Memory::new(On);
    let goal = Goal::Cycle {
        hold_off: s(10),
        confirmations: 2,
        confirm_interval: s(2),
    };
    let report = super::super::run(&bmc, OperationRequest { goal, ..off() }, &mut ()).await;
    assert_eq!(report.outcome, Outcome::Cycled { was_off: false });
    assert_eq!(
        *bmc.commands.lock().unwrap(),
        [PowerCommand::Off, PowerCommand::On]
    );
    assert_eq!(report.readings.len(), 1);
    assert!(report.elapsed >= s(12));
}

#[tokio::test(start_paused = true)]
async fn rejected_reset_reports_the_error_text_of_the_bmc() {
    let bmc = Memory {
        refuse: Some(ErrorKind::Refused),
        ..Memory::new(On)
    };
    let asked = OperationRequest {
        goal: Goal::Reset,
        ..off()
    };
    let report = super::super::run(&bmc, asked, &mut ()).await;
    assert_eq!(report.outcome, Outcome::Failed(ErrorKind::Refused));
    assert_eq!(report.error.unwrap().message, "said so");
    assert_eq!(*bmc.commands.lock().unwrap(), [PowerCommand::Reset]);
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_power_off_says_what_was_sent_and_what_was_read_after_it() {
    for kind in [ErrorKind::Privilege, ErrorKind::Unsupported] {
        for (obeys, last) in [(true, "off"), (false, "on")] {
            for goal in [
                off().goal,
                Goal::Cycle {
                    hold_off: s(1),
                    confirmations: 1,
                    confirm_interval: s(1),
                },
            ] {
                let bmc = Memory {
                    refuse: Some(kind),
                    obeys,
                    ..Memory::new(On)
                };
                let report =
                    super::super::run(&bmc, OperationRequest { goal, ..off() }, &mut ()).await;
                assert_eq!(report.outcome, Outcome::Failed(kind));
                assert_eq!(*bmc.commands.lock().unwrap(), [PowerCommand::Off]);
                let expected = format!(
                    "1 command was sent and may have worked all the same, the last reading was {last}"
                );
                assert_eq!(report.after_failure(), Some(expected));
                assert_eq!(report.error.unwrap().message, "said so");
            }
        }
    }
    let wrong = Memory {
        refuse: Some(ErrorKind::Authentication),
        ..Memory::new(On)
    };
    let report = super::super::run(&wrong, off(), &mut ()).await;
    assert_eq!(report.readings.len(), 1, "{report:?}");
}

/// A caller that is gone after some time, and the operation's knowledge of that.
struct Gone {
    at: Instant,
    is_known: bool,
}

impl Hooks for Gone {
    fn signal(&self) -> Signal {
        match Instant::now() >= self.at {
            true => Signal::CallerGone,
            false => Signal::Continue,
        }
    }

    fn abandoned(&mut self) {
        self.is_known = true;
    }

    async fn interrupted(&mut self) {
        if self.is_known {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep_until(self.at).await;
    }
}

#[tokio::test(start_paused = true)]
async fn f17_end_of_the_caller_ends_an_operation_at_once() {
    let bmc = Memory {
        mute: true,
        ..Memory::new(On)
    };
    let begun = Instant::now();
    let mut gone = Gone {
        at: begun + s(5),
        is_known: false,
    };
    let report = super::super::run(&bmc, off(), &mut gone).await;
    assert_eq!(report.outcome, Outcome::CallerGone { is_on: false });
    assert_eq!(begun.elapsed(), s(5));
}

#[tokio::test(start_paused = true)]
async fn f17_end_of_the_caller_lets_a_cycle_switch_on() {
    let bmc = Memory::new(On);
    let goal = Goal::Cycle {
        hold_off: s(10),
        confirmations: 2,
        confirm_interval: s(2),
    };
    let mut gone = Gone {
        at: Instant::now() + s(1),
        is_known: false,
    };
    let report = super::super::run(&bmc, OperationRequest { goal, ..off() }, &mut gone).await;
    assert_eq!(report.outcome, Outcome::CallerGone { is_on: true });
    assert_eq!(
        *bmc.commands.lock().unwrap(),
        [PowerCommand::Off, PowerCommand::On]
    );
}

#[tokio::test(start_paused = true)]
async fn unresponsive_bmc_ends_at_the_deadline() {
    let bmc = Memory {
        mute: true,
        ..Memory::new(On)
    };
    let begun = Instant::now();
    let report = super::super::run(&bmc, off(), &mut ()).await;
    assert_eq!(begun.elapsed(), s(60));
    assert_eq!(
        report.outcome.to_string(),
        "not confirmed off within 60s: the BMC could not be read"
    );
    assert!(report.readings.is_empty());
    let error = report.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert_eq!(error.message, "no answer within 60 s");
}
