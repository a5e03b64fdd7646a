//! HostMaintenances: observes each, has the core decide, records that, and carries it out.
//!
//! The host itself is switched by the PowerRemediation that is made for it. Owns the marks beside it: the annotation
//! `cluster.x-k8s.io/skip-remediation`, medik8s' Lease and the locator LED. Must never switch anything.

mod act;
mod lease;
mod memory;
mod metrics;
mod observe;
mod order;
mod orphans;
mod resolve;
mod status;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Client, api::DynamicObject};
use rackhand_core::maintenance::decide;
use tokio_util::sync::CancellationToken;

use self::{
    lease::{Leases, asks_for_own_nodes},
    memory::Memories,
    order::Order,
    orphans::Orphans,
};
use crate::{
    agents::{AgentCommands, AgentConnections},
    checks::{Ownership, passes},
    leader::{events::Events, writer::Writer},
    store::{
        api::ApiError,
        index::Index,
        maintenance::StoredMaintenance,
        object::{Key, Kind, Served},
        watch::pause,
    },
};

pub(crate) use metrics::MaintenanceMetrics;

/// Longest time until a change is acted on. An evaluation reads the index alone, but for what is absent there.
const INTERVAL: Duration = Duration::from_secs(1);

/// A maintenance as it is stored.
type Stored = (Key, Arc<DynamicObject>, Arc<StoredMaintenance>);

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

impl Maintenances {
    fn leases(&self) -> Leases<'_> {
        Leases {
            client: &self.client,
            served: &self.served,
            index: &self.index,
            writer: &self.writer,
        }
    }
}

/// Evaluates the maintenances when something about them changes, and now and then, until `cancel`.
pub(crate) async fn run(context: Maintenances, cancel: CancellationToken) {
    let (mut memories, mut orphans) = (Memories::default(), Orphans::default());
    while !pause(&cancel, INTERVAL).await {
        let all: Vec<Stored> = (context.index.maintenances().into_iter())
            .filter_map(|(key, entry)| Some((key, entry.object, entry.view.ok()?)))
            .collect();
        let phases = all.iter().map(|(_, _, stored)| stored.status.phase);
        let is_asked = asks_for_own_nodes(&context.served, phases);
        (context.index).watch_own_nodes(Kind::HostMaintenance, is_asked);
        memories.retain(all.iter().map(|(_, _, stored)| stored.meta.uid.as_str()));
        let claims = all.iter().map(|(key, _, stored)| (key, &**stored));
        let order = Order::of(&context, &mut memories, claims, Timestamp::now());
        let mut ours = all;
        ours.retain(|(_, _, stored)| passes(context.watch_filter.as_deref(), &stored.meta));
        context
            .metrics
            .set(ours.iter().map(|(_, _, stored)| stored.status.phase));
        for of in &ours {
            let key = &of.0;
            let turn = Box::pin(turn(&context, &mut memories, &order, of));
            if let Err(error) = turn.await {
                tracing::warn!(maintenance = %key, %error, "trying again");
            }
        }
        Box::pin(orphans.turn(&context, &ours)).await;
    }
    (context.index).watch_own_nodes(Kind::HostMaintenance, false);
}

/// One evaluation: what was decided is recorded before it is done. What is recorded already is renewed before that, so
/// that it does not expire while the status cannot be written.
async fn turn(
    context: &Maintenances,
    memories: &mut Memories,
    order: &Order,
    (key, object, stored): &Stored,
) -> Result<(), ApiError> {
    if stored.status.phase.is_over() && !stored.has_finalizer() {
        return Ok(());
    }
    let uid = &stored.meta.uid;
    let memory = memories.of(uid);
    let now = Timestamp::now();
    let about = order
        .subject(uid)
        .unwrap_or_else(|| observe::subject_of(context, memory, key, stored, now));
    let earlier = order.earlier(uid);
    let seen = observe::observe(context, memory, (key, stored), about, earlier, now).await?;
    let mut decision = decide(&seen.facts, now);
    let wanted = status::status(
        &stored.status,
        &decision,
        &seen,
        stored.meta.generation,
        now,
    );
    let renewals = decision.take_renewals(&stored.status.in_place);
    let renewed = act::act(context, memory, (key, stored), &seen, &renewals, now).await;
    if wanted != stored.status {
        let new = (&wanted, decision.reason);
        status::write(context, key, object, &stored.status, new).await?;
    }
    status::warn(context, memory, object, &decision.warnings);
    let done = act::act(
        context,
        memory,
        (key, stored),
        &seen,
        &decision.actions,
        now,
    )
    .await;
    renewed.and(done)
}
