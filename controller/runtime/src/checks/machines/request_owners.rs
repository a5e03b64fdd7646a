//! Whose the requests of foreign kinds are.

use kube::{api::PartialObjectMeta, core::DynamicObject};
use rackhand_api::names::MADE_BY_ANNOTATION;

use crate::{
    checks::{
        external_requests::{ExternalKind, ExternalRequest, ExternalRequests},
        withdrawal::{CreatedRemediation, Owner},
    },
    store::object::Key,
};

/// A request, as far as it matters whose it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::checks) struct RequestOwners {
    pub(in crate::checks) uid: String,
    /// Kind, name and UID of its owners.
    pub(in crate::checks) owners: Vec<(String, String, String)>,
    pub(in crate::checks) deleting: bool,
    /// Which check made it, as its annotation says.
    pub(in crate::checks) made_by: Option<String>,
}

// === impl RequestOwners ===

impl RequestOwners {
    /// `None`: no check made it, or it is being deleted already. Which Machine it is for is told by its
    /// owners, so that it may be asked about in either dialect.
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

impl ExternalRequest for RequestOwners {
    /// Names and owners only, not whole objects.
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

impl ExternalRequests<RequestOwners> {
    /// Those that a check made and nobody deletes yet.
    pub(in crate::checks) fn made(&self, owner: Owner) -> Vec<CreatedRemediation> {
        let all = self.all().into_iter();
        all.filter_map(|(kind, key, seen)| seen.made(owner, &kind, &key))
            .collect()
    }
}
