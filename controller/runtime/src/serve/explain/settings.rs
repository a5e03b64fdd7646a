//! The settings that a running controller has written to its Lease.
//!
//! Missing settings are an error with the cause, never assumed.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Resource, ResourceExt, api::DynamicObject};
use rackhand_api::names::SETTINGS_ANNOTATION;

use super::files::documents;
use crate::{
    config::Config,
    store::{
        api::{call, management_client, optional},
        object::Key,
    },
};

/// The flags of a running controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSettings {
    /// Value of each flag by its name.
    pub flags: BTreeMap<String, String>,
    /// The controller that wrote them, and its Lease, for messages.
    pub whose: String,
}

/// Why the settings of a running controller are not known.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The cluster cannot be read.
    #[error("{0}")]
    Cluster(String),
    /// The cluster has no such Lease.
    #[error("there is no {lease} of a controller (--lease-namespace, --lease-name)")]
    NoLease {
        /// The Lease, for messages.
        lease: String,
    },
    /// No file has a Lease with settings.
    #[error(
        "the files hold no Lease of a controller (kubectl get lease -n rackhand-system -o yaml)"
    )]
    NoLeaseInFiles,
    /// The Lease has no settings.
    #[error("{lease} does not carry {SETTINGS_ANNOTATION}")]
    NotPublished {
        /// The Lease, for messages.
        lease: String,
    },
    /// The settings cannot be parsed.
    #[error("{SETTINGS_ANNOTATION} of {lease} cannot be parsed: {source}")]
    Malformed {
        /// The Lease, for messages.
        lease: String,
        /// Cause of the failure.
        source: serde_json::Error,
    },
}

/// The settings on the Lease that `config` names, in the cluster that it names.
///
/// # Errors
/// The cause if there are none or they cannot be parsed.
pub async fn settings_of_cluster(config: &Config) -> Result<ShownSettings, SettingsError> {
    let key = Key::new(&config.lease_namespace, &config.lease_name);
    let what = format!("Lease {key}");
    let client = management_client(config.kubeconfig.as_deref())
        .await
        .map_err(|e| SettingsError::Cluster(e.to_string()))?;
    let leases: Api<Lease> = Api::namespaced(client, &key.namespace);
    let found = optional(call(&what, leases.get(&key.name)).await);
    let found = found.map_err(|e| SettingsError::Cluster(e.to_string()))?;
    let lease = found.ok_or_else(|| SettingsError::NoLease {
        lease: what.clone(),
    })?;
    let holder = lease.spec.as_ref().and_then(|s| s.holder_identity.clone());
    read(lease.annotations(), holder.as_deref(), &what)
}

/// The settings on a Lease in the texts of files, each with a name for messages.
///
/// # Errors
/// The cause if there are none or they cannot be parsed.
pub fn settings_of_files(files: &[(String, String)]) -> Result<ShownSettings, SettingsError> {
    // Documents that cannot be parsed are reported by the explanation itself.
    let objects = files
        .iter()
        .flat_map(|(_, text)| documents(text).unwrap_or_default());
    let shows = |object: &DynamicObject| {
        let kind = object.types.as_ref().map(|t| t.kind.as_str());
        kind == Some(&*Lease::kind(&())) && object.annotations().contains_key(SETTINGS_ANNOTATION)
    };
    let lease = objects.into_iter().find(shows);
    let lease = lease.ok_or(SettingsError::NoLeaseInFiles)?;
    let holder = lease.data.pointer("/spec/holderIdentity");
    let holder = holder.and_then(serde_json::Value::as_str);
    read(
        lease.annotations(),
        holder,
        &format!("Lease {}", Key::of(&lease)),
    )
}

fn read(
    annotations: &BTreeMap<String, String>,
    holder: Option<&str>,
    lease: &str,
) -> Result<ShownSettings, SettingsError> {
    let of = || lease.to_owned();
    let text = annotations
        .get(SETTINGS_ANNOTATION)
        .ok_or_else(|| SettingsError::NotPublished { lease: of() })?;
    let flags = serde_json::from_str(text).map_err(|source| SettingsError::Malformed {
        lease: of(),
        source,
    })?;
    let whose = match holder.filter(|holder| !holder.is_empty()) {
        Some(holder) => format!("the controller {holder} ({lease})"),
        None => format!("the last controller that led ({lease}); none does now"),
    };
    Ok(ShownSettings { flags, whose })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn files(annotations: &serde_json::Value, holder: &str) -> [(String, String); 1] {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "rackhand-controller", "namespace": "rackhand-system",
                "annotations": annotations,
            },
            "spec": { "holderIdentity": holder },
        });
        [("l.yaml".into(), lease.to_string())]
    }

    #[test]
    fn settings_and_their_controller_are_read_from_lease() {
        let shown = json!({ "rackhand.dev/settings": r#"{"health-checks":"all"}"# });
        let read = settings_of_files(&files(&shown, "c-0_1")).unwrap();
        assert_eq!(read.flags["health-checks"], "all");
        assert_eq!(
            read.whose,
            "the controller c-0_1 (Lease rackhand-system/rackhand-controller)"
        );
        let released = settings_of_files(&files(&shown, "")).unwrap();
        assert!(
            released.whose.ends_with("none does now"),
            "{}",
            released.whose
        );
    }

    #[test]
    fn missing_or_malformed_settings_report_the_cause() {
        let none = settings_of_files(&files(&json!({}), "c")).unwrap_err();
        assert!(matches!(none, SettingsError::NoLeaseInFiles), "{none}");
        let bad = json!({ "rackhand.dev/settings": "all" });
        let bad = settings_of_files(&files(&bad, "c")).unwrap_err();
        assert!(matches!(bad, SettingsError::Malformed { .. }), "{bad}");
    }
}
