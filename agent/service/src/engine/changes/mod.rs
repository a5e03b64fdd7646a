//! Changes other than power: boot device, identify LED, event log.
//!
//! Owns: the order of a change among the operations of its BMC, and its journal record. Must never:
//! make a power operation wait longer than the call in flight, change anything if the BMC manages
//! another system, or change a held host without force.

mod identify_timer;

use std::{collections::VecDeque, future::Future, pin::Pin, time::Duration};

use parking_lot::Mutex;
use rackhand_agent_core::{
    bmc_queue::{CallClass, OperationRank},
    ledger::{Device, Hold, Host, Refused},
};
use rackhand_bmc::{Accepted, Bmc, BmcError, BmcFuture, ErrorKind};
use rackhand_proto::v1;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{info, warn};

use super::{
    Engine, Shared, Target,
    bmcs::{bmc_queue::QueuePosition, clients::CallKind, reads::fault},
    convert::failure_to_proto,
    journal_status,
    operations::handle::Handle,
};
use crate::journal::{OperationRecord, outcome_to_proto, refused_status, wall_clock};

/// Minimum time for a change that waited in the queue.
pub(super) const MIN_CALL_TIME: Duration = Duration::from_secs(2);

/// A change other than power.
pub(crate) struct Change {
    /// Name in the list of operations, such as `boot-device`.
    pub(crate) action: &'static str,
    /// Description for log and journal, such as `set boot device pxe`.
    pub(crate) what: String,
    /// The caller, in the form of the owner of a hold.
    pub(crate) owner: String,
    /// Whether a hold of another owner rejects the change, unless it is forced.
    pub(crate) minds_holds: bool,
    /// Whether it was requested with force.
    pub(crate) force: bool,
    /// Its id; `None`: every request makes the change.
    pub(crate) id: Option<ChangeId>,
}

/// The id of a change, and the lease of the caller.
#[derive(Debug)]
pub(crate) struct ChangeId {
    /// Chosen by the caller.
    pub(crate) operation: String,
    /// Cancelled when the lease of the caller ends (F17); `None`: the change does not depend on a lease.
    pub(crate) caller: Option<CancellationToken>,
}

impl Change {
    fn operation_id(&self) -> Option<&str> {
        self.id.as_ref().map(|id| id.operation.as_str())
    }

    fn caller(&self) -> Option<&CancellationToken> {
        self.id.as_ref()?.caller.as_ref()
    }

    fn is_abandoned(&self) -> bool {
        self.caller().is_some_and(CancellationToken::is_cancelled)
    }

    async fn abandoned(&self) {
        match self.caller() {
            Some(caller) => caller.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// Result of a change. The outer error: the request was refused.
type ChangeResult = Result<Result<Accepted, BmcError>, Status>;

/// Number of results that are kept for callers who lost the answer; the journal has the rest.
const REMEMBERED: usize = 256;

/// The changes with an id that run, and the latest results.
#[derive(Debug, Default)]
pub(crate) struct Known {
    changes: Mutex<VecDeque<KnownChange>>,
}

#[derive(Debug)]
struct KnownChange {
    id: String,
    action: &'static str,
    key: String,
    host: String,
    result: watch::Receiver<Option<ChangeResult>>,
}

/// Sender for the result of a new change, or receiver for the result of a known one.
enum Asked {
    First(watch::Sender<Option<ChangeResult>>),
    Again(watch::Receiver<Option<ChangeResult>>),
}

impl Known {
    /// # Errors
    ///
    /// The id belongs to another change.
    fn ask(&self, id: &str, target: &Target, change: &Change) -> Result<Asked, Status> {
        let mut changes = self.changes.lock();
        if let Some(known) = changes.iter().find(|known| known.id == id) {
            if known.action == change.action && known.key == target.key {
                return Ok(Asked::Again(known.result.clone()));
            }
            return Err(other_operation(id, known.action, &known.host));
        }
        let (sender, result) = watch::channel(None);
        changes.push_back(KnownChange {
            id: id.to_owned(),
            action: change.action,
            key: target.key.clone(),
            host: target.host.clone(),
            result,
        });
        if changes.len() > REMEMBERED {
            let oldest = changes
                .iter()
                .position(|known| known.result.borrow().is_some());
            oldest.and_then(|oldest| changes.remove(oldest));
        }
        Ok(Asked::First(sender))
    }

    /// Forgets a change that was not made, so that it may be requested again.
    fn forget(&self, id: &str) {
        self.changes.lock().retain(|known| known.id != id);
    }
}

/// The work of a change at the BMC.
pub(crate) trait Work: Send + Sync + 'static {
    /// Carries the change out within `limit`. The caller has exclusive use of the BMC and has recorded the change.
    fn run<'a>(&'a self, shared: &'a Shared, target: &'a Target, limit: Duration)
    -> WorkFuture<'a>;

    /// Whether the BMC must first report the identity of the host, read with the password of the configuration.
    fn checks_identity(&self) -> bool {
        true
    }
}

/// The future of a [`Work`].
pub(crate) type WorkFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Accepted, BmcError>> + Send + 'a>>;

/// A change by one call.
pub(super) struct OneCall<F>(pub(super) F);

impl<F> Work for OneCall<F>
where
    F: for<'b> Fn(&'b dyn Bmc) -> BmcFuture<'b, Accepted> + Send + Sync + 'static,
{
    fn run<'a>(
        &'a self,
        shared: &'a Shared,
        target: &'a Target,
        limit: Duration,
    ) -> WorkFuture<'a> {
        Box::pin(shared.clients.ask(target, limit, CallKind::Change, &self.0))
    }
}

