//! Hands unhealthy Machines over in batches, each after a live read of all that feeds their check
//! (F13).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use rackhand_core::{
    handover::{Handover, Step},
    health::most_unhealthy,
};

use super::{Done, Driver, UnderWay};
use crate::{
    health::{queue::Item, shown::stale_view, source::Source},
    object::{Key, Kind},
    sync::{Feed, SyncError},
};

/// The Machines of a check that wait to be handed over, and the number of the live read that they wait
/// for.
#[derive(Default)]
pub(super) struct Waiting {
    handover: Handover,
    /// Those that asked since they were cleared or withdrawn last.
    members: BTreeSet<Arc<str>>,
    read: u64,
}

impl Driver {
    /// Whether a Machine may be handed over now. Otherwise it waits for the read of its batch.
    pub(super) fn is_cleared(&mut self, item: &Item) -> bool {
        let now = self.started.elapsed();
        let waiting = self.handovers.entry(item.check.clone()).or_default();
        waiting.members.insert(item.machine.clone());
        waiting.handover.request(&item.machine, now)
    }

    /// Forgets the Machines that are not due any more by the last look.
    pub(super) fn settle(&mut self) {
        let checks = &self.checks;
        self.handovers.retain(|key, waiting| {
            let Some(looked) = checks.get(key) else {
                return false;
            };
            let Waiting {
                handover, members, ..
            } = waiting;
            members.retain(|machine| {
                let act = looked.acts.get(machine);
                let due = act.is_some_and(super::Act::hands_over);
                if !due {
                    handover.withdraw(machine);
                }
                due
            });
            true
        });
    }

    /// Begins the reads of the batches that have settled.
    pub(super) fn begin_reads(&mut self) {
        let now = self.started.elapsed();
        let mut next: Option<Duration> = None;
        let mut begun = Vec::new();
        for (key, waiting) in &mut self.handovers {
            let Some(looked) = self.checks.get(key) else {
                continue;
            };
            let spec = &looked.spec;
            let most = most_unhealthy(spec.rules.max_unhealthy, looked.expected);
            let settles = most.is_none_or(|most| most < looked.expected);
            match waiting.handover.step(settles, now) {
                Step::Idle => {}
                Step::Wait(at) => next = Some(next.map_or(at, |next| next.min(at))),
                Step::Read => {
                    self.reads += 1;
                    waiting.read = self.reads;
                    begun.push((key.clone(), self.reads, spec.source.clone()));
                }
            }
        }
        self.settled_at = next.map(|at| Instant::now() + at.saturating_sub(now));
        for (key, read, source) in begun {
            self.begin_read(key, read, source);
        }
    }

    fn begin_read(&mut self, key: Key, read: u64, source: Source) {
        let objects = |kind| Feed::Objects(kind, key.namespace.clone());
        let mut feeds = vec![
            objects(Kind::OpenShiftCheck),
            objects(Kind::OpenShiftMachine),
            Feed::Nodes(Key::local()),
        ];
        let other = match source {
            Source::Nowhere => None,
            Source::Index(kind) => {
                feeds.push(objects(kind));
                None
            }
            Source::Other(kind) => Some(kind),
        };
        let (context, others) = (self.context.clone(), self.others.clone());
        let check = key.clone();
        let task = async move {
            let mut result = context.syncs.reach(feeds).await;
            if let (Ok(()), Some(kind)) = (&result, other) {
                result = others.reach(&context, &kind).await;
            }
            Done::Synced(check, read, result)
        };
        let id = self.tasks.spawn(task).id();
        self.under_way.insert(id, UnderWay::Sync(key, read));
    }

    /// A read is over. The Machines are judged anew before anybody is handed over.
    pub(super) fn synced(&mut self, check: &Key, read: u64, result: Result<(), SyncError>) {
        let now = self.started.elapsed();
        // The answer to an earlier read of a check that was away meanwhile proves nothing.
        let waiting = self.handovers.get_mut(check).filter(|w| w.read == read);
        let Some(waiting) = waiting else {
            return;
        };
        let result = result.map_err(|error| error.to_string());
        if let Err(error) = &result
            && waiting.handover.failure() != Some(error.as_str())
        {
            tracing::warn!(%check, error, "the fleet cannot be read live; nobody is handed over; trying again");
        }
        waiting.handover.finish_read(result, now);
        self.fire();
    }

    /// Why nobody is handed over.
    pub(super) fn stale(&self, check: &Key) -> Option<String> {
        let waiting = self.handovers.get(check)?;
        waiting.handover.failure().map(stale_view)
    }
}
