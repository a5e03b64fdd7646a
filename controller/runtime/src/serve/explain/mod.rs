//! `explain`: the views of remediations and health checks, which `rackhand_core::explanation` computes.
//!
//! A remediation is explained by the leader alone, from the inputs of its last decision. A health check is
//! explained from its objects, which are read from a cluster or from files.
//!
//! Invariant: nothing is written, and no agent or BMC is queried.

mod cluster;
mod files;
mod group;
mod leader;
mod machines;
mod nodes;
mod ownership;
mod settings;
mod snapshot;

use std::fmt;

use jiff::Timestamp;
use kube::Client;
use rackhand_core::explanation::{CheckView, RemediationView};
use serde::{Deserialize, Serialize};

pub(crate) use files::documents;
pub use group::CheckGroup;
pub(crate) use leader::{EXPLAIN_PATH, Explainer, NoView, Question};
pub use settings::{SettingsError, ShownSettings, settings_of_cluster, settings_of_files};

use crate::{
    config::Config,
    store::{
        api::management_client,
        object::{Key, Kind},
    },
};
use snapshot::Snapshot;

/// The kind of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemediationKind {
    /// A PowerRemediation of Rackhand.
    PowerRemediation,
    /// A Metal3Remediation of CAPM3.
    Metal3Remediation,
}

/// The object to explain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A remediation, which only the leader can explain.
    Remediation {
        /// Namespace of the object; by default that of the kubeconfig.
        namespace: Option<String>,
        /// Name of the object.
        name: String,
        /// Kind of the remediation, if both kinds have an object of this name.
        kind: Option<RemediationKind>,
    },
    /// A health check.
    Check(CheckSubject),
}

/// The health check to explain. Without a name, files must contain exactly one such object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckSubject {
    /// A MachineHealthCheck.
    Machines {
        /// Namespace of the object; by default that of the kubeconfig, or any namespace in files.
        namespace: Option<String>,
        /// Name of the object.
        name: Option<String>,
        /// API group of the check, if both groups have a check of this name.
        group: Option<CheckGroup>,
    },
    /// A NodeHealthCheck.
    Nodes {
        /// Name of the object.
        name: Option<String>,
    },
}

/// An explanation. Its `Display` is the text that the command line prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum View {
    /// The explanation of a health check.
    Check(Box<CheckView>),
    /// The explanation of a remediation.
    Remediation(Box<RemediationView>),
}

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// A file cannot be parsed.
    #[error("{0}")]
    File(String),
    /// No object matches the subject, or several do.
    #[error("{0}")]
    Request(String),
    /// The cluster cannot be read.
    #[error("{0}")]
    Cluster(String),
}

/// Explains a health check of the cluster that the kubeconfig selects.
///
/// # Errors
/// The cluster cannot be read, or it has no such object.
pub async fn explain_cluster(
    config: &Config,
    check: &CheckSubject,
    at: Option<Timestamp>,
) -> Result<CheckView, ExplainError> {
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| ExplainError::Cluster(e.to_string()))?;
    explain_with(&client, config, check, at).await
}

/// Explains a health check of the cluster that the client is connected to.
///
/// # Errors
/// The cluster cannot be read, or it has no such object.
async fn explain_with(
    client: &Client,
    config: &Config,
    check: &CheckSubject,
    at: Option<Timestamp>,
) -> Result<CheckView, ExplainError> {
    let (found, snapshot) = cluster::read(client, check, at).await?;
    view(&found, &snapshot, config, at.unwrap_or_else(Timestamp::now))
}

/// Explains a health check in the texts of files, each with a name for error messages: YAML documents, or
/// Lists as `kubectl get -o yaml` prints them, with the object and whatever it depends on.
///
/// # Errors
/// A text cannot be parsed, or the files do not contain exactly one matching object.
pub fn explain_files(
    files: &[(String, String)],
    check: &CheckSubject,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    let snapshot = files::read(files)?;
    let found = files::find(&snapshot, check)?;
    view(&found, &snapshot, config, now)
}

/// One health check that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Machines(CheckGroup, Key),
    Nodes(String),
}

fn view(
    found: &Found,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    match found {
        Found::Machines(group, key) => machines::view(*group, key, snapshot, config, now),
        Found::Nodes(name) => nodes::view(name, snapshot, config, now),
    }
}

// === impl RemediationKind ===

impl RemediationKind {
    fn kind(self) -> Kind {
        match self {
            Self::PowerRemediation => Kind::PowerRemediation,
            Self::Metal3Remediation => Kind::Metal3Remediation,
        }
    }
}

// === impl View ===

impl View {
    /// The explanation as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The explanation as YAML.
    pub fn to_yaml(&self) -> String {
        serde_saphyr::to_string(self).unwrap_or_default()
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(view) => view.fmt(f),
            Self::Remediation(view) => view.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
