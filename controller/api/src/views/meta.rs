//! The metadata of an object, and references between objects.
//!
//! Owns the plain form of both. It must never follow a reference.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::fields::{Fields, ViewError};

/// The metadata of an object that Rackhand uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The version that the object was read in, such as
    /// `cluster.x-k8s.io/v1beta2`. Patches use the same version.
    pub api_version: Option<String>,
    /// The kind of the object.
    pub kind: Option<String>,
    /// The namespace; none for a cluster-scoped object.
    pub namespace: Option<String>,
    /// The name; empty only in an object that was never stored.
    pub name: String,
    /// The UID; empty only in an object that was never stored.
    pub uid: String,
    /// The resource version, which changes with every write.
    pub resource_version: Option<String>,
    /// The generation, which changes with the spec.
    pub generation: Option<i64>,
    /// The creation timestamp.
    pub created: Option<Timestamp>,
    /// The deletion timestamp: the object is being deleted since then.
    pub deleted: Option<Timestamp>,
    /// The labels of the object.
    pub labels: BTreeMap<String, String>,
    /// The annotations of the object.
    pub annotations: BTreeMap<String, String>,
    /// The finalizers; the object exists until all of them are removed.
    pub finalizers: Vec<String>,
    /// The owner references.
    pub owners: Vec<OwnerRef>,
}

impl Meta {
    /// Reads the metadata of an object. This cannot fail.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let meta = &object.metadata;
        Self {
            api_version: object.types.as_ref().map(|types| types.api_version.clone()),
            kind: object.types.as_ref().map(|types| types.kind.clone()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone(),
            generation: meta.generation,
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
            labels: meta.labels.clone().unwrap_or_default(),
            annotations: meta.annotations.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            owners: meta
                .owner_references
                .iter()
                .flatten()
                .map(|owner| OwnerRef {
                    api_version: owner.api_version.clone(),
                    kind: owner.kind.clone(),
                    name: owner.name.clone(),
                    uid: owner.uid.clone(),
                    controller: owner.controller.unwrap_or(false),
                })
                .collect(),
        }
    }

    /// Whether the object has the annotation, with any value.
    #[must_use]
    pub fn has_annotation(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }

    /// Whether the object has the annotation with the value `true`.
    #[must_use]
    pub fn is_annotated_true(&self, key: &str) -> bool {
        self.annotations
            .get(key)
            .is_some_and(|value| value == "true")
    }

    /// Whether the object has the label, with any value.
    #[must_use]
    pub fn has_label(&self, key: &str) -> bool {
        self.labels.contains_key(key)
    }

    /// Whether the object has the finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleted.is_some()
    }

    /// The first owner of this group and kind, in any version.
    #[must_use]
    pub fn owner(&self, group: &str, kind: &str) -> Option<&OwnerRef> {
        self.owners
            .iter()
            .find(|owner| owner.kind == kind && owner.group() == group)
    }
}

/// An entry of an object's `ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRef {
    /// Group and version of the owner.
    pub api_version: String,
    /// The kind of the owner.
    pub kind: String,
    /// The name of the owner, which is in the same namespace.
    pub name: String,
    /// The UID of the owner.
    pub uid: String,
    /// Whether the owner is the controller of the object.
    pub controller: bool,
}

impl OwnerRef {
    /// The owner's group; empty for Kubernetes' core kinds.
    #[must_use]
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }
}

/// A reference from one object to another, in either version's form: v1beta1
/// has `apiVersion`, v1beta2 only `apiGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// The group of the object, from either form.
    pub group: Option<String>,
    /// Group and version, if the reference has a version.
    pub api_version: Option<String>,
    /// The kind of the object.
    pub kind: Option<String>,
    /// The namespace, if the reference has one.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: Option<String>,
}

impl ObjectRef {
    /// Reads the reference at `path`; none if the field is absent.
    pub(super) fn read(fields: &Fields<'_>, path: &str) -> Result<Option<Self>, ViewError> {
        if !fields.has(path) {
            return Ok(None);
        }
        let at = |name: &str| fields.string(&format!("{path}.{name}"));
        let api_version = at("apiVersion")?;
        let group = at("apiGroup")?
            .or_else(|| api_version.as_deref().map(|both| group_of(both).to_owned()));
        Ok(Some(Self {
            group,
            api_version,
            kind: at("kind")?,
            namespace: at("namespace")?,
            name: at("name")?,
        }))
    }
}

/// The group in `group/version`; a lone version is of the core group.
#[must_use]
pub fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}
