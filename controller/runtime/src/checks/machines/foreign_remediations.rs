//! Remediations of kinds that are not in the index: which kinds are watched, and which checks wait for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{RemediationOwners, remediation_source::RemediationSource};
use crate::{
    checks::{
        Context,
        engine::Watches,
        remediations::external_remediations::{
            ExternalKind, ExternalRemediations, KindWatches, WatchEvent,
        },
    },
    store::object::Key,
};

/// The remediations of foreign kinds that checks create.
#[derive(Default)]
pub(super) struct ForeignRemediations {
    known: Arc<ExternalRemediations<RemediationOwners>>,
    /// Checks that wait for the first list of their kind of remediations.
    waiting: BTreeMap<Key, ExternalKind>,
    watching: KindWatches,
}

// === impl ForeignRemediations ===

impl ForeignRemediations {
    /// The known remediations.
    pub(super) fn known(&self) -> &Arc<ExternalRemediations<RemediationOwners>> {
        &self.known
    }

    /// Whether the remediations of a check are known. Otherwise it waits for the first list of their kind.
    pub(super) fn is_known(&mut self, check: &Key, source: &RemediationSource) -> bool {
        if let RemediationSource::External(kind) = source
            && !self.known.synced(kind)
        {
            self.waiting.insert(check.clone(), kind.clone());
            return false;
        }
        self.forget(check);
        true
    }

    /// A check waits no more.
    pub(super) fn forget(&mut self, check: &Key) {
        self.waiting.remove(check);
    }

    /// The checks that wait for the first list of a kind.
    pub(super) fn waiting_for(&self, kind: &ExternalKind) -> Vec<Key> {
        let waiting = self.waiting.iter().filter(|(_, of)| *of == kind);
        waiting.map(|(check, _)| check.clone()).collect()
    }

    /// Watches exactly the kinds that these sources and the waiting checks need.
    pub(super) fn watch<'a>(
        &mut self,
        sources: impl Iterator<Item = &'a RemediationSource>,
        context: &Arc<Context>,
        watches: &mut Watches<WatchEvent>,
    ) {
        let kinds = sources.filter_map(|source| match source {
            RemediationSource::External(kind) => Some(kind),
            _ => None,
        });
        let wanted: BTreeSet<_> = kinds.chain(self.waiting.values()).cloned().collect();
        let (ended, begun) = self.watching.keep(wanted, watches.end_token());
        for kind in &ended {
            self.known.forget(kind);
        }
        for (kind, cancel) in begun {
            let (known, context) = (self.known.clone(), context.clone());
            let sender = watches.sender();
            let notify = move |changed| drop(sender.send(changed));
            watches.spawn(known.watch(context, kind, notify, cancel));
        }
    }
}
