//! The operations of this agent, each a task of its own.
//!
//! Owns: the running operations, their order on each BMC, and the clients of the BMCs. Must
//! never: end an operation because its caller disconnected, run two on one host, send two calls to
//! one BMC at once, let one BMC delay another, or start anything that the journal has not admitted.

mod authority;
mod bmcs;
mod changes;
pub(crate) mod convert;
mod credentials;
mod operations;
mod pdus;
mod reload;
mod resolver;
mod shutdown;
mod target;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::{Stream, StreamExt, future::Either};
use parking_lot::Mutex;
use rackhand_agent_core::ledger::{Action, Authority, Claims, Device};
use rackhand_bmc::{BmcError, PowerReading, operation::OperationRequest, pdu::OutletReading};
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::{Instrument, info, warn};

use crate::{
    config::{Config, PduEntry},
    driver::Driver,
    journal::{self, Journal, JournalError, OperationRecord, outcome_to_proto, refused_status},
    metrics::{JournalState, Metrics},
};
pub(crate) use authority::callers::{Attendance, Callers};
use bmcs::clients::Clients;
pub(crate) use bmcs::evidence::Evidence;
pub(crate) use changes::{Change, ChangeId};
pub(crate) use credentials::password_rotation::Rotate;
pub(crate) use operations::shared_outlets::Siblings;
use operations::{handle::Handle, power_on_stagger::PowerOnStagger};
use pdus::Pdus;
pub use reload::{Changes, NotTaken};
pub(crate) use target::{Target, resolve};

/// Finished operations that are kept with all events; older ones only with their outcome.
const REMEMBERED: usize = 256;
const SWEEP: Duration = Duration::from_secs(30);

/// State that all operations share.
pub(super) struct Shared {
    pub(super) journal: Journal,
    pub(super) clients: Clients,
    pub(super) pdus: Arc<Pdus>,
    pub(super) metrics: Arc<Metrics>,
    /// The configuration in force.
    pub(super) config: ArcSwap<Config>,
    pub(super) power_on_stagger: PowerOnStagger,
    /// Cancelled when running operations must end.
    pub(super) stop: CancellationToken,
    start: Instant,
    /// The claims that were taken. A leader repeats its claim as a liveness check, which must neither
    /// write to the disk nor fill the log.
    claims: Mutex<Claims>,
}

impl Shared {
    pub(super) fn since_start(&self) -> Duration {
        self.start.elapsed()
    }

    /// Reads the power of a host from its BMC or its outlets.
    pub(super) async fn read(
        &self,
        target: &Target,
        device: Device,
        limit: Duration,
    ) -> Result<PowerReading, BmcError> {
        match device {
            Device::Bmc => self.clients.read(target, limit).await,
            Device::Outlets => self.pdus.read(target, limit).await,
        }
    }
}

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

/// The operations of this agent. Clones share them; the tasks end with the last clone.
#[derive(Clone)]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    pub(crate) rack: Arc<str>,
    /// Changes with each start.
    pub(crate) instance: Arc<str>,
    /// Cancelled when no new operation may begin.
    closing: CancellationToken,
    handles: Arc<Mutex<Handles>>,
    /// Changes other than power that have an id, by that id.
    changes: Arc<changes::Known>,
    callers: Arc<Callers>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

#[derive(Default)]
struct Handles {
    by_id: HashMap<String, Arc<Handle>>,
    finished: VecDeque<String>,
}

impl Engine {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(
        config: Config,
        journal: Journal,
        driver: Arc<dyn Driver>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let rack = config.rack.as_str().into();
        let start = Instant::now();
        let shared = Arc::new(Shared {
            journal,
            pdus: Pdus::new(driver.clone(), metrics.clone()),
            clients: Clients::new(driver, &config.inventory, metrics.clone()),
            metrics,
            config: ArcSwap::from_pointee(config),
            power_on_stagger: PowerOnStagger::default(),
            stop: CancellationToken::new(),
            start,
            claims: Mutex::default(),
        });
        let engine = Self {
            shared,
            rack,
            instance: uuid::Uuid::new_v4().to_string().into(),
            closing: CancellationToken::new(),
            handles: Arc::default(),
            changes: Arc::default(),
            callers: Callers::new(start),
            tasks: Arc::default(),
        };
        let shared = engine.shared.clone();
        engine.spawn(async move {
            while tokio::time::timeout(SWEEP, shared.stop.cancelled())
                .await
                .is_err()
            {
                shared.clients.sweep(false).await;
                shared.pdus.sweep(false).await;
            }
        });
        engine
    }

