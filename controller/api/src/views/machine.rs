//! Machine, of Cluster API (v1beta1, v1beta2) and of OpenShift.
//!
//! Owns reading it. It must never judge its health.

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::condition::{Condition, Lists, Shape, find_condition};
use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// What we read of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The cluster that it is part of; OpenShift's Machines name none.
    pub cluster_name: Option<String>,
    /// How its infrastructure provider names its host.
    pub provider_id: Option<String>,
    /// Its infrastructure: a Metal3Machine, for us.
    pub infrastructure_ref: Option<ObjectRef>,
    /// The name of its Node in the workload cluster.
    pub node_name: Option<String>,
    /// Whether its infrastructure exists, where it says so outside conditions.
    pub infrastructure_provisioned: Option<bool>,
    /// How far it is, in one word.
    pub phase: Option<String>,
    /// When its status changed last: only OpenShift's Machines say so.
    pub last_updated: Option<Timestamp>,
    /// Why it can never work, in one word (a field of old versions).
    pub failure_reason: Option<String>,
    /// Why it can never work (a field of old versions).
    pub failure_message: Option<String>,
    /// Where its two lists of conditions lie.
    pub shape: Shape,
    /// Its conditions in the old list.
    pub conditions_v1beta1: Vec<Condition>,
    /// Its conditions in the new list.
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

    /// Whether it is labelled as part of its cluster's control plane.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        self.meta.has_label(names::CONTROL_PLANE_LABEL)
    }
}
