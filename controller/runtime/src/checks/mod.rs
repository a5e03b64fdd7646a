//! Evaluation of health checks: events are mapped to the members that they affect, deadlines fire from one
//! queue, and actions are carried out for each member separately.
//!
//! `rackhand_core` decides.
//!
//! ```text
//! index -> engine (one Fleet per check) -> queue -> effect, conditions   (per member)
//!             '-> status of the check (paced)
//! ```
//!
//! The differences between the kinds of checks are in [`dialects`]; [`dialect`] lists them.

mod conditions;
mod dialect;
mod dialects;
mod engine;
mod facts;
mod machines;
mod metrics;
mod ownership;
mod remediations;
mod snapshot;

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use dialects::node_health_check as nodes;
pub(crate) use dialects::openshift::{
    MachineSeen, OpenShiftFleet, concerns as concerns_openshift, openshift_controllers,
    openshift_machine, openshift_rules,
};
pub(crate) use machines::acting_message;
pub(crate) use metrics::CheckMetrics;
pub(crate) use ownership::{
    CLUSTER_API_CRD, NODE_CHECK_CRD, OPENSHIFT_CRD, Ownership, carries_our_label, evaluates,
    is_our_crd, passes, paused,
};
pub(crate) use remediations::{
    orphan_scan,
    withdrawal::{checked_conditions, given_up_at, is_judged},
};
pub(crate) use snapshot::{FleetObjects, cluster_facts, is_of, machine_facts, node_view, rules};

use crate::{
    clusters::sync::Syncs,
    leader::{events::Events, writer::Writer},
    store::{
        index::{ChangeQueue, Index},
        object::Served,
    },
};
use dialects::{
    cluster_api::ClusterApi, node_health_check::NodeHealthChecks, openshift::OpenShift,
};
use engine::CheckEngine;
use machines::Machines;

/// Dependencies of every evaluation.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<CheckMetrics>,
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) syncs: Syncs,
}

/// Evaluates every check of Cluster API until `cancel`.
pub(crate) async fn run_cluster_api(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    let engine = CheckEngine::new(context, Machines::<ClusterApi>::default());
    engine.run(&inbox, &cancel).await;
}

/// Evaluates every check of OpenShift until `cancel`.
pub(crate) async fn run_openshift(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    let engine = CheckEngine::new(context, Machines::<OpenShift>::default());
    engine.run(&inbox, &cancel).await;
}

/// Evaluates every NodeHealthCheck until `cancel`.
pub(crate) async fn run_node_health_checks(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    let engine = CheckEngine::new(context, NodeHealthChecks::default());
    engine.run(&inbox, &cancel).await;
}
