//! The runner of an operation on a BMC, and its hooks.
//!
//! This is the only loop that carries out an [`Operation`]. An application adds a journal, a queue, a gate before
//! power-on or cancellation by [`Hooks`].

use std::{collections::VecDeque, future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    CallFailure, Next, Observation, OffProof, Operation, OperationRequest, Outcome, Past, Proof,
    state_word,
};
use crate::{Accepted, Bmc, BmcError, ErrorKind, PowerCommand, PowerReading, PowerState};

/// Time for a reading of the updates to end by itself, before it is given up.
const UPDATES_GRACE: Duration = Duration::from_millis(200);

/// Readings between the acquisition of a BMC and a command: its power, its updates, both again if one took long, and
/// once more if the updates had too little time.
const READINGS: usize = 6;

/// Number of readings in a report that confirms nothing.
const RECENT: usize = 3;

/// Callbacks of a running operation. Every method has a default, so `()` implements it.
///
/// The order of the calls around one command: [`acquire`](Hooks::acquire), a reading,
/// [`before_command`](Hooks::before_command), [`sending`](Hooks::sending), then
/// [`accepted`](Hooks::accepted) or [`failed`](Hooks::failed), and [`release`](Hooks::release).
pub trait Hooks: Send {
    /// The BMC was read; `proof` is its contribution to the proof of the wanted state.
    fn reading(&mut self, _reading: &PowerReading, _proof: Proof) {}

    /// A command is about to be sent.
    fn sending(&mut self, _command: PowerCommand) {}

    /// The BMC accepted a command.
    fn accepted(&mut self, _accepted: &Accepted) {}

    /// The observation of this BMC from before the operation, by a clock that is 0 at `begun`.
    fn watched(&self, _begun: Instant) -> Past {
        Past::default()
    }

    /// Reads whether a source other than the BMC, such as the host's outlets, shows that the host is off. Called
    /// when the host reads off and nothing proves it (F1).
    fn corroborate(&mut self) -> impl Future<Output = Option<OffProof>> + Send {
        future::ready(None)
    }

    /// A reading or a command failed.
    fn failed(&mut self, _error: &BmcError) {}

    /// Waits for the exclusive use of the BMC, for one reading and the command that may follow it.
    ///
    /// The future is dropped at the deadline. `false`: it was not acquired; [`signal`](Hooks::signal) returns the
    /// reason.
    fn acquire(&mut self, _operation: &Operation) -> impl Future<Output = bool> + Send {
        future::ready(true)
    }

    /// Ends the exclusive use of the BMC.
    fn release(&mut self) {}

    /// Whether the BMC must be released after the reading, before a command is sent.
    fn must_yield(&self) -> bool {
        false
    }

    /// Whether this command may be sent now; [`Permit::Wait`]: once it may, or the operation was interrupted. The
    /// deadline of the operation is extended by the wait.
    fn permit(
        &mut self,
        _command: PowerCommand,
        _permit: Permit,
    ) -> impl Future<Output = bool> + Send {
        future::ready(true)
    }

    /// Called before a command is sent, to record it. After an error the command is not sent, and
    /// the operation ends with [`Outcome::Stopped`].
    fn before_command(
        &mut self,
        _command: PowerCommand,
    ) -> impl Future<Output = Result<(), Stopped>> + Send {
        future::ready(Ok(()))
    }

    /// Whether the operation goes on. Checked before every step; a command that has been sent is
    /// never cut off.
    fn signal(&self) -> Signal {
        Signal::Continue
    }

    /// The operation has noticed that its caller is gone: [`interrupted`](Hooks::interrupted) must no longer
    /// complete for that reason.
    fn abandoned(&mut self) {}

    /// Completes when [`signal`](Hooks::signal) is no longer [`Signal::Continue`].
    fn interrupted(&mut self) -> impl Future<Output = ()> + Send {
        future::pending()
    }
}

impl Hooks for () {}

/// How [`Hooks::permit`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// At once.
    Now,
    /// Once the command may be sent.
    Wait,
}

/// Whether a running operation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// It goes on.
    Continue,
    /// It ends with [`Outcome::Cancelled`] before its next command.
    Cancel,
    /// Its caller is gone (F17): it ends with [`Outcome::CallerGone`] before its next command, unless it is a
    /// cycle that may have switched its host off, which goes on to the power-on.
    CallerGone,
    /// It ends with [`Outcome::Stopped`] before its next step.
    Stop,
}

