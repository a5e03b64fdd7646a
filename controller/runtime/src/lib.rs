//! The shell around `rackhand-core`: observes the clusters, calls the core, and carries out its decisions.
//!
//! Contains watches, index, the single writer, the leader Lease, workload clusters, agent connections and the
//! admin server. It decides nothing about checks, fencing or power.
//!
//! ```text
//! watches -> Index -> checks (fleets)    -> Writer -> Kubernetes
//!               |---> remediation (step) ----^  |
//!               |          '--> agents (gRPC, mTLS, with the leader's term)
//! ```

mod agents;
mod bmc_watch;
mod checks;
mod cli;
mod clusters;
mod config;
mod history;
mod hosts;
mod leader;
mod orphaned_holds;
mod planned_work;
mod remediation;
mod run;
mod serve;
mod shared_causes;
mod store;

pub use agents::AgentConnector;
pub use bmc_watch::signals::without_signals;
pub use cli::controller_client::{
    ControllerAddress, ControllerClientError, ControllerTrust, PageProxy, ProxyError,
    explain_by_leader,
};
pub use cli::preflight::preflight;
pub use cli::rehearse::{AssumedUpdate, RecordError, RehearsalInput, Rehearsed, record, rehearse};
pub use clusters::{WorkloadConnector, is_tainted_by_rackhand, workload_cluster_client};
pub use config::{Config, HealthChecks, MetricsConfig};
pub use history::{cause_line, with_suspect};
pub use rackhand_core::preflight::{Report as PreflightReport, Status as PreflightStatus};
pub use rackhand_core::rehearsal::{RehearsalReport, RehearsedRemediation};
pub use rackhand_core::remediation::{
    DrainPolicy, LONGEST_EVIDENCE, NodeAction, NodeGonePolicy, UnreachablePolicy, WordsOfPersons,
};
pub use rackhand_core::signals::{Signal, UnknownSignal};
pub use rackhand_core::values::duration::time_span;
pub use run::{Connections, run, run_over};
pub use serve::explain::{
    CheckGroup, CheckSubject, ExplainError, RemediationKind, SettingsError, ShownSettings, Subject,
    View, explain_cluster, explain_files, settings_of_cluster, settings_of_files,
};
pub use store::api::{ClientError, FIELD_MANAGER, unusable_certificate};
pub use store::host_evidence::evidence_of_api;

/// Parsers for fuzzing.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    /// Makes the client of a workload cluster from the text of a kubeconfig. Connects to nothing.
    ///
    /// # Errors
    /// The message that refuses the kubeconfig, and the secrets that can be parsed from the kubeconfig.
    pub async fn kubeconfig(text: &str) -> Result<(), (String, Vec<String>)> {
        crate::store::api::fuzz_workload_client(text).await
    }

    /// Reads every remediation in the documents of a text; returns the number of them.
    ///
    /// # Errors
    /// The text is no list of objects, or a remediation or the copy of its state cannot be parsed.
    pub fn remediations(text: &str) -> Result<usize, String> {
        let objects = crate::serve::explain::documents(text).map_err(|error| error.to_string())?;
        crate::remediation::fuzzing::remediations(objects)
    }
}
