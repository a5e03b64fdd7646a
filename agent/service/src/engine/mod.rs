//! The parts of this agent, behind the gRPC service.
//!
//! Owns: which part gets what. Each part is a type of its own; the callers of the service get only the parts that they
//! need. Must never: send two calls to one BMC at once, or start anything that the journal has not accepted.

mod authority;
mod bmcs;
mod changes;
mod credentials;
mod host_watch;
mod journal_status;
mod operations;
mod pdus;
mod reload;
mod resolver;
mod settings;
mod shutdown;
mod target;
mod tasks;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::warn;

use crate::{
    config::Config,
    driver::Driver,
    journal::{Journal, JournalError},
    metrics::Metrics,
};
pub(crate) use authority::{
    callers::{Attendance, Callers},
    holds::Holds,
    terms::Terms,
};
pub(crate) use bmcs::{
    reads::Reads,
    report::{Extent, FailureReport},
};
pub(crate) use changes::{BmcChanges, Change, ChangeId, ResetBmc};
pub(crate) use credentials::password_rotation::Rotate;
pub(crate) use host_watch::{HostWatches, Wanted, WatchStream};
pub(crate) use journal_status::JournalStatus;
pub(crate) use operations::{Operations, ValidatedRequest, shared_outlets::Siblings};
pub use reload::{Changes, NotTaken};
pub(crate) use settings::{Clock, Settings};
pub(crate) use target::{Target, resolve};
pub(crate) use tasks::Tasks;

use bmcs::{clients::Clients, locate::HostLocator};
use changes::Changer;
use credentials::interrupted_rotations::InterruptedRotations;
use operations::{OperationContext, power_on_stagger::PowerOnStagger, recover::Recovery};
use pdus::Pdus;

const SWEEP: Duration = Duration::from_secs(30);

/// The parts of this agent. Clones share them; the tasks end with the last clone.
#[derive(Clone)]
pub(crate) struct Engine {
    /// Changes with each start.
    pub(crate) instance: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) journal_status: JournalStatus,
    pub(crate) terms: Arc<Terms>,
    pub(crate) holds: Holds,
    /// The leases of calling processes.
    pub(crate) callers: Arc<Callers>,
    pub(crate) reads: Reads,
    pub(crate) host_watches: HostWatches,
    pub(crate) changes: BmcChanges,
    pub(crate) operations: Operations,
    pub(crate) tasks: Tasks,
    changer: Changer,
    journal: Journal,
    clients: Arc<Clients>,
    pdus: Arc<Pdus>,
    power_on_stagger: Arc<PowerOnStagger>,
}

impl Engine {
    /// Must be called within a tokio runtime.
    pub(crate) fn start(
        config: Config,
        journal: Journal,
        driver: Arc<dyn Driver>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (clock, tasks) = (Clock::start(), Tasks::default());
        let pdus = Pdus::new(driver.clone(), metrics.clone());
        let clients = Arc::new(Clients::new(driver, &config.inventory, metrics.clone()));
        let settings = Settings::new(config);
        let locator = HostLocator::new(clients.clone(), journal.clone());
        let power_on_stagger = Arc::<PowerOnStagger>::default();
        let changer = Changer::new(
            journal.clone(),
            clients.clone(),
            metrics.clone(),
            tasks.stopping(),
        );
        let context = OperationContext {
            journal: journal.clone(),
            clients: clients.clone(),
            pdus: pdus.clone(),
            locator: locator.clone(),
            metrics: metrics.clone(),
            settings: settings.clone(),
            clock,
            power_on_stagger: power_on_stagger.clone(),
        };
        let reads = Reads::new(clients.clone(), pdus.clone(), journal.clone(), clock);
        let holds = Holds::new(journal.clone(), locator);
        let host_watches = HostWatches::new(
            clients.clone(),
            reads.clone(),
            holds.clone(),
            settings.clone(),
            tasks.clone(),
        );
        tasks.spawn(sweep(clients.clone(), pdus.clone(), tasks.stopping()));
        Self {
            instance: uuid::Uuid::new_v4().to_string().into(),
            clock,
            journal_status: JournalStatus::new(journal.clone()),
            terms: Terms::new(journal.clone(), metrics),
            holds,
            callers: Callers::new(Instant::now()),
            reads,
            host_watches,
            changes: BmcChanges::new(changer.clone(), tasks.clone()),
            operations: Operations::new(context, tasks.clone()),
            settings,
            tasks,
            changer,
            journal,
            clients,
            pdus,
            power_on_stagger,
        }
    }

    /// Continues what the last stop of the agent interrupted: password rotations, and these operations.
    pub(crate) fn recover(&self, interrupted: Vec<String>) {
        let rotations = InterruptedRotations::new(self.settings.clone(), self.changer.clone());
        self.tasks.spawn(rotations.run(self.tasks.stopping()));
        let recovery = Recovery {
            operations: self.operations.clone(),
            reads: self.reads.clone(),
            journal: self.journal.clone(),
            settings: self.settings.clone(),
            tasks: self.tasks.clone(),
        };
        recovery.look_after(interrupted);
    }

    /// Why the agent cannot take commands; `None`: it can.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.tasks.is_closing() {
            return Some("the agent is stopping".to_owned());
        }
        let trouble = self.journal_status.trouble()?;
        Some(format!(
            "the journal cannot be written, so no command is accepted: {trouble}"
        ))
    }

    /// Number of running operations, and of operations that wait for their PDU.
    pub(crate) fn load(&self) -> (usize, usize) {
        (
            self.operations.running().len(),
            self.power_on_stagger.waiting(),
        )
    }
}

/// Closes idle clients, until `stop`.
async fn sweep(clients: Arc<Clients>, pdus: Arc<Pdus>, stop: CancellationToken) {
    while tokio::time::timeout(SWEEP, stop.cancelled()).await.is_err() {
        clients.sweep(false).await;
        pdus.sweep(false).await;
    }
}

fn journal_status(error: &JournalError) -> Status {
    warn!(%error, "journal");
    Status::unavailable(format!("{error}; nothing was done"))
}
