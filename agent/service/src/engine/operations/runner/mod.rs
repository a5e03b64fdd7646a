//! The task of one operation: the hooks of the shared runner, which wait for the BMC, record each command in the
//! journal before it is sent, and publish events.

mod interruption;
mod outcome;
mod system;

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use rackhand_agent_core::{
    bmc_queue::CallClass,
    ledger::{Action, Device, PowerCut},
};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, BmcFuture, FirmwareUpdates, PowerCommand, PowerReading, PowerState,
    operation::{
        self, Expected, Goal, Hooks, OffProof, Operation, OperationRequest, Past, Permit, Proof,
        Signal, Stopped,
    },
};
use rackhand_proto::{
    convert::timestamp_to_proto,
    v1::{self, await_response::Event},
};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{
    OperationContext,
    handle::Handle,
    shared_outlets::{NotPrepared, Siblings},
};
use crate::{
    convert::{failure_to_proto, reading_to_proto},
    engine::{
        bmcs::{
            bmc_queue::{Call, QueuePosition},
            clients::Clients,
        },
        target::Target,
    },
    journal::{JournalError, interrupted, wall_clock},
};
pub(super) use interruption::Interruption;
use outcome::outcome_word;

/// Validity of a grant by a PDU: before it is used, the BMC is read once more.
const PDU_TURN: Duration = Duration::from_secs(30);

pub(super) struct Run {
    pub(super) context: Arc<OperationContext>,
    pub(super) handle: Arc<Handle>,
    pub(super) target: Target,
    pub(super) action: Action,
    pub(super) device: Device,
    pub(super) siblings: Siblings,
    pub(super) request: OperationRequest,
    pub(super) interruption: Interruption,
}

impl Run {
    /// Runs to the end, writes the outcome to the journal and publishes it.
    pub(super) async fn run(self: Box<Self>, position: QueuePosition) {
        let mut guard = Guard(Some(self.handle.clone()));
        let outcome = self.outcome(position).await;
        let at = wall_clock();
        let id = self.handle.id.clone();
        let took = self.handle.begun.elapsed();
        let word = outcome_word(outcome.code());
        self.context
            .metrics
            .operation(self.handle.action, word, took);
        if let Err(error) = self.context.journal.finish(id, at, outcome.clone()).await {
            self.context.metrics.journal_error();
            warn!(operation = %self.handle.id, host = %self.handle.host, %error, "cannot record the outcome");
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

    /// The time of this operation from which the BMC reports the effect of earlier operations.
    async fn button_after(&self) -> Duration {
        let (keys, action) = (self.target.keys.clone(), self.action);
        if self.device == Device::Outlets || !matches!(action, Action::On | Action::SoftOff) {
            return Duration::ZERO;
        }
        let lag = self.request.timing.state_lag;
        let now = wall_clock();
        let since = now.saturating_sub(i64::try_from(lag.as_nanos()).unwrap_or(i64::MAX));
        let last = self.context.journal.last_command(keys, action, since).await;
        // Without the records, the last command may have been sent just now.
        let last = last.unwrap_or(Some(now));
        let rest = last.map_or(Duration::ZERO, |at| {
            let ago = u64::try_from(now.saturating_sub(at)).unwrap_or(0);
            lag.saturating_sub(Duration::from_nanos(ago))
        });
        match rest.is_zero() {
            true => Duration::ZERO,
            false => self.handle.begun.elapsed().saturating_add(rest),
        }
    }

    /// The device that the operation switches.
    fn device(&self) -> Result<Box<dyn Bmc + '_>, BmcError> {
        match self.device {
            Device::Bmc => Ok(Box::new(TargetBmc {
                clients: &self.context.clients,
                target: &self.target,
                address: self.target.address.to_string(),
            })),
            Device::Outlets => {
                let class = match self.request.goal {
                    Goal::Off { .. } => CallClass::Fence,
                    _ => CallClass::Operation,
                };
                let outlets = self.context.pdus.host(&self.target, class)?;
                Ok(Box::new(HostOutlets {
                    outlets: Box::new(outlets),
                    clients: &self.context.clients,
                    target: &self.target,
                }))
            }
        }
    }

    async fn outcome(&self, position: QueuePosition) -> v1::Outcome {
        let deadline = self.handle.begun + self.request.deadline;
        let is_late = tokio::select! {
            () = position.turn() => false,
            () = sleep_until(deadline) => true,
            () = self.interruption.cancelled_or_alone() => false,
            () = self.interruption.stopped() => return interrupted(0),
        };
        if is_late && !self.interruption.is_cancelled() {
            return self.no_turn();
        }
        let bmc = match self.device() {
            Ok(bmc) => bmc,
            Err(error) => return self.unusable(&error),
        };
        let mut hooks = RunHooks {
            run: self,
            position: &position,
            call: None,
            pdu_turn: None,
            told_failure: None,
            sends_off: false,
            cut: PowerCut::default(),
            sends_on: false,
            stop_cause: None,
        };
        let begun = self.handle.begun;
        let remembered = self.remembered().await.map(Box::new);
        // In a block: a request or a runner that has a name would be kept twice while the operation runs.
        let report = {
            let mut request = self.request.clone();
            request.timing.button_after = self.button_after().await;
            if let Some(system) = &remembered {
                request.expected = system.expected(&request.expected);
            }
            operation::run_since(begun, bmc.as_ref(), request, &mut hooks)
        }
        .await;
        let mut outcome = self.outcome_of(&report, hooks.stop_cause);
        if let operation::Outcome::IdentityMismatch(mismatch) = &report.outcome
            && system::is_to_earlier(mismatch, &self.request.expected)
        {
            let origin = system::origin(remembered.as_deref(), mismatch);
            outcome.message = format!("{}; {origin}", outcome.message);
        }
        outcome
    }
}

/// The hooks of one operation.
struct RunHooks<'a> {
    run: &'a Run,
    position: &'a QueuePosition,
    call: Option<Call<'a>>,
    /// Time at which the PDU granted a power-on that has not been sent yet.
    pdu_turn: Option<Instant>,
    /// The last published failure, if no other event followed.
    told_failure: Option<v1::Failure>,
    /// Whether the last command is a power-off.
    sends_off: bool,
    /// Whether shared outlets accepted a power-off, in which case the BMCs of siblings have no power.
    cut: PowerCut,
    /// Whether a power-on was sent and is unanswered.
    sends_on: bool,
    /// Why the last command was not sent.
    stop_cause: Option<StopCause>,
}