/// The error of [`Hooks::before_command`]: the command must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The readings that confirm the outcome, oldest first; without a confirmation, the last ones.
    pub readings: Vec<PowerReading>,
    /// When each of them was complete, from the beginning of the operation.
    pub reading_times: Vec<Duration>,
    /// The first power-off that the BMC accepted, and when, from the beginning of the operation (F1).
    pub off_taken: Option<(Accepted, Duration)>,
    /// Whether the operation noticed that its caller was gone.
    pub was_abandoned: bool,
    /// Proof of the confirmed off; `None`: off was not confirmed.
    pub proof: Option<OffProof>,
    /// Number of commands sent.
    pub commands: u32,
    /// Why it was not known, when a command that takes the power was sent, whether firmware was being updated;
    /// `None`: it was known, was not read on purpose, or this BMC never reports it.
    pub updates_unknown: Option<String>,
    /// The last failure.
    pub error: Option<BmcError>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    /// What may have happened although the operation failed: the commands that were sent, and the last reading. `None`:
    /// another outcome says it, or nothing was sent.
    pub fn after_failure(&self) -> Option<String> {
        if !matches!(self.outcome, Outcome::Failed(_)) || self.commands == 0 {
            return None;
        }
        let sent = match self.commands {
            1 => "1 command was".to_owned(),
            sent => format!("{sent} commands were"),
        };
        let last = match self.readings.last() {
            Some(reading) => format!("the last reading was {}", state_word(reading.state)),
            None => "the BMC could not be read".to_owned(),
        };
        Some(format!(
            "{sent} sent and may have worked all the same, {last}"
        ))
    }
}

/// The readings of an operation that its report needs, each with its time.
#[derive(Debug, Default)]
struct Readings {
    recent: VecDeque<Arc<(PowerReading, Duration)>>,
    confirming: Vec<Arc<(PowerReading, Duration)>>,
}

impl Readings {
    fn add(&mut self, reading: (PowerReading, Duration), proof: Proof) {
        let reading = Arc::new(reading);
        match proof {
            Proof::None => self.confirming.clear(),
            Proof::First => self.confirming = vec![reading.clone()],
            Proof::Further => self.confirming.push(reading.clone()),
            Proof::TooSoon => {}
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(reading);
    }

    /// The confirming readings of an operation that is done, with their times; otherwise the last ones.
    fn of_report(self, is_done: bool) -> (Vec<PowerReading>, Vec<Duration>) {
        let readings = match is_done && !self.confirming.is_empty() {
            true => self.confirming,
            false => self.recent.into(),
        };
        readings.into_iter().map(Arc::unwrap_or_clone).unzip()
    }
}

/// Runs an operation until it ends: at its deadline at the latest, or when a command that was sent
/// before the deadline is answered.
///
/// Dropping the future stops the operation; a command that was sent is not revoked.
pub async fn run<H: Hooks>(bmc: &dyn Bmc, request: OperationRequest, hooks: &mut H) -> Report {
    run_since(Instant::now(), bmc, request, hooks).await
}

/// The same for an operation that began at `begun`, from which its deadline counts.
// An `async fn` would keep the request beside the operation that is made of it.
pub fn run_since<'a, H: Hooks>(
    begun: Instant,
    bmc: &'a dyn Bmc,
    request: OperationRequest,
    hooks: &'a mut H,
) -> impl Future<Output = Report> + Send + use<'a, H> {
    let mut operation = Operation::new(request);
    operation.watched(hooks.watched(begun));
    let mut run = Run {
        begun,
        bmc,
        operation,
        readings: Readings::default(),
        off_taken: None,
        was_abandoned: false,
        error: None,
        hooks,
    };
    async move {
        let outcome = run.outcome().await;
        let (readings, reading_times) = run.readings.of_report(outcome.is_done());
        Report {
            readings,
            reading_times,
            off_taken: run.off_taken,
            was_abandoned: run.was_abandoned,
            proof: run.operation.proof().filter(|_| outcome.is_done()),
            outcome,
            commands: run.operation.sends(),
            updates_unknown: run.operation.updates_unknown().map(str::to_owned),
            error: run.error,
            elapsed: begun.elapsed(),
        }
    }
}

/// A BMC that was asked so long before the deadline has given no answer; one that was asked later had no time.
const LEAST_SILENCE: Duration = Duration::from_secs(2);

