//! Machine, of Cluster API (v1beta1, v1beta2) and of OpenShift.
//!
//! Owns reading the object. It must never decide whether the Machine is healthy.

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::condition::{Condition, Lists, Shape, find_condition};
use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// The fields of a Machine that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The name of the Cluster; OpenShift's Machines have none.
    pub cluster_name: Option<String>,
    /// The provider ID, by which the infrastructure provider names the host.
    pub provider_id: Option<String>,
    /// The infrastructure object: with Metal3, a Metal3Machine.
    pub infrastructure_ref: Option<ObjectRef>,
    /// The name of the Node in the workload cluster.
    pub node_name: Option<String>,
    /// Whether the infrastructure exists, by a field of the status.
    pub infrastructure_provisioned: Option<bool>,
    /// The phase, such as `Running` or `Failed`.
    pub phase: Option<String>,
    /// When the status last changed: only in OpenShift's Machines.
    pub last_updated: Option<Timestamp>,
    /// The reason for a terminal failure, as one word (a field of old versions).
    pub failure_reason: Option<String>,
    /// The reason for a terminal failure, as text (a field of old versions).
    pub failure_message: Option<String>,
    /// The shape of the object: where its two lists of conditions are.
    pub shape: Shape,
    /// The conditions in the old list.
    pub conditions_v1beta1: Vec<Condition>,
    /// The conditions in the new list.
    pub conditions_v1beta2: Vec<Condition>,
}

impl MachineView {
    /// Reads a Machine.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::MACHINE, object);
        let lists = Lists::read(&fields, meta.api_version.as_deref())?;
        let failure = |field: &str, openshift: &str| {
            for path in [
                format!("status.{field}"),
                format!("status.deprecated.v1beta1.{field}"),
                format!("status.{openshift}"),
            ] {
                if let Some(text) = fields.string(&path)? {
                    return Ok(Some(text));
                }
            }
            Ok(None)
        };
        Ok(Self {
            cluster_name: fields.string("spec.clusterName")?,
            provider_id: fields.string("spec.providerID")?,
            infrastructure_ref: ObjectRef::read(&fields, "spec.infrastructureRef")?,
            node_name: fields.string("status.nodeRef.name")?,
            infrastructure_provisioned: match fields
                .boolean("status.initialization.infrastructureProvisioned")?
            {
                Some(provisioned) => Some(provisioned),
                None => fields.boolean("status.infrastructureReady")?,
            },
            phase: fields.string("status.phase")?,
            last_updated: fields.timestamp("status.lastUpdated")?,
            failure_reason: failure("failureReason", "errorReason")?,
            failure_message: failure("failureMessage", "errorMessage")?,
            shape: lists.shape,
            conditions_v1beta1: lists.v1beta1,
            conditions_v1beta2: lists.v1beta2,
            meta,
        })
    }

    /// The condition of this type: from the new list, or else the old one.
    #[must_use]
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(&self.conditions_v1beta2, condition_type)
            .or_else(|| find_condition(&self.conditions_v1beta1, condition_type))
    }

    /// Whether the Machine has the label of a control-plane Machine.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        self.meta.has_label(names::CONTROL_PLANE_LABEL)
    }
}
