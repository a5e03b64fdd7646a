//! The operations of this agent, each a task of its own.
//!
//! Must never: end an operation because its caller disconnected, run two on one host, let one BMC delay another, or
//! start anything that the journal has not accepted.

mod begin;
pub(super) mod handle;
pub(super) mod power_on_stagger;
pub(super) mod recover;
mod runner;
pub(super) mod shared_outlets;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt, future::Either};
use parking_lot::Mutex;
use rackhand_agent_core::ledger::{Action, Authority, Device};
use rackhand_bmc::operation::OperationRequest;
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::info;

use self::{handle::Handle, power_on_stagger::PowerOnStagger, shared_outlets::Siblings};
use super::{
    Target,
    bmcs::{clients::Clients, locate::HostLocator},
    journal_status,
    pdus::Pdus,
    settings::{Clock, Settings},
    tasks::Tasks,
};
use crate::{
    convert::{record_events, record_to_proto},
    journal::{Journal, OperationFilter, OperationRecord, outcome_to_proto, refused_status},
    metrics::Metrics,
};

/// Finished operations that are kept with all events; older ones only with their outcome.
const REMEMBERED: usize = 256;

/// A request that has passed the checks which need no journal.
pub(crate) struct ValidatedRequest {
    pub(crate) id: String,
    pub(crate) target: Target,
    pub(crate) action: Action,
    pub(crate) device: Device,
    pub(crate) operation: OperationRequest,
    /// The other hosts that lose their power with it; none, unless it switches outlets.
    pub(crate) siblings: Siblings,
    pub(crate) owner: String,
    pub(crate) authority: Authority,
    pub(crate) force: bool,
    /// The time since the start of the agent after which nothing is begun.
    pub(crate) latest: Option<Duration>,
    /// The lease that the operation depends on (F17); `None`: it lasts until its deadline.
    pub(crate) caller: Option<CancellationToken>,
}

/// What the tasks of operations use.
pub(super) struct OperationContext {
    pub(super) journal: Journal,
    pub(super) clients: Arc<Clients>,
    pub(super) pdus: Arc<Pdus>,
    pub(super) locator: HostLocator,
    pub(super) metrics: Arc<Metrics>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) power_on_stagger: Arc<PowerOnStagger>,
}

/// The operations of this agent. Clones share them.
#[derive(Clone)]
pub(crate) struct Operations {
    context: Arc<OperationContext>,
    handles: Arc<Mutex<Handles>>,
    tasks: Tasks,
}

#[derive(Default)]
struct Handles {
    by_id: HashMap<String, Arc<Handle>>,
    finished: VecDeque<String>,
}

impl Operations {
    pub(super) fn new(context: OperationContext, tasks: Tasks) -> Self {
        Self {
            context: Arc::new(context),
            handles: Arc::default(),
            tasks,
        }
    }

    /// The events of an operation.
    pub(crate) async fn follow(
        &self,
        id: &str,
    ) -> Result<impl Stream<Item = v1::AwaitResponse> + Send + use<>, Status> {
        let handle = self.handles.lock().by_id.get(id).cloned();
        if let Some(handle) = handle
            && handle.accepted().await
        {
            return Ok(Either::Left(handle.follow()));
        }
        let record = self.record(id).await?;
        Ok(Either::Right(
            futures::stream::iter(record_events(&record)).boxed(),
        ))
    }

    /// The operations in the journal, newest first.
    pub(crate) async fn list(
        &self,
        filter: OperationFilter,
    ) -> Result<Vec<v1::OperationInfo>, Status> {
        let records = self.context.journal.operations(filter).await;
        let records = records.map_err(|error| journal_status(&error))?;
        Ok(records.into_iter().map(record_to_proto).collect())
    }

    async fn record(&self, id: &str) -> Result<OperationRecord, Status> {
        let found = self.context.journal.operation(id.to_owned()).await;
        found
            .map_err(|error| journal_status(&error))?
            .ok_or_else(|| {
                let message = format!(
                    "operation {id} is not known to this agent; it was never begun here, or it was \
                     long ago. `operations list` shows the others"
                );
                let instance = &self.context.journal.identity().instance;
                Refusal::UnknownOperation.status_of_journal(message, instance)
            })
    }

    /// Cancels an operation before its next command, and records the caller.
    pub(crate) async fn cancel(
        &self,
        id: &str,
        authority: Authority,
        force: bool,
    ) -> Result<v1::OperationStatus, Status> {
        let record = self.record(id).await?;
        let is_over = record.outcome.is_some();
        match &authority {
            Authority::Controller { election, .. } => {
                if record.election != *election {
                    return Err(Status::permission_denied(format!(
                        "operation {id} was begun by {}; a controller may cancel only those of \
                         its own election",
                        record.by
                    )));
                }
                let checked = self.context.journal.check_term(authority.clone()).await;
                checked
                    .map_err(|error| journal_status(&error))?
                    .map_err(|refused| refused_status(&refused))?;
            }
            Authority::Operator { .. } if !is_over && !force && !record.election.is_empty() => {
                return Err(Refusal::Held.status(format!(
                    "operation {id} on host {} was begun by {} for {}; cancelling it stops a \
                     remediation half way. Wait for it, or use force (--force) to cancel it all \
                     the same",
                    record.host, record.by, record.owner
                )));
            }
            Authority::Operator { .. } => {}
        }
        let handle = self.handles.lock().by_id.get(id).cloned();
        let Some(handle) = handle else {
            return Ok(record_status(&record));
        };
        if handle.outcome().is_none() && !handle.cancel.is_cancelled() {
            let cancelled = self
                .context
                .journal
                .cancelled(id.to_owned(), authority.to_string());
            cancelled.await.map_err(|error| journal_status(&error))?;
            info!(operation = id, host = %handle.host, by = %authority, force, "cancelling the operation");
            handle.cancel.cancel();
        }
        Ok(handle.status())
    }

    /// The operations without an outcome.
    pub(super) fn running(&self) -> Vec<Arc<Handle>> {
        let handles = self.handles.lock();
        let running = handles
            .by_id
            .values()
            .filter(|handle| handle.outcome().is_none());
        running.cloned().collect()
    }
}

fn record_status(record: &OperationRecord) -> v1::OperationStatus {
    v1::OperationStatus {
        operation_id: record.id.clone(),
        host: record.host.clone(),
        finished: record.outcome.is_some(),
        outcome: record.outcome.clone().map(outcome_to_proto),
    }
}
