//! Carries out one operation: asks the decision what is next, does it, and writes it down first
//! where it is a command.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use rackhand_bmc::{
    BmcError, PowerCommand,
    operation::{Asked, Ending, Failed, Goal, Next, Operation, Proof, Seen},
};
use rackhand_proto::v1::{self, await_response::Event};
use tokio::time::sleep_until;
use tracing::{info, warn};

use super::{
    Shared,
    bmc_queue::{Call, Class, Place},
    handle::Handle,
    staged::Granted,
    target::Target,
    wire::{self, failure_to_proto},
};
use crate::journal::{interrupted, wall_clock};

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
    /// Whether nothing else has happened since that failure was told.
    told: bool,
    commands: u32,
    /// The first power-off that the BMC took (F1).
    off_taken: Option<v1::CommandTaken>,
}

/// Why a run ends other than by decision.
pub(super) enum Stop {
    /// The agent stops.
    Agent,
    /// The journal does not take what must be written first.
    Journal(String),
}

impl Run {
    /// Runs to the end, writes the outcome down and tells everybody.
    pub(super) async fn run(self, place: Place) {
        let mut guard = Guard(Some(self.handle.clone()));
        let outcome = self.outcome(place).await;
        let at = wall_clock();
        let id = self.handle.id.clone();
        let took = self.handle.begun.elapsed();
        let word = outcome_word(outcome.code());
        self.shared
            .metrics
            .operation(self.handle.action, word, took);
        if let Err(error) = self.shared.journal.finish(id, at, outcome.clone()).await {
            self.shared.metrics.journal_error();
            warn!(operation = %self.handle.id, host = %self.handle.host, %error, "cannot write the outcome down");
        }
        info!(
            operation = %self.handle.id,
            host = %self.handle.host,
            action = self.handle.action,
            outcome = outcome.code().as_str_name(),
            commands = outcome.commands_sent,
            elapsed = ?took,
            "{}", outcome.message,
        );
        self.handle.event(Event::Outcome(outcome));
        guard.0 = None;
    }

    fn now(&self) -> Duration {
        self.handle.begun.elapsed()
    }

    async fn outcome(&self, place: Place) -> v1::Outcome {
        let mut op = Operation::new(self.asked.clone());
        let mut evidence = Evidence::default();
        let mut granted = Granted::default();
        let turn = tokio::select! {
            () = place.turn() => true,
            () = sleep_until(self.handle.begun + op.deadline()) => false,
            () = self.handle.cancel.cancelled() => false,
            () = self.shared.stop.cancelled() => return interrupted(0),
        };
        if !turn && !self.handle.cancel.is_cancelled() {
            return self.never_its_turn();
        }
        loop {
            if self.handle.cancel.is_cancelled() {
                op.cancel();
            }
            if self.forces(&op) {
                place.hold_turn();
            }
            let stopped = match op.next(self.now()) {
                Next::Done(ending) => return self.ended(&ending, evidence),
                Next::Wait(until) => self.wait(until).await,
                Next::Send(PowerCommand::On) if !granted.is_valid() => {
                    self.pdu_turn(&mut op, &mut granted).await
                }
                Next::Read | Next::Send(_) => {
                    let class = match self.forces(&op) {
                        true => Class::Fence,
                        false => Class::Operation,
                    };
                    let call = tokio::select! {
                        call = place.queue().call(class) => call,
                        () = sleep_until(self.handle.begun + op.deadline()) => continue,
                        () = self.handle.cancel.cancelled() => continue,
                        () = self.shared.stop.cancelled() => {
                            return self.stopped(Stop::Agent, evidence);
                        }
                    };
                    let done = self.exchange(&call, &mut op, &mut evidence, &mut granted);
                    let done = done.await;
                    drop(call);
                    done
                }
            };
            if let Err(stop) = stopped {
                return self.stopped(stop, evidence);
            }
        }
    }

    /// Whether it forces the host off, so that nothing may end it in favour of a hard power-off.
    fn forces(&self, op: &Operation) -> bool {
        match self.asked.goal {
            Goal::Off { .. } => true,
            Goal::SoftOff { .. } => !op.is_soft(),
            Goal::On | Goal::Cycle { .. } | Goal::Reset | Goal::Nmi => false,
        }
    }

