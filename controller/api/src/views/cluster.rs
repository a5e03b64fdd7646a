//! Cluster, of Cluster API (v1beta1, v1beta2).
//!
//! Owns reading the object. It must never connect to the workload cluster.

use kube::api::DynamicObject;

use super::condition::{Condition, Lists, Shape, find_condition};
use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// The fields of a Cluster that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Whether the Cluster and all its objects are paused, by `spec.paused`.
    pub paused: bool,
    /// The object that manages the control plane, such as a KubeadmControlPlane.
    pub control_plane_ref: Option<ObjectRef>,
    /// Reference to the infrastructure object.
    pub infrastructure_ref: Option<ObjectRef>,
    /// Whether the infrastructure exists, by a field of the status.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the API server has ever answered, by a field of the status.
    pub control_plane_initialized: Option<bool>,
    /// The phase, such as `Provisioned`.
    pub phase: Option<String>,
    /// The shape of the object: where its two lists of conditions are.
    pub shape: Shape,
    /// The conditions in the old list.
    pub conditions_v1beta1: Vec<Condition>,
    /// The conditions in the new list.
    pub conditions_v1beta2: Vec<Condition>,
}

impl ClusterView {
    /// Reads a Cluster.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::CLUSTER, object);
        let lists = Lists::read(&fields, meta.api_version.as_deref())?;
        let either = |new: &str, old: &str| match fields.boolean(new)? {
            Some(value) => Ok(Some(value)),
            None => fields.boolean(old),
        };
        Ok(Self {
            paused: fields.boolean("spec.paused")?.unwrap_or(false),
            control_plane_ref: ObjectRef::read(&fields, "spec.controlPlaneRef")?,
            infrastructure_ref: ObjectRef::read(&fields, "spec.infrastructureRef")?,
            infrastructure_provisioned: either(
                "status.initialization.infrastructureProvisioned",
                "status.infrastructureReady",
            )?,
            control_plane_initialized: either(
                "status.initialization.controlPlaneInitialized",
                "status.controlPlaneReady",
            )?,
            phase: fields.string("status.phase")?,
            shape: lists.shape,
            conditions_v1beta1: lists.v1beta1,
            conditions_v1beta2: lists.v1beta2,
            meta,
        })
    }

    /// Whether the control plane is initialized: by the condition or, with an older Cluster API, by the
    /// field.
    #[must_use]
    pub fn is_control_plane_initialized(&self) -> bool {
        match self.condition(names::conditions::CONTROL_PLANE_INITIALIZED) {
            Some(condition) => condition.is_true(),
            None => self.control_plane_initialized == Some(true),
        }
    }

    /// The condition of this type: from the new list, or else the old one.
    #[must_use]
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        find_condition(&self.conditions_v1beta2, condition_type)
            .or_else(|| find_condition(&self.conditions_v1beta1, condition_type))
    }

    /// Whether Cluster API's pause, by field or annotation, is on.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused || self.meta.has_annotation(names::CAPI_PAUSED_ANNOTATION)
    }
}
