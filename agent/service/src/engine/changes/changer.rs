//! Making a change in its turn, and its journal record.

use std::{sync::Arc, time::Duration};

use rackhand_agent_core::{
    bmc_queue::{CallClass, OperationRank},
    ledger::{Device, Hold, Host, Refused},
};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, BmcFuture, ErrorKind,
    operation::{Expected, is_held_back},
};
use rackhand_proto::v1;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::warn;

use super::{Change, MIN_CALL_TIME, OneCall, Work, updates::Updates};
use crate::{
    convert::failure_to_proto,
    engine::{
        Target,
        bmcs::{bmc_queue::QueuePosition, clients::Clients, locate::HostLocator, reads::fault},
        journal_status,
        operations::handle::Handle,
    },
    journal::{Journal, OperationRecord, outcome_to_proto, refused_status, wall_clock},
    metrics::Metrics,
};

/// Makes changes: each in its turn among the operations of its BMC.
#[derive(Clone)]
pub(in crate::engine) struct Changer {
    journal: Journal,
    clients: Arc<Clients>,
    locator: HostLocator,
    metrics: Arc<Metrics>,
    /// Cancelled when the agent stops.
    stop: CancellationToken,
}

impl Changer {
    pub(in crate::engine) fn new(
        journal: Journal,
        clients: Arc<Clients>,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            locator: HostLocator::new(clients.clone(), journal.clone()),
            journal,
            clients,
            metrics,
            stop,
        }
    }

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
            let expected = Expected::default();
            let until = Instant::now() + MIN_CALL_TIME;
            let updates = Updates::new(&self.clients, target, &expected, until);
            return self.apply(change, None, &work, updates).await;
        }
        self.change(target, limit, change, &work).await
    }

    /// The recorded result of a change that an earlier start of the agent, or an earlier request, made under the
    /// same id.
    ///
    /// # Errors
    ///
    /// The journal cannot be read, or the id belongs to another operation.
    pub(super) async fn on_record(
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

    pub(in crate::engine) async fn change(
        &self,
        target: &Target,
        limit: Duration,
        change: &Change,
        work: &impl Work,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let stated = target.expected(None)?;
        let remembered = self.journal.last_system(target.keys.clone()).await;
        let remembered = remembered
            .map_err(|error| journal_status(&error))?
            .filter(|system| system.applies(&stated));
        let expected =
            (remembered.as_ref()).map_or_else(|| stated.clone(), |system| system.expected(&stated));
        // A handle for the queue only; the journal records the change when it is made.
        let handle = Handle::new(
            String::new(),
            target.host.clone(),
            target.key.clone(),
            "change",
            Device::Bmc,
        );
        let at = self.locator.locate(target).await?;
        let queue = self.clients.queue(target);
        let begun = Instant::now();
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
                    if let Some(mismatch) = stated.mismatch(&reading.identity) {
                        return Err(Status::failed_precondition(format!(
                            "host {}: its BMC reports {} {}, the inventory has {}; nothing was changed. \
                             Mend the inventory, or the address of the BMC",
                            target.host, mismatch.what, mismatch.found, mismatch.expected
                        )));
                    }
                    if let Some(mismatch) = expected.mismatch_at(reading.source, &reading.identity)
                    {
                        let origin = remembered.map(|system| system.origin());
                        return Err(Status::failed_precondition(format!(
                            "host {}: its BMC reports {mismatch}; nothing was changed; {}",
                            target.host,
                            origin.unwrap_or_default()
                        )));
                    }
                }
            }
        }
        let mut updates = Updates::new(&self.clients, target, &expected, begun + limit);
        if work.ends_updates() {
            updates.read().await.map_err(Status::failed_precondition)?;
        }
        if change.is_abandoned() {
            return Ok(Err(caller_gone(target)));
        }
        self.apply(change, overrode, work, updates).await
    }

    /// Records the change and its caller in the journal, makes it, and records the result.
    ///
    /// # Errors
    /// The outer error: the journal could not record the change, and nothing was changed.
    async fn apply(
        &self,
        change: &Change,
        overrode: Option<String>,
        work: &impl Work,
        updates: Updates<'_>,
    ) -> Result<Result<Accepted, BmcError>, Status> {
        let target = updates.target;
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
        let result = self.make(change, work, updates).await;
        let outcome = outcome_of_change(target, change, &result);
        if let Err(error) = self.journal.finish(id, wall_clock(), outcome).await {
            self.metrics.journal_error();
            warn!(host = %target.host, %error, "cannot record the outcome of the change");
        }
        Ok(result)
    }

    /// Makes the change. One that the BMC was too slow for is made after another reading of the updates.
    async fn make(
        &self,
        change: &Change,
        work: &impl Work,
        mut updates: Updates<'_>,
    ) -> Result<Accepted, BmcError> {
        let target = updates.target;
        loop {
            let until = updates.counts_until();
            let left = updates.left().max(MIN_CALL_TIME);
            let result = work.run(&self.clients, target, left, until).await;
            match result {
                Err(error)
                    if until.is_some_and(|at| Instant::now() > at)
                        && is_held_back(&error)
                        && !updates.left().is_zero() => {}
                result => return result.map(|accepted| updates.told(accepted)),
            }
            updates.was_late();
            let refused = updates.read().await.err();
            let nothing_sent = |error| BmcError {
                not_sent: true,
                ..error
            };
            if let Some(why) = refused {
                return Err(nothing_sent(fault(target, ErrorKind::Refused, why)));
            }
            if change.is_abandoned() {
                return Err(nothing_sent(caller_gone(target)));
            }
        }
    }

    async fn held(&self, at: Host, owner: &str) -> Result<Option<Hold>, Status> {
        let hold = self.journal.hold(at, owner.to_owned()).await;
        hold.map_err(|error| journal_status(&error))
    }
}

pub(super) fn other_operation(id: &str, action: &str, host: &str) -> Status {
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
        commands_sent: u32::from(!result.as_ref().is_err_and(|error| error.not_sent)),
        failure,
        ..v1::Outcome::default()
    }
}
