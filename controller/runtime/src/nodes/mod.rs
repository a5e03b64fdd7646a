//! Evaluates health checks of Nodes: NodeHealthCheck, as medik8s has it, in the cluster in which the
//! controller itself runs.
//!
//! Must never judge: `rackhand_core::nodes` does.
//!
//! ```text
//! checks, Nodes, remediations of any kind -> driver (one Fleet per check) -> Leases, remediations
//!                                                 '-> status of the check (paced)
//! ```

mod actions;
mod driver;
mod leases;
mod metrics;
mod openshift;
mod rules;
mod seen;
mod status;
mod templates;
mod versions;
mod watches;

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

pub(crate) use leases::{held, lease_name};
pub(crate) use metrics::NodeMetrics;
pub(crate) use openshift::{Fact, OpenShift};
pub(crate) use rules::{
    check as rules_of, memory as memory_of, template, templates as templates_of,
};
pub(crate) use seen::{KnownNode, WireNode, request as request_of};
pub(crate) use templates::{misnamed, name_of, not_found, usable};

use crate::{
    config::HealthChecks, events::Events, metrics::Metrics, object::Served, writer::Writer,
};

/// The CRD of these checks.
pub(crate) const NODE_CHECK_CRD: &str = "nodehealthchecks.remediation.medik8s.io";

/// What every evaluation works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) mode: HealthChecks,
}

/// Evaluates every check that is ours until `cancel`.
pub(crate) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    driver::Driver::new(context).run(&cancel).await;
}