/// Why a command is not sent.
enum StopCause {
    /// It could not be written into the journal.
    Journal(String),
    /// Other hosts would lose their power.
    Siblings(String),
}

impl RunHooks<'_> {
    /// Whether the operation forces the host off, in which case no hard power-off may replace it.
    fn forces(&self, operation: &Operation) -> bool {
        match self.run.request.goal {
            Goal::Off { .. } => true,
            Goal::SoftOff { .. } => !operation.is_soft(),
            Goal::On | Goal::Cycle { .. } | Goal::Reset | Goal::Nmi => false,
        }
    }

    fn event(&self, event: Event) {
        self.run.handle.event(event);
    }

    /// Ends the grant of the PDU after a power-on has used it. A power-on that turned out to need the power button
    /// has sent nothing; the press follows.
    fn turn_is_used(&mut self) {
        if std::mem::take(&mut self.sends_on) {
            self.pdu_turn = None;
        }
    }

    fn not_written(&mut self, error: &JournalError) -> Stopped {
        self.run.context.metrics.journal_error();
        self.stop_cause = Some(StopCause::Journal(error.to_string()));
        Stopped
    }
}

impl Hooks for RunHooks<'_> {
    fn watched(&self, begun: Instant) -> Past {
        match self.run.device {
            Device::Bmc => self.run.context.clients.watch(&self.run.target, begun),
            Device::Outlets => Past::default(),
        }
    }

    async fn corroborate(&mut self) -> Option<OffProof> {
        let run = self.run;
        if run.device == Device::Outlets || run.target.outlets().is_empty() {
            return None;
        }
        let pdus = &run.context.pdus;
        // Boxed here and below, as few operations ever wait for a PDU, and each has room for its longest wait.
        let is_unpowered = Box::pin(pdus.is_unpowered(&run.target, run.target.config.times.call));
        tokio::select! {
            is_unpowered = is_unpowered => is_unpowered.then_some(OffProof::Outlets),
            () = run.interruption.wait() => None,
        }
    }

    fn reading(&mut self, reading: &PowerReading, _proof: Proof) {
        let shown = reading_to_proto(reading, self.run.context.clock.since_start());
        self.cut.read(reading.state == PowerState::Off);
        self.told_failure = None;
        self.event(Event::Reading(shown));
    }

    fn sending(&mut self, command: PowerCommand) {
        self.sends_off = command.leads_to() == Some(PowerState::Off);
        self.sends_on = command.leads_to() == Some(PowerState::On);
        self.run.context.metrics.command(command_word(command));
        self.told_failure = None;
        self.run.note_switch(command);
        self.event(Event::CommandSent(v1::CommandSent {
            command: command_word(command).to_owned(),
            answer: String::new(),
        }));
    }

    fn accepted(&mut self, accepted: &Accepted) {
        self.turn_is_used();
        if self.sends_off && accepted.was_sent() {
            self.cut.accepted();
        }
        self.event(Event::CommandSent(v1::CommandSent {
            command: accepted.command.clone(),
            answer: accepted.answer.clone(),
        }));
    }

    fn failed(&mut self, error: &BmcError) {
        self.cut.failed();
        self.turn_is_used();
        let failure = failure_to_proto(&self.run.target.host, error);
        // A repetition would only displace older events.
        if self.told_failure.as_ref() != Some(&failure) {
            self.event(Event::Failure(failure.clone()));
        }
        self.told_failure = Some(failure);
    }

    async fn acquire(&mut self, operation: &Operation) -> bool {
        let forces = self.forces(operation);
        if forces {
            self.position.hold_turn();
        }
        // A call waits for its PDU only, not for a BMC that hangs in the call of a reader.
        if self.run.device == Device::Outlets {
            return !self.run.interruption.is_now();
        }
        let class = match forces {
            true => CallClass::Fence,
            false => CallClass::Operation,
        };
        tokio::select! {
            call = self.position.queue().call(class) => {
                self.call = Some(call);
                true
            }
            () = self.run.interruption.wait() => false,
        }
    }

    fn release(&mut self) {
        self.call = None;
    }

    fn must_yield(&self) -> bool {
        self.call.as_ref().is_some_and(Call::must_yield)
    }

    async fn permit(&mut self, command: PowerCommand, permit: Permit) -> bool {
        let run = self.run;
        let is_on = command.leads_to() == Some(PowerState::On);
        let Some(pdu) = run.target.pdu().filter(|_| is_on) else {
            return true;
        };
        if self.pdu_turn.is_some_and(|at| at.elapsed() < PDU_TURN) {
            return true;
        }
        if permit == Permit::Now {
            return false;
        }
        let OperationContext {
            power_on_stagger,
            settings,
            ..
        } = &*run.context;
        let interval = || settings.load().staging.of(pdu);
        let report = |rest, ahead| run.report_wait(pdu, rest, ahead);
        tokio::select! {
            () = Box::pin(power_on_stagger.wait(pdu, interval, report)) => {
                self.pdu_turn = Some(Instant::now());
                true
            }
            () = run.interruption.wait() => false,
        }
    }

    async fn before_command(&mut self, command: PowerCommand) -> Result<(), Stopped> {
        let run = self.run;
        let is_shared = run.device == Device::Outlets && !run.siblings.is_empty();
        if is_shared && command == PowerCommand::Off {
            match Box::pin(run.prepare_siblings(self.cut)).await {
                Ok(()) => {}
                // The signal is checked next, and nothing is sent.
                Err(NotPrepared::Interrupted) => return Ok(()),
                Err(NotPrepared::Refused(why)) => {
                    self.stop_cause = Some(StopCause::Siblings(why));
                    return Err(Stopped);
                }
                Err(NotPrepared::Journal(error)) => return Err(self.not_written(&error)),
            }
        }
        let (journal, id, at) = (&run.context.journal, run.handle.id.clone(), wall_clock());
        let written = match is_shared && command == PowerCommand::On {
            true => {
                journal
                    .sending_shared_on(id, run.target.keys.clone(), at)
                    .await
            }
            false => journal.sending(id, at).await,
        };
        written.map_err(|error| self.not_written(&error))
    }

    fn signal(&self) -> Signal {
        self.run.interruption.signal()
    }

    fn abandoned(&mut self) {
        if self.run.interruption.notice_caller_gone() {
            info!(operation = %self.run.handle.id, host = %self.run.handle.host, "the caller is gone");
        }
    }

    async fn interrupted(&mut self) {
        self.run.interruption.wait().await;
    }
}