/// Whether a driver kept a command back, as it does when its time is over.
pub fn is_held_back(error: &BmcError) -> bool {
    error.kind == ErrorKind::Busy && error.not_sent && !error.maybe_sent
}

struct Run<'a, H> {
    begun: Instant,
    bmc: &'a dyn Bmc,
    operation: Operation,
    readings: Readings,
    off_taken: Option<(Accepted, Duration)>,
    was_abandoned: bool,
    error: Option<BmcError>,
    hooks: &'a mut H,
}

impl<H: Hooks> Run<'_, H> {
    async fn outcome(&mut self) -> Outcome {
        loop {
            match self.hooks.signal() {
                Signal::Cancel => self.operation.cancel(),
                Signal::CallerGone => {
                    self.operation.abandon(self.begun.elapsed());
                    self.was_abandoned = true;
                    self.hooks.abandoned();
                }
                Signal::Continue | Signal::Stop => {}
            }
            let next = self.next();
            if let Next::Done(outcome) = next {
                return outcome;
            }
            if self.hooks.signal() == Signal::Stop {
                return Outcome::Stopped;
            }
            if let Next::Send(command) = next
                && !self.hooks.permit(command, Permit::Now).await
            {
                let asked = Instant::now();
                self.hooks.permit(command, Permit::Wait).await;
                self.operation.extend(asked.elapsed());
                continue;
            }
            match next {
                Next::Done(outcome) => return outcome,
                Next::Wait(until) => tokio::select! {
                    () = sleep_until(self.at(until)) => {}
                    () = self.hooks.interrupted() => {}
                },
                Next::Corroborate => self.corroborate().await,
                Next::Read | Next::Send(_) => {
                    let deadline = self.at(self.operation.deadline());
                    let was_soft = self.operation.is_soft();
                    let acquired = tokio::select! {
                        acquired = self.hooks.acquire(&self.operation) => acquired,
                        () = sleep_until(deadline) => false,
                    };
                    if acquired {
                        let exchanged = self.exchange(was_soft).await;
                        self.hooks.release();
                        if exchanged.is_err() {
                            return Outcome::Stopped;
                        }
                    }
                }
            }
        }
    }

    /// Whether the operation continues: there is no signal, or it has handled the signal already.
    fn goes_on(&self) -> bool {
        match self.hooks.signal() {
            Signal::Continue => true,
            Signal::CallerGone => self.operation.is_abandoned(),
            Signal::Cancel | Signal::Stop => false,
        }
    }

    fn next(&mut self) -> Next {
        self.operation.next(self.begun.elapsed())
    }

    /// Reads, and sends the command that the reading requires, in one exclusive use of the BMC: a command requires
    /// a fresh reading, which would be too old after a wait for other callers. An operation that was soft when it
    /// acquired the BMC forces the host off only after it has acquired the BMC for that.
    async fn exchange(&mut self, was_soft: bool) -> Result<(), Stopped> {
        let mut may_read = true;
        for _ in 0..READINGS {
            match self.next() {
                Next::Read if may_read => {
                    self.read().await;
                    may_read = false;
                }
                Next::Send(command)
                    if self.reads_updates(command)
                        && (!was_soft || self.operation.is_soft())
                        && self.hooks.permit(command, Permit::Now).await =>
                {
                    self.read_updates().await;
                    may_read = true;
                }
                _ => break,
            }
            if !self.goes_on() || self.hooks.must_yield() {
                return Ok(());
            }
        }
        if !self.goes_on() || self.hooks.must_yield() {
            return Ok(());
        }
        match self.next() {
            Next::Send(_) if was_soft && !self.operation.is_soft() => Ok(()),
            Next::Send(command) if self.reads_updates(command) => Ok(()),
            Next::Send(command) => match self.hooks.permit(command, Permit::Now).await {
                true => self.send(command).await,
                false => Ok(()),
            },
            _ => Ok(()),
        }
    }

    async fn read(&mut self) {
        let asked = self.begun.elapsed();
        let deadline = self.at(self.operation.deadline());
        let result = tokio::select! {
            result = self.bmc.checked_power(self.operation.expected()) => result,
            () = sleep_until(deadline) => return self.unanswered(asked),
            () = self.hooks.interrupted() => return,
        };
        let observation = result.as_ref().map(Observation::from);
        let observation = observation.map_err(CallFailure::from);
        let now = self.begun.elapsed();
        let proof = self.operation.read(asked, now, observation);
        match result {
            Ok(reading) => {
                self.hooks.reading(&reading, proof);
                self.readings.add((reading, now), proof);
            }
            // The error of the operation is that of its command.
            Err(error) if self.operation.is_refused() => self.hooks.failed(&error),
            Err(error) => self.failed(error),
        }
    }

    /// The deadline ended a reading that was asked for at `asked`. If nothing else is known to have failed, that is
    /// why the operation did.
    fn unanswered(&mut self, asked: Duration) {
        let waited = self.begun.elapsed().saturating_sub(asked);
        if self.error.is_some() || waited < LEAST_SILENCE {
            return;
        }
        self.error = Some(BmcError {
            kind: ErrorKind::Timeout,
            bmc: self.bmc.address().to_owned(),
            message: format!("no answer within {} s", waited.as_secs()),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        });
    }

    /// Reads the evidence that may prove a reported off.
    async fn corroborate(&mut self) {
        let deadline = self.at(self.operation.deadline());
        let uptime = tokio::select! {
            uptime = self.uptime() => uptime,
            () = sleep_until(deadline) => None,
        };
        self.hooks.release();
        if self.operation.uptime(self.begun.elapsed(), uptime) {
            return;
        }
        let found = tokio::select! {
            found = self.hooks.corroborate() => found,
            () = sleep_until(deadline) => None,
        };
        self.operation.corroborated(self.begun.elapsed(), found);
    }

    async fn uptime(&mut self) -> Option<Duration> {
        if !self.hooks.acquire(&self.operation).await {
            return None;
        }
        self.bmc.uptime().await.ok()
    }

    fn reads_updates(&self, command: PowerCommand) -> bool {
        let now = self.begun.elapsed();
        self.operation.reads_updates(command, now)
    }

    /// Reads the updates of firmware before a command that takes the power. A failure means that they are not
    /// known, and is none of the operation.
    async fn read_updates(&mut self) {
        let asked = self.begun.elapsed();
        let limit = self.operation.updates_limit(asked);
        let updates = tokio::select! {
            updates = self.bmc.firmware_updates(limit) => updates,
            () = sleep(limit + UPDATES_GRACE) => Err(BmcError {
                kind: ErrorKind::Timeout,
                bmc: self.bmc.address().to_owned(),
                message: format!("the updates of firmware were not read within {limit:?}"),
                retry_after: None,
                maybe_sent: false,
                not_sent: false,
            }),
            () = self.hooks.interrupted() => return,
        };
        let now = self.begun.elapsed();
        match updates {
            Ok(updates) => self.operation.updates_read(asked, now, Ok(&updates)),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                self.operation.reports_no_updates(asked, now);
            }
            Err(error) => self.operation.updates_read(asked, now, Err(error.message)),
        }
    }

    async fn send(&mut self, command: PowerCommand) -> Result<(), Stopped> {
        self.hooks.before_command(command).await?;
        if !self.goes_on() {
            return Ok(());
        }
        let until = self.operation.sends_until(command);
        let before = until.map(|until| (until, self.operation.clone()));
        self.operation.sending(self.begun.elapsed());
        self.hooks.sending(command);
        // Not interrupted from here on: a command that is cut off has an unknown result.
        let result = self
            .bmc
            .command_until(
                command,
                self.operation.expected(),
                until.map(|until| self.at(until)),
            )
            .await;
        let now = self.begun.elapsed();
        match result {
            // Nothing was sent, and no failure is to be told of.
            Err(error)
                if let Some((until, before)) = before
                    && now > until
                    && is_held_back(&error) =>
            {
                self.operation = before;
                self.operation.was_late(now);
            }
            Ok(accepted) => {
                self.operation.answered(now, &accepted);
                self.hooks.accepted(&accepted);
                if command.leads_to() == Some(PowerState::Off) && accepted.was_sent() {
                    self.off_taken.get_or_insert((accepted, now));
                }
            }
            Err(error) => {
                self.operation.sent(now, Err(CallFailure::from(&error)));
                // Not a failure: nothing was sent, and the button is next.
                if error.kind != ErrorKind::ButtonOnly {
                    self.failed(error);
                }
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: BmcError) {
        self.hooks.failed(&error);
        self.error = Some(error);
    }

    /// A time of the operation as an instant; one out of range is a century away.
    fn at(&self, after: Duration) -> Instant {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
        let at = self.begun.checked_add(after);
        at.unwrap_or_else(|| self.begun + CENTURY)
    }
}
