//! Owners and creators of remediations of foreign kinds.

use kube::{api::PartialObjectMeta, core::DynamicObject};
use rackhand_api::names::MADE_BY_ANNOTATION;

use crate::{
    checks::remediations::{
        external_remediations::{ExternalKind, ExternalRemediation, ExternalRemediations},
        withdrawal::{CreatedRemediation, Owner},
    },
    store::object::Key,
};

/// Owners and creator of a remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::checks) struct RemediationOwners {
    pub(in crate::checks) uid: String,
    /// Kind, name and UID of the owners.
    pub(in crate::checks) owners: Vec<(String, String, String)>,
    pub(in crate::checks) deleting: bool,
    /// The annotation that names the check that created it.
    pub(in crate::checks) made_by: Option<String>,
}

// === impl RemediationOwners ===

impl RemediationOwners {
    /// The remediation as created by a check; `None` if no check created it, or it is being deleted. Its
    /// owners identify the Machine, in either dialect.
    pub(in crate::checks) fn made(
        &self,
        owner: Owner,
        kind: &ExternalKind,
        key: &Key,
    ) -> Option<CreatedRemediation> {
        let made_by = self.made_by.as_ref().filter(|_| !self.deleting)?;
        let kind = (kind.api_version.as_str(), kind.kind.as_str());
        let owners = self.owners.iter().map(|(_, _, uid)| uid.clone()).collect();
        CreatedRemediation::of(owner, kind, key.clone(), &self.uid, owners, made_by)
    }
}

impl ExternalRemediation for RemediationOwners {
    /// Only metadata is read, not whole objects.
    type Wire = PartialObjectMeta<DynamicObject>;

    fn read(object: &Self::Wire) -> Self {
        let meta = &object.metadata;
        let owners = meta.owner_references.iter().flatten();
        let annotations = meta.annotations.as_ref();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            owners: owners
                .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
                .collect(),
            deleting: meta.deletion_timestamp.is_some(),
            made_by: annotations.and_then(|a| a.get(MADE_BY_ANNOTATION).cloned()),
        }
    }

    fn uid(&self) -> &str {
        &self.uid
    }
}

impl ExternalRemediations<RemediationOwners> {
    /// The remediations that checks have created and that are not being deleted.
    pub(in crate::checks) fn made(&self, owner: Owner) -> Vec<CreatedRemediation> {
        let all = self.all().into_iter();
        all.filter_map(|(kind, key, seen)| seen.made(owner, &kind, &key))
            .collect()
    }
}