impl Run {
    /// Remembers that this agent switches the host, and the hosts that share its outlets.
    fn note_switch(&self, command: PowerCommand) {
        let clients = &self.context.clients;
        let note = |target: &Target| {
            let keys = clients.known(target).keys;
            clients.switches.note(target, keys, command);
        };
        note(&self.target);
        if self.device == Device::Outlets {
            self.target.siblings().iter().for_each(note);
        }
    }

    fn report_wait(&self, pdu: &str, rest: Duration, ahead: usize) {
        let now = Timestamp::now();
        let until = now.checked_add(rest).unwrap_or(now);
        let reason = format!("waits for the turn of its PDU {pdu}, {ahead} before it");
        info!(operation = %self.handle.id, host = %self.handle.host, %until, "{reason}");
        self.handle.event(Event::Waiting(v1::Waiting {
            reason,
            until: Some(timestamp_to_proto(until)),
        }));
    }
}

/// The BMC of a target, through the clients of the agent.
struct TargetBmc<'a> {
    clients: &'a Clients,
    target: &'a Target,
    address: String,
}

impl fmt::Debug for TargetBmc<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl Bmc for TargetBmc<'_> {
    fn address(&self) -> &str {
        &self.address
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.checked_power(Expected::default())
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        self.command_until(command, Expected::default(), None)
    }

    fn checked_power(&self, expected: Expected) -> BmcFuture<'_, PowerReading> {
        let clients = self.clients;
        Box::pin(async move { clients.read_now(self.target, &expected).await })
    }

    fn command_until(
        &self,
        command: PowerCommand,
        expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        let (clients, target) = (self.clients, self.target);
        Box::pin(async move { clients.command(target, command, &expected, until).await })
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        Box::pin(self.clients.uptime(self.target))
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(self.clients.firmware_updates(self.target, limit))
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// The outlets of a target. Its BMC reports the updates of firmware: an update does not survive that its power is cut,
/// whatever cuts it.
struct HostOutlets<'a> {
    outlets: Box<dyn Bmc + 'a>,
    clients: &'a Clients,
    target: &'a Target,
}

