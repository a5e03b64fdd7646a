//! HostMaintenances: observes each, has the core decide, records that, and carries it out.
//!
//! The host itself is switched by the PowerRemediation that is made for it. Owns the marks beside it: the annotation
//! `cluster.x-k8s.io/skip-remediation`, medik8s' Lease and the locator LED. Must never switch anything.

mod act;
mod lease;
mod memory;
mod metrics;
mod observe;
mod orphans;
mod resolve;
mod status;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::Client;
use rackhand_core::maintenance::decide;
use tokio_util::sync::CancellationToken;

use self::{memory::Memories, orphans::Orphans};
use crate::{
    agents::{AgentCommands, AgentConnections},
    checks::{Ownership, passes},
    leader::{events::Events, writer::Writer},
    store::{
        index::Index,
        maintenance::StoredMaintenance,
        object::{Key, Served},
        watch::pause,
    },
};

pub(crate) use metrics::MaintenanceMetrics;

/// Longest time until a change is acted on. An evaluation reads the index alone, but for what is absent there.
const INTERVAL: Duration = Duration::from_secs(1);

/// Dependencies of every maintenance.
pub(crate) struct Maintenances {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) commands: AgentCommands,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: MaintenanceMetrics,
    /// Which checks of OpenShift this controller evaluates.
    pub(crate) of_openshift: Arc<Ownership>,
    /// The label value of this shard.
    pub(crate) watch_filter: Option<String>,
}

/// Evaluates the maintenances when something about them changes, and now and then, until `cancel`.
pub(crate) async fn run(context: Maintenances, cancel: CancellationToken) {
    let (mut memories, mut orphans) = (Memories::default(), Orphans::default());
    while !pause(&cancel, INTERVAL).await {
        let all = context.index.maintenances();
        let ours = all
            .into_iter()
            .filter_map(|(key, entry)| Some((key, entry.object, entry.view.ok()?)))
            .filter(|(_, _, stored)| passes(context.watch_filter.as_deref(), &stored.meta));
        let ours: Vec<_> = ours.collect();
        context
            .metrics
            .set(ours.iter().map(|(_, _, stored)| stored.status.phase));
        memories.retain(ours.iter().map(|(_, _, stored)| stored.meta.uid.as_str()));
        for (key, object, stored) in &ours {
            let turn = Box::pin(turn(&context, &mut memories, key, object, stored));
            if let Err(error) = turn.await {
                tracing::warn!(maintenance = %key, %error, "trying again");
            }
        }
        if let Err(error) = Box::pin(orphans.turn(&context, &ours)).await {
            tracing::warn!(%error, "what maintenances that are gone have left is looked for again");
        }
    }
}

/// One evaluation: what was decided is recorded before it is done.
async fn turn(
    context: &Maintenances,
    memories: &mut Memories,
    key: &Key,
    object: &kube::api::DynamicObject,
    stored: &StoredMaintenance,
) -> Result<(), crate::store::api::ApiError> {
    if stored.status.phase.is_over() && !stored.has_finalizer() {
        return Ok(());
    }
    let memory = memories.of(&stored.meta.uid);
    let now = Timestamp::now();
    let seen = observe::observe(context, memory, key, stored, now).await?;
    let decision = decide(&seen.facts, now);
    let wanted = status::status(
        &stored.status,
        &decision,
        &seen,
        stored.meta.generation,
        now,
    );
    if wanted != stored.status {
        status::write(context, key, object, &stored.status, &wanted).await?;
    }
    act::act(context, memory, key, stored, &seen, &decision, now).await
}
