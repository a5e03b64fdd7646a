//! Our own PowerRemediation.
//!
//! Owns reading it. It must never fill in what the engine's policy says.

use kube::api::DynamicObject;
use serde_json::Value;

use super::fields::{Fields, ViewError};
use super::meta::{Meta, OwnerRef};
use crate::kinds::power_remediation::PowerRemediationSpec;
use crate::names;

/// What we read of a PowerRemediation.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRemediationView {
    /// Metadata of the object.
    pub meta: Meta,
    /// What is asked for; absent fields have their defaults.
    pub spec: PowerRemediationSpec,
    /// The controller's notes in its status.
    pub cursor: Option<Value>,
}

impl PowerRemediationView {
    /// Reads a PowerRemediation.
    ///
    /// # Errors
    /// When its spec has a field of the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let fields = Fields::of(names::kinds::POWER_REMEDIATION, object);
        let spec = match fields.get("spec") {
            None => PowerRemediationSpec::default(),
            Some(spec) => serde_json::from_value(spec.clone())
                .map_err(|error| fields.error("spec", error.to_string()))?,
        };
        Ok(Self {
            meta: Meta::of(object),
            spec,
            cursor: fields.get("status.cursor").cloned(),
        })
    }

    /// The Machine that it is for, where a health check of Cluster API made it.
    #[must_use]
    pub fn machine(&self) -> Option<&OwnerRef> {
        self.meta
            .owner(names::groups::CLUSTER_API, names::kinds::MACHINE)
    }

    /// The Node that it is for, where no Machine of Cluster API owns it
    /// (medik8s' contract): by annotation, or else by its own name.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        if self.machine().is_some() {
            return None;
        }
        let named = self
            .meta
            .annotations
            .get(names::MEDIK8S_NODE_NAME_ANNOTATION)
            .filter(|name| !name.is_empty());
        Some(named.map_or(self.meta.name.as_str(), String::as_str))
    }
}
