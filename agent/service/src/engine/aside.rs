//! What a BMC is asked beside power: boot override, identify LED, sensors, event log.
//!
//! Owns: their turn on the BMC. Must never: make a power operation wait for longer than the call
//! that is under way, change anything behind a BMC that belongs to another system, or change what
//! somebody else relies on without being told so.

use std::time::Duration;

use rackhand_bmc::{Accepted, Bmc, BmcError, BmcFuture, ErrorKind, Identify};
use rackhand_proto::v1;
use tokio::{sync::oneshot, time::timeout};
use tonic::Status;
use tracing::{info, warn};

use super::{
    Engine, Shared, Target,
    bmc_queue::{Class, Place, Rank},
    clients::Asked,
    handle::Handle,
    journal_status,
    wire::failure_to_proto,
};
use crate::journal::{HoldRecord, Host, OperationRecord, Refused, wall_clock};

/// Time for a change whose turn came late.
const LEAST: Duration = Duration::from_secs(2);

/// How long a LED waits at most for its turn to be put out.
const PUT_OUT: Duration = Duration::from_secs(60);

/// A change that is not one of power.
pub(crate) struct Change {
    /// The word for it in the list of operations: `boot-device`.
    pub(crate) action: &'static str,
    /// In words, for the log and the journal: `set boot device pxe`.
    pub(crate) what: String,
    /// Who asked, as holds name it.
    pub(crate) owner: String,
    /// A hold of somebody else stands in its way, unless it is forced.
    pub(crate) minds_holds: bool,
    /// It was requested with force.
    pub(crate) force: bool,
}

impl Engine {
    /// Reads something, making way for operations as often as they come.
    pub(crate) async fn look<T: Send>(
        &self,
        target: &Target,
        limit: Duration,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Result<T, BmcError> {
        let clients = &self.shared.clients;
        let queue = clients.queue(target);
        let mut made_way = false;
        let reading = async {
            loop {
                let turn = queue.call(Class::Reader).await;
                tokio::select! {
                    biased;
                    () = turn.wanted() => made_way = true,
                    result = clients.ask(target, limit, Asked::Look, &call) => return result,
                }
            }
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) if made_way => Err(fault(
                target,
                ErrorKind::Busy,
                "a power operation goes on there and comes first; ask again when it is over"
                    .to_owned(),
            )),
            Err(_) => Err(fault(
                target,
                ErrorKind::Timeout,
                format!("no answer within {limit:?}"),
            )),
        }
    }

    /// Changes something in its turn among the operations. A caller that goes away does not cut
    /// it.
    ///
    /// # Errors
    /// The outer: somebody else holds the host, or the agent stops.
    pub(crate) async fn change(
        &self,
        target: Target,
        limit: Duration,
        change: Change,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync + 'static,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let stopping = || Status::unavailable("the agent is stopping; ask again in a moment");
        if self.closing.is_cancelled() {
            return Err(stopping());
        }
        let (answer, answered) = oneshot::channel();
        let shared = self.shared.clone();
        self.spawn(async move {
            let result = shared.change(&target, limit, &change, call).await;
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
            answer.send(result).ok();
        });
        answered.await.map_err(|_| stopping())?
    }
}

impl Engine {
    /// Puts a LED out after a while, for a BMC that cannot do it by itself; at once when the agent
    /// stops.
    pub(crate) fn put_out_after(&self, time: Duration, target: Target, owner: String) {
        let shared = self.shared.clone();
        self.spawn(async move {
            timeout(time, shared.stop.cancelled()).await.ok();
            let change = Change {
                action: "identify",
                what: "identify LED out again".to_owned(),
                owner,
                minds_holds: false,
                force: false,
            };
            let host = target.host.clone();
            let limit = LEAST.max(time.min(PUT_OUT));
            let out = shared
                .now_or_in_turn(&target, limit, &change, |bmc| bmc.identify(Identify::Off))
                .await;
            if !matches!(out, Ok(Ok(_))) {
                warn!(
                    host,
                    "the identify LED may still be lit: put it out by hand"
                );
            }
        });
    }
}

impl Shared {
    /// A change; when the agent stops it is made at once.
    async fn now_or_in_turn(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        if self.stop.is_cancelled() {
            return self.apply(target, LEAST, change, None, call).await;
        }
        self.change(target, limit, change, call).await
    }

    async fn change(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let expected = target.expected(None)?;
        // It stands in the queue only; the journal has it once it is made.
        let handle = Handle::new(
            String::new(),
            target.host.clone(),
            target.key.clone(),
            "change",
        );
        let at = self.locate(target).await?;
        let queue = self.clients.queue(target);
        let begun = tokio::time::Instant::now();
        let (place, _) = Place::take(queue.clone(), Rank::Other, handle.clone(), at.keys.clone());
        let in_its_turn = async {
            place.turn().await;
            queue.call(Class::Operation).await
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
                return Err(Refused::Held(hold).status());
            }
            overrode = Some(hold.owner);
        }
        // A LED that is lit at the wrong host sends somebody to pull the wrong cable.
        if expected.system_uuid.is_some() || expected.serial.is_some() {
            match self.clients.read_now(target).await {
                Err(error) => return Ok(Err(error)),
                Ok(reading) => {
                    if let Some(mismatch) = expected.mismatch(&reading.identity) {
                        return Err(Status::failed_precondition(format!(
                            "host {}: its BMC says {} {}, the inventory {}; nothing was changed. \
                             Mend the inventory, or the address of the BMC",
                            target.host, mismatch.what, mismatch.found, mismatch.expected
                        )));
                    }
                }
            }
        }
        let left = limit.saturating_sub(begun.elapsed()).max(LEAST);
        self.apply(target, left, change, overrode, call).await
    }

    /// Writes down what is to be changed and by whom, changes it, and writes down what came of it.
    ///
    /// # Errors
    /// The outer: it could not be written down, and nothing was changed.
    async fn apply(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        overrode: Option<String>,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, Accepted> + Send + Sync,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let id = format!("{}-{}", change.action, uuid::Uuid::new_v4());
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
        let result = self.clients.ask(target, limit, Asked::Change, call).await;
        let outcome = outcome_of_change(target, change, &result);
        if let Err(error) = self.journal.finish(id, wall_clock(), outcome).await {
            self.metrics.journal_error();
            warn!(host = %target.host, %error, "cannot write down what came of a change");
        }
        Ok(result)
    }

    async fn held(&self, at: Host, owner: &str) -> Result<Option<HoldRecord>, Status> {
        let hold = self.journal.hold(at, owner.to_owned()).await;
        hold.map_err(|error| journal_status(&error))
    }
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

fn fault(target: &Target, kind: ErrorKind, message: String) -> BmcError {
    BmcError {
        kind,
        bmc: target.address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
    }
}
