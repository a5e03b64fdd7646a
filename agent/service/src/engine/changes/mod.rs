//! Changes other than power: boot device, identify LED, event log.
//!
//! Owns: the order of a change among the operations of its BMC, and its journal record. Must never:
//! make a power operation wait longer than the call in flight, change anything if the BMC manages
//! another system, or change a held host without force.

mod changer;
mod identify_timer;
mod known;
mod updates;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use rackhand_bmc::{Accepted, Bmc, BmcError, BmcFuture, operation::DuringUpdate};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{info, warn};

use self::{
    identify_timer::LedTimers,
    known::{Asked, KnownChanges},
};
use super::{
    Target,
    bmcs::clients::{CallKind, Clients},
    tasks::Tasks,
};
pub(super) use changer::Changer;

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

/// The work of a change at the BMC.
pub(crate) trait Work: Send + Sync + 'static {
    /// Carries the change out within `limit`. The caller has exclusive use of the BMC and has recorded the change. Work
    /// that [ends updates](Self::ends_updates) sends nothing after `until`.
    fn run<'a>(
        &'a self,
        clients: &'a Clients,
        target: &'a Target,
        limit: Duration,
        until: Option<Instant>,
    ) -> WorkFuture<'a>;

    /// Whether the BMC must first report the identity of the host, read with the password of the configuration.
    fn checks_identity(&self) -> bool {
        true
    }

    /// Whether it ends an update of firmware that the BMC is writing, so that one that runs refuses it.
    fn ends_updates(&self) -> bool {
        false
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
        clients: &'a Clients,
        target: &'a Target,
        limit: Duration,
        _until: Option<Instant>,
    ) -> WorkFuture<'a> {
        Box::pin(clients.ask(target, limit, CallKind::Change, &self.0))
    }
}

/// A restart of the BMC.
pub(crate) struct ResetBmc {
    /// Whether it is made although an update runs.
    pub(crate) during_update: DuringUpdate,
}

impl Work for ResetBmc {
    fn run<'a>(
        &'a self,
        clients: &'a Clients,
        target: &'a Target,
        limit: Duration,
        until: Option<Instant>,
    ) -> WorkFuture<'a> {
        Box::pin(clients.ask(target, limit, CallKind::Change, move |bmc| {
            bmc.reset_bmc_until(until)
        }))
    }

    fn ends_updates(&self) -> bool {
        self.during_update == DuringUpdate::Refuse
    }
}

/// The changes that callers request.
#[derive(Clone)]
pub(crate) struct BmcChanges {
    changer: Changer,
    /// The changes that have an id, by that id.
    known: Arc<KnownChanges>,
    /// The timers of identify LEDs.
    leds: LedTimers,
    tasks: Tasks,
}

impl BmcChanges {
    pub(super) fn new(changer: Changer, tasks: Tasks) -> Self {
        Self {
            changer,
            known: Arc::default(),
            leds: LedTimers::default(),
            tasks,
        }
    }

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
        if self.tasks.is_closing() {
            return Err(stopping());
        }
        let (answer, mut answered) = match change.operation_id() {
            None => watch::channel(None),
            Some(id) => match self.known.ask(id, &target, &change)? {
                Asked::Again(mut result) => {
                    return made(&mut result).await.unwrap_or_else(|| Err(stopping()));
                }
                Asked::First(answer) => {
                    let answered = answer.subscribe();
                    (answer, answered)
                }
            },
        };
        let (changer, known) = (self.changer.clone(), self.known.clone());
        self.tasks.spawn(async move {
            let result = match changer.on_record(&target, &change).await {
                Ok(Some(recorded)) => Ok(recorded),
                Ok(None) => changer.change(&target, limit, &change, &work).await,
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
                known.forget(id);
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
