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

mod admin;
mod agents;
mod api;
mod checks;
mod clock;
mod cluster;
mod config;
mod events;
mod explain;
#[cfg(test)]
mod fake_api;
mod https;
mod index;
mod leader;
mod metrics;
mod object;
mod remediation;
mod run;
mod secure_metrics;
mod steady;
mod sync;
mod watch;
mod writer;

pub use config::{Config, HealthChecks, MetricsConfig};
pub use explain::{
    CheckGroup, ExplainError, RequestKind, ShownSettings, Subject, View, explain_cluster,
    explain_files, settings_of_cluster, settings_of_files,
};
pub use rackhand_core::remediation::{DrainBlocked, NodeAction, NodeGone, WorkloadDown};
pub use run::run;
