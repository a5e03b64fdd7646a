//! Cluster, of Cluster API (v1beta1, v1beta2).
//!
//! Owns reading it. It must never reach for the cluster itself.

use kube::api::DynamicObject;

use super::condition::{Condition, Lists, Shape, find_condition};
use super::fields::{Fields, ViewError};
use super::meta::{Meta, ObjectRef};
use crate::names;

/// What we read of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Whether everything about it is paused.
    pub paused: bool,
    /// Who manages its control plane.
    pub control_plane_ref: Option<ObjectRef>,
    /// Reference to the infrastructure object.
    pub infrastructure_ref: Option<ObjectRef>,
    /// Whether its infrastructure exists, where it says so outside conditions.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether its API server has ever answered, where it says so outside
    /// conditions.
    pub control_plane_initialized: Option<bool>,
    /// How far it is, in one word.
    pub phase: Option<String>,
    /// Where its two lists of conditions lie.
    pub shape: Shape,
    /// Its conditions in the old list.
    pub conditions_v1beta1: Vec<Condition>,
    /// Its conditions in the new list.
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

    /// Whether the control plane is initialized: by the condition or, of an older Cluster API, by the
    /// field alone.
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
