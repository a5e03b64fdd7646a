//! Hands unhealthy machines over in batches, each after a live read of all that feeds its check (F13).

use std::time::{Duration, Instant};

use rackhand_core::handover::Step;

use super::{
    Driver,
    carry::{Done, UnderWay},
};
use crate::{
    health::{queue::Item, source::Source, watched::Spec},
    object::{Key, Kind},
    sync::{Feed, SyncError},
};

impl Driver {
    /// Whether a machine may be handed over now. Otherwise it waits for the read of its batch.
    pub(super) fn is_cleared(&mut self, item: &Item) -> bool {
        let now = self.started.elapsed();
        let Some(watched) = self.checks.get_mut(&item.check) else {
            return false;
        };
        let cleared = watched.handover.request(&item.machine, now);
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
            let Some(watched) = self.checks.get_mut(&check) else {
                continue;
            };
            let settles = watched.spec.rules.can_close(watched.fleet.tally().expected);
            match watched.handover.step(settles, now) {
                Step::Idle => {}
                Step::Wait(at) => {
                    next = Some(next.map_or(at, |next: Duration| next.min(at)));
                    self.settling.insert(check);
                }
                Step::Read => {
                    self.reads += 1;
                    let read = self.reads;
                    watched.read = read;
                    let feeds = feeds(&check, &watched.spec);
                    let other = match &watched.spec.source {
                        Source::Other(kind) => Some(kind.clone()),
                        Source::Nowhere | Source::Index(_) => None,
                    };
                    let (context, others) = (self.context.clone(), self.others.clone());
                    self.spawn(UnderWay::Sync(check.clone(), read), async move {
                        let mut result = context.syncs.reach(feeds).await;
                        if let (Ok(()), Some(kind)) = (&result, other) {
                            result = others.reach(&context, &kind).await;
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
        // The answer to an earlier read of a check that was read anew proves nothing.
        let Some(watched) = self.checks.get_mut(check).filter(|w| w.read == read) else {
            return;
        };
        let before = watched.handover.failure().map(str::to_owned);
        let result = result.map_err(|error| error.to_string());
        if let Err(error) = &result
            && before.as_ref() != Some(error)
        {
            tracing::warn!(%check, error, "the fleet cannot be read live; nobody is handed over; trying again");
        }
        let cleared = watched.handover.finish_read(result, now);
        let news = watched.handover.failure() != before.as_deref();
        // Requests of kinds that are watched beside the index may have come or gone.
        if let Source::Other(_) = &watched.spec.source {
            let machines: Vec<Item> = watched
                .fleet
                .machines()
                .map(|machine| Item::new(check, machine))
                .collect();
            for item in &machines {
                self.request_changed(item);
            }
        }
        self.settling.insert(check.clone());
        if news {
            self.status_due(check);
        }
        for machine in &cleared {
            self.reconsider(&Item::new(check, machine));
        }
    }
}

/// All that feeds a check from the index.
fn feeds(check: &Key, spec: &Spec) -> Vec<Feed> {
    let objects = |kind| Feed::Objects(kind, check.namespace.clone());
    let mut feeds = vec![
        objects(Kind::MachineHealthCheck),
        objects(Kind::Cluster),
        objects(Kind::Machine),
        Feed::Nodes(spec.cluster.clone()),
    ];
    if let Source::Index(kind) = &spec.source {
        feeds.push(objects(*kind));
    }
    feeds
}
