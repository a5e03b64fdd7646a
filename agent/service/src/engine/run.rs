//! Carries out one operation: asks the decision what is next, does it, and writes it down first
//! where it is a command.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use jiff::Timestamp;
use rackhand_bmc::BmcError;
use rackhand_proto::v1::{self, await_response::Event};
use tokio::time::sleep_until;
use tracing::{info, warn};

use super::{
    Shared,
    clients::permit,
    handle::Handle,
    target::Target,
    wire::{self, failure_to_proto},
};
use crate::{
    journal::interrupted,
    operation::{Asked, Command, Ending, Failed, Next, Operation, Seen},
};

/// Readings that an outcome carries when it is not a confirmation.
const EVIDENCE: usize = 3;

pub(super) struct Run {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: Arc<Handle>,
    pub(super) target: Target,
    pub(super) asked: Asked,
}

/// What an operation has seen and done, for its outcome.
#[derive(Default)]
struct Evidence {
    recent: VecDeque<v1::PowerReading>,
    confirming: Vec<v1::PowerReading>,
    failure: Option<v1::Failure>,
    /// The same failure without the host's name.
    error: String,
    commands: u32,
}

/// Why a run ends other than by decision.
enum Stop {
    /// The agent stops.
    Agent,
    /// The journal does not take what must be written first.
    Journal(String),
}

impl Run {
    /// Runs to the end, writes the outcome down and tells everybody.
    pub(super) async fn run(self) {
        let mut guard = Guard(Some(self.handle.clone()));
        let outcome = self.outcome().await;
        let at = wall_clock();
        let id = self.handle.id.clone();
        if let Err(error) = self.shared.journal.finish(id, at, outcome.clone()).await {
            warn!(operation = %self.handle.id, host = %self.handle.host, %error, "cannot write the outcome down");
        }
        info!(
            operation = %self.handle.id,
            host = %self.handle.host,
            action = self.handle.action,
            outcome = outcome.code().as_str_name(),
            commands = outcome.commands_sent,
            elapsed = ?self.handle.begun.elapsed(),
            "{}", outcome.message,
        );
        self.handle.event(Event::Outcome(outcome));
        guard.0 = None;
    }

    fn now(&self) -> Duration {
        self.handle.begun.elapsed()
    }

    async fn outcome(&self) -> v1::Outcome {
        let lane = self.shared.clients.lane(&self.target);
        let mut op = Operation::new(self.asked.clone());
        let mut evidence = Evidence::default();
        let turn = tokio::select! {
            turn = permit(&lane.turn) => Some(turn),
            () = sleep_until(self.handle.begun + op.deadline()) => None,
            () = self.handle.cancel.cancelled() => None,
            () = self.shared.stop.cancelled() => return interrupted(0),
        };
        if turn.is_none() && !self.handle.cancel.is_cancelled() {
            return self.never_its_turn();
        }
        loop {
            if self.handle.cancel.is_cancelled() {
                op.cancel();
            }
            let stopped = match op.next(self.now()) {
                Next::Done(ending) => return self.ended(&ending, evidence),
                Next::Wait(until) => self.wait(until).await,
                next => {
                    let call = tokio::select! {
                        call = permit(&lane.call) => call,
                        () = sleep_until(self.handle.begun + op.deadline()) => continue,
                        () = self.handle.cancel.cancelled() => continue,
                        () = self.shared.stop.cancelled() => {
                            return self.stopped(Stop::Agent, evidence);
                        }
                    };
                    let stopped = if next == Next::Read {
                        self.read(&mut op, &mut evidence).await
                    } else {
                        self.send(&mut op, &mut evidence).await
                    };
                    drop(call);
                    stopped
                }
            };
            if let Err(stop) = stopped {
                return self.stopped(stop, evidence);
            }
        }
    }

    async fn wait(&self, until: Duration) -> Result<(), Stop> {
        tokio::select! {
            () = sleep_until(self.handle.begun + until) => Ok(()),
            () = self.handle.cancel.cancelled() => Ok(()),
            () = self.shared.stop.cancelled() => Err(Stop::Agent),
        }
    }

    async fn read(&self, op: &mut Operation, evidence: &mut Evidence) -> Result<(), Stop> {
        let begun = self.now();
        let left = self.handle.begun + op.deadline();
        let result = tokio::select! {
            result = self.shared.clients.read_now(&self.target) => result,
            () = sleep_until(left) => return Ok(()),
            () = self.handle.cancel.cancelled() => return Ok(()),
            () = self.shared.stop.cancelled() => return Err(Stop::Agent),
        };
        let now = self.now();
        match result {
            Ok(reading) => {
                let shown = wire::reading_to_proto(&reading, self.shared.since_start());
                let before = op.confirmations();
                let seen = Seen {
                    state: reading.state,
                    identity: reading.identity,
                };
                op.read(begun, now, Ok(seen));
                match op.confirmations() {
                    0 => evidence.confirming.clear(),
                    1 if before != 1 => evidence.confirming = vec![shown.clone()],
                    n if n > before => evidence.confirming.push(shown.clone()),
                    _ => {}
                }
                if evidence.recent.len() == EVIDENCE {
                    evidence.recent.pop_front();
                }
                evidence.recent.push_back(shown.clone());
                self.handle.event(Event::Reading(shown));
            }
            Err(error) => {
                op.read(begun, now, Err(failed(&error)));
                evidence.confirming.clear();
                self.failure(evidence, &error);
            }
        }
        Ok(())
    }

