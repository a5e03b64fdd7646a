//! The shell around `rackhand-core`: it observes, asks the core, and carries out what it answers.
//!
//! Owns: watches, index, the one writer, the leader lease, workload clusters, agent connections,
//! the admin server. Must never: decide anything about checks, fencing or power.
//!
//! ```text
//! watches -> Index -> checks (fleets)    -> Writer -> Kubernetes
//!               |---> remediation (step) ----^  |
//!               |          '--> agents (gRPC, mTLS, with the leader's term)
//! ```

mod agents;
mod checks;
mod clusters;
mod config;
#[cfg(test)]
mod layers;
mod leader;
mod remediation;
mod run;
mod serve;
mod store;

pub use agents::AgentConnector;
pub use clusters::WorkloadConnector;
pub use config::{Config, HealthChecks, MetricsConfig};
pub use rackhand_core::remediation::{DrainBlocked, NodeAction, NodeGone, WorkloadDown};
pub use run::{Connections, run, run_over};
pub use serve::explain::{
    CheckGroup, ControllerAddress, ExplainError, RequestKind, ShownSettings, Subject, View,
    explain_by_leader, explain_cluster, explain_files, settings_of_cluster, settings_of_files,
};
pub use serve::page::{PageProxy, ProxyError};
pub use store::api::ClientError;
