//! Hands unhealthy members over in batches, each after a live read of all that feeds its check (F13).

use std::time::{Duration, Instant};

use rackhand_core::handover::Step;

use super::{
    Engine,
    results::{Done, Work},
};
use crate::{
    checks::{
        dialect::{Dialect, Spec},
        queue::Item,
        request_source::RequestSource,
    },
    object::Key,
    sync::{Feed, SyncError},
};

impl<D: Dialect> Engine<D> {
    /// Whether a member may be handed over now. Otherwise it waits for the read of its batch.
    pub(super) fn is_cleared(&mut self, item: &Item) -> bool {
        let now = self.started.elapsed();
        let Some(state) = self.checks.get_mut(&item.check) else {
            return false;
        };
        let cleared = state.handover.request(&item.member, now);
        if !cleared {
            self.settling.insert(item.check.clone());
        }
        cleared
    }

    /// Begins the reads of the batches that have settled.
    pub(super) fn begin_reads(&mut self) {
        let now = self.started.elapsed();
        let mut next = None;
        for check in std::mem::take(&mut self.settling) {
            let Some(state) = self.checks.get_mut(&check) else {
                continue;
            };
            let settles = Self::settles(state);
            match state.handover.step(settles, now, &mut self.reads) {
                Step::Idle => {}
                Step::Wait(at) => {
                    next = Some(next.map_or(at, |next: Duration| next.min(at)));
                    self.settling.insert(check);
                }
                Step::Read => {
                    let read = self.reads;
                    let feeds = feeds(&check, &state.spec);
                    let kind = match &state.spec.source {
                        RequestSource::External(kind) => Some(kind.clone()),
                        RequestSource::Nowhere | RequestSource::Index(_) => None,
                    };
                    let (context, external) = (self.context.clone(), self.external.clone());
                    self.tasks
                        .spawn(Work::Sync(check.clone(), read), async move {
                            let mut result = context.syncs.reach(feeds).await;
                            if let (Ok(()), Some(kind)) = (&result, kind) {
                                result = external.reach(&context, &kind).await;
                            }
                            Done::Synced(check, read, result)
                        });
                }
            }
        }
        self.settled_at = next.map(|at| Instant::now() + at.saturating_sub(now));
    }

    /// A read is over.
    pub(super) fn synced(&mut self, check: &Key, read: u64, result: Result<(), SyncError>) {
        let now = self.started.elapsed();
        let Some(state) = self.checks.get_mut(check) else {
            return;
        };
        let handover = &mut state.handover;
        let before = handover.failure().map(str::to_owned);
        let Some(cleared) = handover.finish(&check.to_string(), read, result, now) else {
            return;
        };
        let news = handover.failure() != before.as_deref();
        // Requests of kinds that are watched beside the index may have come or gone.
        if let RequestSource::External(_) = &state.spec.source {
            for item in &state.items(check) {
                self.request_changed(item);
            }
        }
        self.settling.insert(check.clone());
        if news {
            self.status_due(check);
        }
        for member in &cleared {
            self.reconsider(&Item::new(check, member));
        }
    }
}

/// All that feeds a check from the index.
fn feeds<D: Dialect>(check: &Key, spec: &Spec<D>) -> Vec<Feed> {
    let mut kinds = D::FEEDS.to_vec();
    if let RequestSource::Index(kind) = &spec.source {
        kinds.push(*kind);
    }
    let objects = kinds.into_iter();
    let mut feeds: Vec<Feed> = objects
        .map(|kind| Feed::Objects(kind, check.namespace.clone()))
        .collect();
    feeds.push(Feed::Nodes(spec.cluster.clone()));
    feeds
}
