//! What every object says about itself, and how objects name each other.
//!
//! Owns the plain form of object metadata. It must never follow a reference.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::fields::{Fields, ViewError};

/// The metadata of an object, as far as we use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The version that the object was read in, such as
    /// `cluster.x-k8s.io/v1beta2`. Patches go to the same.
    pub api_version: Option<String>,
    /// The kind that the object says it is of.
    pub kind: Option<String>,
    /// Its namespace; none for a cluster-scoped object.
    pub namespace: Option<String>,
    /// Its name; empty only before the API server has seen it.
    pub name: String,
    /// Its identity for as long as it exists; empty only in a file.
    pub uid: String,
    /// The version of its stored state.
    pub resource_version: Option<String>,
    /// The version of its spec.
    pub generation: Option<i64>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleted: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What its deletion waits for.
    pub finalizers: Vec<String>,
    /// Who owns it.
    pub owners: Vec<OwnerRef>,
}

impl Meta {
    /// Reads it; nothing in it can be wrong.
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

    /// Whether it carries the annotation, with whatever value.
    #[must_use]
    pub fn has_annotation(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }

    /// Whether it carries the annotation with the value `true`.
    #[must_use]
    pub fn is_annotated_true(&self, key: &str) -> bool {
        self.annotations
            .get(key)
            .is_some_and(|value| value == "true")
    }

    /// Whether it carries the label, with whatever value.
    #[must_use]
    pub fn has_label(&self, key: &str) -> bool {
        self.labels.contains_key(key)
    }

    /// Whether it carries the finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }

    /// Whether it is on its way out.
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
    /// Kind of the object.
    pub kind: String,
    /// Its name, in the same namespace.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether it is the one that manages the object.
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
/// says `apiVersion`, v1beta2 only `apiGroup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// The group that it names, whichever form it uses.
    pub group: Option<String>,
    /// Group and version, where it says the version.
    pub api_version: Option<String>,
    /// Kind of the object.
    pub kind: Option<String>,
    /// The namespace, where it says one.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: Option<String>,
}

impl ObjectRef {
    /// Reads the reference at `path`; none when nothing is there.
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