impl Engine {
    /// Makes a change by one call, in its turn among the operations. A caller that disconnects does not interrupt
    /// it.
    ///
    /// # Errors
    /// The outer error: another owner holds the host, or the agent stops.
    pub(crate) async fn change(
        &self,
        target: Target,
        limit: Duration,
        change: Change,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync + 'static,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        self.change_by(target, limit, change, OneCall(call)).await
    }

    /// The same for any work.
    pub(crate) async fn change_by(
        &self,
        target: Target,
        limit: Duration,
        change: Change,
        work: impl Work,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let stopping = || Status::unavailable("the agent is stopping; try again later");
        if self.closing.is_cancelled() {
            return Err(stopping());
        }
        let (answer, mut answered) = match change.operation_id() {
            None => watch::channel(None),
            Some(id) => match self.changes.ask(id, &target, &change)? {
                Asked::Again(mut result) => {
                    return made(&mut result).await.unwrap_or_else(|| Err(stopping()));
                }
                Asked::First(answer) => {
                    let answered = answer.subscribe();
                    (answer, answered)
                }
            },
        };
        let (shared, changes) = (self.shared.clone(), self.changes.clone());
        self.spawn(async move {
            let result = match shared.change_on_record(&target, &change).await {
                Ok(Some(known)) => Ok(known),
                Ok(None) => shared.change(&target, limit, &change, &work).await,
                Err(status) => Err(status),
            };
            match &result {
                Ok(Ok(accepted)) => info!(
                    host = %target.host, by = %change.owner, answer = %accepted.answer, "{}",
                    change.what
                ),
                Ok(Err(error)) => warn!(
                    host = %target.host, by = %change.owner, %error, "{}: not done", change.what
                ),
                Err(status) => info!(
                    host = %target.host, by = %change.owner, "{}: refused: {}", change.what,
                    status.message()
                ),
            }
            if let (Err(_), Some(id)) = (&result, change.operation_id()) {
                changes.forget(id);
            }
            answer.send_replace(Some(result));
        });
        made(&mut answered).await.unwrap_or_else(|| Err(stopping()))
    }
}

/// Waits for the result of a change; `None`: the agent has stopped.
async fn made(answered: &mut watch::Receiver<Option<ChangeResult>>) -> Option<ChangeResult> {
    let result = answered.wait_for(Option::is_some).await.ok()?;
    result.clone()
}

impl Shared {
    /// Makes a change in its turn, or at once while the agent stops.
    pub(super) async fn now_or_in_turn(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync + 'static,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let work = OneCall(call);
        if self.stop.is_cancelled() {
            return self.apply(target, MIN_CALL_TIME, change, None, &work).await;
        }
        self.change(target, limit, change, &work).await
    }

    /// The recorded result of a change that an earlier start of the agent, or an earlier request, made under the
    /// same id.
    ///
    /// # Errors
    ///
    /// The journal cannot be read, or the id belongs to another operation.
    async fn change_on_record(
        &self,
        target: &Target,
        change: &Change,
    ) -> Result<Option<Result<Accepted, BmcError>>, Status> {
        let Some(id) = change.operation_id() else {
            return Ok(None);
        };
        let record = self.journal.operation(id.to_owned()).await;
        let Some(record) = record.map_err(|error| journal_status(&error))? else {
            return Ok(None);
        };
        if record.action != change.action || record.key != target.key {
            return Err(other_operation(&record.id, &record.action, &record.host));
        }
        Ok(Some(result_on_record(target, &record)))
    }