impl fmt::Debug for HostOutlets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outlets.fmt(f)
    }
}

impl Bmc for HostOutlets<'_> {
    fn address(&self) -> &str {
        self.outlets.address()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.outlets.power()
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        self.outlets.command(command)
    }

    fn command_until(
        &self,
        command: PowerCommand,
        expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        self.outlets.command_until(command, expected, until)
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            let begun = Instant::now();
            let queue = self.clients.queue(self.target);
            let _call = queue.call(CallClass::Operation).await;
            let left = limit.saturating_sub(begun.elapsed());
            self.clients.firmware_updates(self.target, left).await
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.outlets.close()
    }
}

/// Publishes an interruption if the task of an operation ends without an outcome.
struct Guard(Option<Arc<Handle>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.event(Event::Outcome(interrupted(0)));
        }
    }
}

/// The name of the action that consists of this command.
fn command_word(command: PowerCommand) -> &'static str {
    match command {
        PowerCommand::Off => "off",
        PowerCommand::On => "on",
        PowerCommand::SoftOff => "soft-off",
        PowerCommand::Reset => "reset",
        PowerCommand::Nmi => "nmi",
        PowerCommand::OnByButton => "on-by-button",
        PowerCommand::SoftOffByButton => "soft-off-by-button",
    }
}
