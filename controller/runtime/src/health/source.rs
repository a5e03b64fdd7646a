//! Where the requests of a check are seen.

use rackhand_api::views::{Meta, TemplateRef};
use rackhand_core::health::RequestView;

use super::{
    Context,
    actions::carried_out,
    facts,
    others::{OtherKind, Others},
};
use crate::{
    object::{Key, Kind},
    remediation::RequestId,
};

/// Where they are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// It makes none.
    Nowhere,
    /// In the index.
    Index(Kind),
    /// In a watch of their own.
    Other(OtherKind),
}

// === impl Source ===

impl Source {
    pub(super) fn of(namespace: &str, template: Option<&TemplateRef>) -> Self {
        match template {
            None => Self::Nowhere,
            Some(t) => match carried_out(t.request_kind(), &t.api_version) {
                Some(kind) => Self::Index(kind),
                None => Self::Other(OtherKind::of(namespace, t)),
            },
        }
    }

    /// The request of a Machine, by the Machine's name and UID.
    pub(super) fn request(
        &self,
        context: &Context,
        others: &Others,
        machine: &Key,
        uid: &str,
    ) -> RequestView {
        match self {
            Self::Nowhere => RequestView::None,
            Self::Index(kind) => {
                let found = context
                    .index
                    .request(&RequestId::new(*kind, machine.clone()));
                found.map_or(RequestView::None, |found| {
                    let meta = Meta::of(&found.object);
                    let owners = meta.owners.iter();
                    let owners: Vec<_> = owners
                        .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
                        .collect();
                    facts::request(uid, &owners, meta.is_deleting())
                })
            }
            Self::Other(kind) => others.get(kind, machine).map_or(RequestView::None, |seen| {
                facts::request(uid, &seen.owners, seen.deleting)
            }),
        }
    }

    /// The UID of the request of that name.
    pub(super) fn uid(&self, context: &Context, others: &Others, machine: &Key) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Index(kind) => {
                let found = context
                    .index
                    .request(&RequestId::new(*kind, machine.clone()))?;
                found.object.metadata.uid.clone()
            }
            Self::Other(kind) => Some(others.get(kind, machine)?.uid),
        }
    }
}