    /// Reads, and sends what the reading asks for, in one turn at the BMC: a command goes out only
    /// on a fresh reading, which behind the calls of others would be too old on a slow BMC. Only a
    /// fence comes in between.
    async fn exchange(
        &self,
        call: &Call<'_>,
        op: &mut Operation,
        evidence: &mut Evidence,
        granted: &mut Granted,
    ) -> Result<(), Stop> {
        if op.next(self.now()) == Next::Read {
            self.read(op, evidence).await?;
        }
        if self.handle.cancel.is_cancelled() || call.must_yield() {
            return Ok(());
        }
        match op.next(self.now()) {
            Next::Send(PowerCommand::On) if !granted.is_valid() => Ok(()),
            Next::Send(command) => {
                if command == PowerCommand::On {
                    *granted = Granted::default();
                }
                self.send(op, evidence).await
            }
            Next::Read | Next::Wait(_) | Next::Done(_) => Ok(()),
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
                match op.read(begun, now, Ok(Seen::from(&reading))) {
                    Proof::None => evidence.confirming.clear(),
                    Proof::First => evidence.confirming = vec![shown.clone()],
                    Proof::Further => evidence.confirming.push(shown.clone()),
                    Proof::TooSoon => {}
                }
                evidence.told = false;
                if evidence.recent.len() == EVIDENCE {
                    evidence.recent.pop_front();
                }
                evidence.recent.push_back(shown.clone());
                self.handle.event(Event::Reading(shown));
            }
            Err(error) => {
                op.read(begun, now, Err(Failed::from(&error)));
                evidence.confirming.clear();
                self.failure(evidence, &error);
            }
        }
        Ok(())
    }

    async fn send(&self, op: &mut Operation, evidence: &mut Evidence) -> Result<(), Stop> {
        let Next::Send(command) = op.next(self.now()) else {
            return Ok(());
        };
        let id = self.handle.id.clone();
        let written = self.shared.journal.sending(id, wall_clock()).await;
        if let Err(error) = written {
            self.shared.metrics.journal_error();
            return Err(Stop::Journal(error.to_string()));
        }
        if self.handle.cancel.is_cancelled() {
            return Ok(());
        }
        if self.shared.stop.is_cancelled() {
            return Err(Stop::Agent);
        }
        op.sending(self.now());
        self.shared.metrics.command(command_word(command));
        evidence.commands += 1;
        evidence.told = false;
        self.handle.event(Event::CommandSent(v1::CommandSent {
            command: command_word(command).to_owned(),
            answer: String::new(),
        }));
        // Once begun it is not cut: half a command is worse than a late one.
        match self.shared.clients.command(&self.target, command).await {
            Ok(accepted) => {
                op.answered(self.now(), &accepted);
                let is_off = matches!(command, PowerCommand::Off | PowerCommand::SoftOff);
                if is_off && accepted.was_sent() {
                    let since_start = self.shared.since_start();
                    evidence
                        .off_taken
                        .get_or_insert_with(|| wire::taken_to_proto(&accepted, since_start));
                }
                self.handle.event(Event::CommandSent(v1::CommandSent {
                    command: accepted.command,
                    answer: accepted.answer,
                }));
            }
            Err(error) => {
                op.sent(self.now(), Err(Failed::from(&error)));
                self.failure(evidence, &error);
            }
        }
        Ok(())
    }

    fn failure(&self, evidence: &mut Evidence, error: &BmcError) {
        let failure = failure_to_proto(&self.target.host, error);
        // Told again and again it would only push older events out.
        if !evidence.told || evidence.failure.as_ref() != Some(&failure) {
            self.handle.event(Event::Failure(failure.clone()));
        }
        evidence.told = true;
        evidence.failure = Some(failure);
        evidence.error = error.to_string();
    }

    fn ended(&self, ending: &Ending, evidence: Evidence) -> v1::Outcome {
        let host = &self.target.host;
        let mut message = format!("host {host}: {ending}");
        let mut failure = None;
        let code = match ending {
            Ending::Confirmed { .. }
            | Ending::Forced
            | Ending::Cycled { .. }
            | Ending::Taken { .. } => v1::OutcomeCode::Confirmed,
            Ending::Unconfirmed { .. }
            | Ending::Unknown { .. }
            | Ending::NotShutDown { .. }
            | Ending::NotTaken
            | Ending::NotSent { .. } => v1::OutcomeCode::Unconfirmed,
            Ending::Failed(_) | Ending::NeedsPower { .. } => v1::OutcomeCode::Failed,
            Ending::IdentityMismatch(_) => v1::OutcomeCode::IdentityMismatch,
            Ending::Cancelled => v1::OutcomeCode::Cancelled,
        };
        match ending {
            ending if ending.is_done() => {}
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
            Ending::Cancelled => {
                failure = evidence.failure;
                if let Some(by) = self.handle.overtaken_by() {
                    message = format!("host {host}: overtaken by operation {by}, a hard power off");
                }
            }
            _ => {
                failure = evidence.failure;
                if failure.is_some() {
                    message = format!("{message} ({})", evidence.error);
                }
            }
        }
        let readings = if ending.is_done() && !evidence.confirming.is_empty() {
            evidence.confirming
        } else {
            evidence.recent.into()
        };
        v1::Outcome {
            code: code.into(),
            message,
            readings,
            commands_sent: evidence.commands,
            failure,
            detail: wire::detail(ending).into(),
            power_off_taken: evidence.off_taken,
        }
    }

    fn never_its_turn(&self) -> v1::Outcome {
        v1::Outcome {
            code: v1::OutcomeCode::Unconfirmed.into(),
            message: format!(
                "host {}: another operation on it went on until the deadline; nothing was sent",
                self.target.host
            ),
            detail: v1::OutcomeDetail::NotSent.into(),
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
        outcome.power_off_taken = evidence.off_taken;
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

/// As the action is called that consists of it.
fn command_word(command: PowerCommand) -> &'static str {
    match command {
        PowerCommand::Off => "off",
        PowerCommand::On => "on",
        PowerCommand::SoftOff => "soft-off",
        PowerCommand::Reset => "reset",
        PowerCommand::Nmi => "nmi",
    }
}

/// For metrics.
fn outcome_word(code: v1::OutcomeCode) -> &'static str {
    match code {
        v1::OutcomeCode::Unspecified => "unspecified",
        v1::OutcomeCode::Confirmed => "confirmed",
        v1::OutcomeCode::Unconfirmed => "unconfirmed",
        v1::OutcomeCode::Failed => "failed",
        v1::OutcomeCode::IdentityMismatch => "identity-mismatch",
        v1::OutcomeCode::Cancelled => "cancelled",
        v1::OutcomeCode::Interrupted => "interrupted",
    }
}