    async fn send(&self, op: &mut Operation, evidence: &mut Evidence) -> Result<(), Stop> {
        // The reading may have become too old while the lane was busy.
        let Next::Send(command) = op.next(self.now()) else {
            return Ok(());
        };
        let id = self.handle.id.clone();
        let written = self.shared.journal.sending(id, wall_clock()).await;
        if let Err(error) = written {
            return Err(Stop::Journal(error.to_string()));
        }
        if self.handle.cancel.is_cancelled() {
            return Ok(());
        }
        if self.shared.stop.is_cancelled() {
            return Err(Stop::Agent);
        }
        op.sending(self.now());
        evidence.commands += 1;
        let word = command_word(command);
        self.handle.event(Event::CommandSent(v1::CommandSent {
            command: word.to_owned(),
            answer: String::new(),
        }));
        // Once begun it is not cut: half a command is worse than a late one.
        match self.shared.clients.command(&self.target, command).await {
            Ok(accepted) => {
                op.sent(self.now(), Ok(()));
                self.handle.event(Event::CommandSent(v1::CommandSent {
                    command: accepted.command,
                    answer: accepted.answer,
                }));
            }
            Err(error) => {
                op.sent(self.now(), Err(failed(&error)));
                self.failure(evidence, &error);
            }
        }
        Ok(())
    }

    fn failure(&self, evidence: &mut Evidence, error: &BmcError) {
        let failure = failure_to_proto(&self.target.host, error);
        evidence.failure = Some(failure.clone());
        evidence.error = error.to_string();
        self.handle.event(Event::Failure(failure));
    }

    fn ended(&self, ending: &Ending, evidence: Evidence) -> v1::Outcome {
        let host = &self.target.host;
        let mut message = format!("host {host}: {ending}");
        let mut failure = None;
        let code = match ending {
            Ending::Confirmed { .. } => v1::OutcomeCode::Confirmed,
            Ending::Unconfirmed { .. } => v1::OutcomeCode::Unconfirmed,
            Ending::Failed(_) => v1::OutcomeCode::Failed,
            Ending::IdentityMismatch(_) => v1::OutcomeCode::IdentityMismatch,
            Ending::Cancelled => v1::OutcomeCode::Cancelled,
        };
        match ending {
            Ending::Confirmed { .. } => {}
            Ending::IdentityMismatch(_) => {
                if evidence.commands > 0 {
                    message = format!(
                        "{message}. {} commands had been sent before the BMC changed its answer",
                        evidence.commands
                    );
                }
                failure = Some(v1::Failure {
                    kind: v1::FailureKind::Identity.into(),
                    message: message.clone(),
                });
            }
            Ending::Unconfirmed { .. } | Ending::Failed(_) | Ending::Cancelled => {
                failure = evidence.failure;
                if failure.is_some() && !matches!(ending, Ending::Cancelled) {
                    message = format!("{message} ({})", evidence.error);
                }
            }
        }
        let readings = match ending {
            Ending::Confirmed { .. } => evidence.confirming,
            _ => evidence.recent.into(),
        };
        v1::Outcome {
            code: code.into(),
            message,
            readings,
            commands_sent: evidence.commands,
            failure,
        }
    }

    fn never_its_turn(&self) -> v1::Outcome {
        v1::Outcome {
            code: v1::OutcomeCode::Unconfirmed.into(),
            message: format!(
                "host {}: another operation on its BMC went on until the deadline; nothing was \
                 sent",
                self.target.host
            ),
            ..v1::Outcome::default()
        }
    }

    fn stopped(&self, stop: Stop, evidence: Evidence) -> v1::Outcome {
        let sent = usize::try_from(evidence.commands).unwrap_or(usize::MAX);
        let mut outcome = match stop {
            Stop::Agent => interrupted(sent),
            Stop::Journal(error) => v1::Outcome {
                code: v1::OutcomeCode::Failed.into(),
                message: format!(
                    "host {}: the command was not sent, because it could not be written down \
                     first: {error}",
                    self.target.host
                ),
                commands_sent: evidence.commands,
                ..v1::Outcome::default()
            },
        };
        outcome.readings = evidence.recent.into();
        outcome.failure = evidence.failure;
        outcome
    }
}

/// Tells listeners that an operation is over although its task ended without saying so.
struct Guard(Option<Arc<Handle>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.event(Event::Outcome(interrupted(0)));
        }
    }
}

fn failed(error: &BmcError) -> Failed {
    Failed {
        kind: error.kind,
        retry_after: error.retry_after,
    }
}

fn command_word(command: Command) -> &'static str {
    match command {
        Command::Off => "off",
        Command::On => "on",
    }
}

/// For the journal: nanoseconds of the Unix epoch.
pub(super) fn wall_clock() -> i64 {
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}
