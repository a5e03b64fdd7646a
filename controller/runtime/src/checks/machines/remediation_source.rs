//! Source of the remediations of a check.

use rackhand_api::views::{Meta, TemplateRef};
use rackhand_core::checks::machines::MachineRemediation;

use super::RemediationOwners;
use crate::{
    checks::{
        Context, facts,
        remediations::{
            external_remediations::{ExternalKind, ExternalRemediations},
            lifecycle::is_ours,
        },
    },
    store::{
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// Where the remediations of a check are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checks) enum RemediationSource {
    /// The check creates none.
    Nowhere,
    /// The index.
    Index(Kind),
    /// A separate watch.
    External(ExternalKind),
}

// === impl RemediationSource ===

impl RemediationSource {
    pub(in crate::checks) fn of(namespace: &str, template: Option<&TemplateRef>) -> Self {
        match template {
            None => Self::Nowhere,
            Some(t) => match is_ours(t.remediation_kind(), &t.api_version) {
                Some(kind) => Self::Index(kind),
                None => Self::External(ExternalKind::of(namespace, t)),
            },
        }
    }

    /// The remediation of a Machine, by the Machine's name and UID.
    pub(in crate::checks) fn remediation(
        &self,
        context: &Context,
        external: &ExternalRemediations<RemediationOwners>,
        machine: &Key,
        uid: &str,
    ) -> MachineRemediation {
        match self {
            Self::Nowhere => MachineRemediation::None,
            Self::Index(kind) => {
                let found = context
                    .index
                    .remediation(&RemediationId::new(*kind, machine.clone()));
                found.map_or(MachineRemediation::None, |found| {
                    let meta = Meta::of(&found.object);
                    let owners = meta.owners.iter();
                    let owners: Vec<_> = owners
                        .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
                        .collect();
                    facts::remediation(uid, &owners, meta.is_deleting())
                })
            }
            Self::External(kind) => external
                .get(kind, machine)
                .map_or(MachineRemediation::None, |seen| {
                    facts::remediation(uid, &seen.owners, seen.deleting)
                }),
        }
    }

    /// The UID of the remediation with this name.
    pub(in crate::checks) fn uid(
        &self,
        context: &Context,
        external: &ExternalRemediations<RemediationOwners>,
        machine: &Key,
    ) -> Option<String> {
        match self {
            Self::Nowhere => None,
            Self::Index(kind) => {
                let found = context
                    .index
                    .remediation(&RemediationId::new(*kind, machine.clone()))?;
                found.object.metadata.uid.clone()
            }
            Self::External(kind) => Some(external.get(kind, machine)?.uid),
        }
    }
}