    /// The identity of the journal.
    pub(crate) fn journal(&self) -> v1::Journal {
        let journal = &self.shared.journal;
        convert::journal_to_proto(journal.identity(), journal.generation())
    }

    /// State of the journal, for metrics.
    pub(crate) fn journal_state(&self) -> JournalState {
        let journal = &self.shared.journal;
        JournalState {
            writable: journal.trouble().is_none(),
            reopened: journal.reopened(),
            created: journal.identity().created / 1_000_000_000,
            origin: match journal.identity().origin() {
                v1::JournalOrigin::Unspecified | v1::JournalOrigin::First => "first",
                v1::JournalOrigin::Missing => "missing",
                v1::JournalOrigin::Damaged => "damaged",
                v1::JournalOrigin::Restored => "restored",
            },
        }
    }

    /// Why the agent cannot take commands; `None`: it can.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.closing.is_cancelled() {
            return Some("the agent is stopping".to_owned());
        }
        let trouble = self.shared.journal.trouble()?;
        Some(format!(
            "the journal cannot be written, so no command is accepted: {trouble}"
        ))
    }

    /// Cancelled when only a new process can continue with the journal.
    pub(crate) fn journal_lost(&self) -> CancellationToken {
        self.shared.journal.lost()
    }

    /// The time since the start of this agent.
    pub(crate) fn since_start(&self) -> Duration {
        self.shared.since_start()
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.shared.config.load_full()
    }

    /// The leases of calling processes.
    pub(crate) fn callers(&self) -> &Arc<Callers> {
        &self.callers
    }

    /// Cancelled when running operations must end.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.shared.stop.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                warn!(%error, "a task of the agent panicked");
            }
        }
        // The lines of an operation carry the trace of the call that began it.
        tasks.spawn(task.in_current_span());
    }

    /// The events of an operation.
    pub(crate) async fn follow(
        &self,
        id: &str,
    ) -> Result<impl Stream<Item = v1::AwaitResponse> + Send + use<>, Status> {
        let handle = self.handles.lock().by_id.get(id).cloned();
        if let Some(handle) = handle
            && handle.admitted().await
        {
            return Ok(Either::Left(handle.follow()));
        }
        let record = self.record(id).await?;
        Ok(Either::Right(
            futures::stream::iter(convert::record_events(&record)).boxed(),
        ))
    }

    /// The operations in the journal, newest first.
    pub(crate) async fn operations(
        &self,
        filter: journal::OperationFilter,
    ) -> Result<Vec<v1::OperationInfo>, Status> {
        let records = self.shared.journal.operations(filter).await;
        let records = records.map_err(|error| journal_status(&error))?;
        Ok(records.into_iter().map(convert::record_to_proto).collect())
    }

    async fn record(&self, id: &str) -> Result<OperationRecord, Status> {
        let found = self.shared.journal.operation(id.to_owned()).await;
        found
            .map_err(|error| journal_status(&error))?
            .ok_or_else(|| {
                let message = format!(
                    "operation {id} is not known to this agent; it was never begun here, or it was \
                     long ago. `operations list` shows the others"
                );
                let instance = &self.shared.journal.identity().instance;
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
                let checked = self.shared.journal.check_term(authority.clone()).await;
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
                .shared
                .journal
                .cancelled(id.to_owned(), authority.to_string());
            cancelled.await.map_err(|error| journal_status(&error))?;
            info!(operation = id, host = %handle.host, by = %authority, force, "cancelling the operation");
            handle.cancel.cancel();
        }
        Ok(handle.status())
    }

    /// Reads power now.
    pub(crate) async fn read(
        &self,
        target: &Target,
        device: Device,
        limit: Duration,
    ) -> Result<(PowerReading, Duration), BmcError> {
        let reading = self.shared.read(target, device, limit).await?;
        Ok((reading, self.shared.since_start()))
    }

    /// Reads every outlet of a PDU now.
    pub(crate) async fn read_pdu(
        &self,
        config: &Arc<Config>,
        pdu: &PduEntry,
        limit: Duration,
    ) -> Result<Vec<OutletReading>, BmcError> {
        self.shared.pdus.outlets(config, pdu, limit).await
    }

    /// Number of running operations, and of operations that wait for their PDU.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.running().len(), self.shared.power_on_stagger.waiting())
    }

    fn running(&self) -> Vec<Arc<Handle>> {
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

fn journal_status(error: &JournalError) -> Status {
    warn!(%error, "journal");
    Status::unavailable(format!("{error}; nothing was done"))
}
