//! Our own PowerRemediation.
//!
//! Owns reading the object. It must never fill in the defaults of the controller's flags.

use kube::api::DynamicObject;
use serde_json::Value;

use super::fields::{Fields, ViewError};
use super::meta::{Meta, OwnerRef};
use crate::kinds::power_remediation::PowerRemediationSpec;
use crate::names;

/// The fields of a PowerRemediation that Rackhand uses.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRemediationView {
    /// Metadata of the object. A Machine that the annotation of a HostMaintenance names counts as an owner, also once
    /// it is gone.
    pub meta: Meta,
    /// The spec; absent fields have the defaults of the schema.
    pub spec: PowerRemediationSpec,
    /// The controller's stored state in the status, as JSON.
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
        let mut meta = Meta::of(object);
        if let Some(machine) = named_machine(&meta)
            && meta.owner(machine.group(), &machine.kind).is_none()
        {
            meta.owners.push(machine);
        }
        Ok(Self {
            meta,
            spec,
            cursor: fields.get("status.cursor").cloned(),
        })
    }

    /// The Machine to remediate, if a MachineHealthCheck created the remediation, or a HostMaintenance of a Machine.
    #[must_use]
    pub fn machine(&self) -> Option<&OwnerRef> {
        self.meta
            .owner(names::groups::CLUSTER_API, names::kinds::MACHINE)
    }

    /// The Node to remediate, if no Machine of Cluster API owns the
    /// remediation (medik8s' contract): by annotation, or else by the name of
    /// the remediation.
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

/// The Machine that a HostMaintenance has made the remediation for.
fn named_machine(meta: &Meta) -> Option<OwnerRef> {
    let made_by = meta.annotations.get(names::MADE_BY_ANNOTATION)?;
    let (maker, _) = made_by.split_once('/')?;
    let named = meta
        .annotations
        .get(names::MACHINE_OF_REMEDIATION_ANNOTATION)?;
    let mut parts = named.rsplitn(3, '/');
    let (uid, name, api_version) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = [uid, name, api_version].iter().all(|part| !part.is_empty());
    (maker == names::kinds::HOST_MAINTENANCE && is_whole).then(|| OwnerRef {
        api_version: api_version.to_owned(),
        kind: names::kinds::MACHINE.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: false,
    })
}