    pub(super) async fn change(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        work: &impl Work,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let expected = target.expected(None)?;
        // A handle for the queue only; the journal records the change when it is made.
        let handle = Handle::new(
            String::new(),
            target.host.clone(),
            target.key.clone(),
            "change",
            Device::Bmc,
        );
        let at = self.locate(target).await?;
        let queue = self.clients.queue(target);
        let begun = tokio::time::Instant::now();
        let (place, _) = QueuePosition::take(
            queue.clone(),
            OperationRank::Other,
            handle.clone(),
            at.keys.clone(),
        );
        let in_its_turn = async {
            place.turn().await;
            queue.call(CallClass::Operation).await
        };
        let _call = tokio::select! {
            call = timeout(limit, in_its_turn) => match call {
                Ok(call) => call,
                Err(_) => {
                    let message = "another operation on its BMC goes on; nothing was changed, ask \
                                   again when it is over";
                    return Ok(Err(fault(target, ErrorKind::Busy, message.to_owned())));
                }
            },
            () = handle.cancel.cancelled() => {
                let message = "a hard power off came first; nothing was changed";
                return Ok(Err(fault(target, ErrorKind::Busy, message.to_owned())));
            }
            () = change.abandoned() => return Ok(Err(caller_gone(target))),
            () = self.stop.cancelled() => {
                return Err(Status::unavailable("the agent is stopping; nothing was changed"));
            }
        };
        place.hold_turn();
        let mut overrode = None;
        if change.minds_holds
            && let Some(hold) = self.held(at, &change.owner).await?
            && hold.owner != change.owner
        {
            if !change.force {
                return Err(refused_status(&Refused::Held(hold)));
            }
            overrode = Some(hold.owner);
        }
        // An LED that is lit at the wrong host leads to the wrong cable being pulled.
        if work.checks_identity() && !expected.is_empty() {
            match self.clients.read_now(target, &expected).await {
                Err(error) => return Ok(Err(error)),
                Ok(reading) => {
                    if let Some(mismatch) = expected.mismatch(&reading.identity) {
                        return Err(Status::failed_precondition(format!(
                            "host {}: its BMC reports {} {}, the inventory has {}; nothing was changed. \
                             Mend the inventory, or the address of the BMC",
                            target.host, mismatch.what, mismatch.found, mismatch.expected
                        )));
                    }
                }
            }
        }
        if change.is_abandoned() {
            return Ok(Err(caller_gone(target)));
        }
        let left = limit.saturating_sub(begun.elapsed()).max(MIN_CALL_TIME);
        self.apply(target, left, change, overrode, work).await
    }

    /// Records the change and its caller in the journal, makes it, and records the result.
    ///
    /// # Errors
    /// The outer error: the journal could not record the change, and nothing was changed.
    async fn apply(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        overrode: Option<String>,
        work: &impl Work,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let id = match change.operation_id() {
            Some(id) => id.to_owned(),
            None => format!("{}-{}", change.action, uuid::Uuid::new_v4()),
        };
        let begun = wall_clock();
        let record = OperationRecord {
            id: id.clone(),
            key: target.key.clone(),
            host: target.host.clone(),
            action: change.action.to_owned(),
            owner: change.owner.clone(),
            by: change.owner.clone(),
            detail: change.what.clone(),
            force: change.force,
            overrode: overrode.unwrap_or_default(),
            begun,
            sending: vec![begun],
            ..OperationRecord::default()
        };
        let written = self.journal.begin_change(record).await;
        written.map_err(|error| journal_status(&error))?;
        let result = work.run(self, target, limit).await;
        let outcome = outcome_of_change(target, change, &result);
        if let Err(error) = self.journal.finish(id, wall_clock(), outcome).await {
            self.metrics.journal_error();
            warn!(host = %target.host, %error, "cannot record the outcome of the change");
        }
        Ok(result)
    }

    async fn held(&self, at: Host, owner: &str) -> Result<Option<Hold>, Status> {
        let hold = self.journal.hold(at, owner.to_owned()).await;
        hold.map_err(|error| journal_status(&error))
    }
}

fn other_operation(id: &str, action: &str, host: &str) -> Status {
    refused_status(&Refused::OtherOperation {
        id: id.to_owned(),
        action: action.to_owned(),
        device: Device::Bmc,
        host: host.to_owned(),
    })
}

fn caller_gone(target: &Target) -> BmcError {
    let message = "the program that asked for it has ended; nothing was changed";
    fault(target, ErrorKind::Busy, message.to_owned())
}

/// The result of a change as the journal records it.
fn result_on_record(target: &Target, record: &OperationRecord) -> Result<Accepted, BmcError> {
    let Some(outcome) = record.outcome.clone().map(outcome_to_proto) else {
        let message = "its outcome could not be recorded";
        return Err(BmcError {
            maybe_sent: true,
            ..fault(target, ErrorKind::Timeout, message.to_owned())
        });
    };
    if outcome.code() == v1::OutcomeCode::Confirmed {
        return Ok(Accepted::taken(&record.detail, &outcome.message));
    }
    let maybe_sent = outcome.code() != v1::OutcomeCode::Failed;
    Err(BmcError {
        maybe_sent,
        ..fault(target, ErrorKind::Refused, outcome.message)
    })
}

fn outcome_of_change(
    target: &Target,
    change: &Change,
    result: &Result<Accepted, BmcError>,
) -> v1::Outcome {
    let (host, what) = (&target.host, &change.what);
    let (code, message, failure) = match result {
        Ok(accepted) => (
            v1::OutcomeCode::Confirmed,
            format!("host {host}: {what}: {}", accepted.answer),
            None,
        ),
        Err(error) => (
            match error.maybe_sent {
                true => v1::OutcomeCode::Unconfirmed,
                false => v1::OutcomeCode::Failed,
            },
            format!("host {host}: {what}: {error}"),
            Some(failure_to_proto(host, error)),
        ),
    };
    v1::Outcome {
        code: code.into(),
        message,
        commands_sent: 1,
        failure,
        ..v1::Outcome::default()
    }
}
