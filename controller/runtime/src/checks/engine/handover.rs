//! Handover of unhealthy members to remediation, in batches.
//!
//! Invariant: each batch follows a live read of all objects that its check depends on (F13).

use std::time::{Duration, Instant};

use rackhand_core::checks::handover::Step;

use super::{CheckEngine, queue::Item, results::Done};
use crate::{
    checks::dialect::{Dialect, Evaluated},
    clusters::sync::SyncError,
    store::object::Key,
};

impl<D: Dialect> CheckEngine<D> {
    /// Whether a member may be remediated now. Otherwise it waits for the live read of its batch.
    pub(in crate::checks) fn is_cleared(&mut self, item: &Item) -> bool {
        let now = self.started.elapsed();
        let Some(check) = self.checks.get_mut(&item.check) else {
            return false;
        };
        let cleared = check.progress().handover.request(&item.member, now);
        if !cleared {
            self.settling.insert(item.check.clone());
        }
        cleared
    }

    /// Starts the live reads of the batches that have settled.
    pub(super) fn begin_reads(&mut self) {
        let now = self.started.elapsed();
        let mut next = None;
        for key in std::mem::take(&mut self.settling) {
            let Some(check) = self.checks.get_mut(&key) else {
                continue;
            };
            let settles = D::settles(check);
            let handover = &mut check.progress().handover;
            match handover.step(settles, now, &mut self.reads) {
                Step::Idle => {}
                Step::Wait(at) => {
                    next = Some(next.map_or(at, |next: Duration| next.min(at)));
                    self.settling.insert(key);
                }
                Step::Read => {
                    let (reach, read) = (D::reach(self, &key), self.reads);
                    let panicked = SyncError::Read("the read panicked".into());
                    let lost = Done::Synced(key.clone(), read, Err(panicked));
                    let task = async move { Done::Synced(key, read, reach.await) };
                    self.tasks.spawn(lost, task);
                }
            }
        }
        self.settled_at = next.map(|at| Instant::now() + at.saturating_sub(now));
    }

    /// Applies the result of a live read.
    pub(super) fn synced(&mut self, key: &Key, read: u64, result: Result<(), SyncError>) {
        let now = self.started.elapsed();
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let handover = &mut check.progress().handover;
        let before = handover.failure().map(str::to_owned);
        let result = result.map_err(|error| error.to_string());
        let Some(cleared) = handover.finish(read, result, now) else {
            return;
        };
        let changed = handover.failure() != before.as_deref();
        if let Some(error) = handover.failure().filter(|_| changed) {
            tracing::warn!(
                check = %key,
                error,
                "cannot read the fleet live; unhealthy members are not handed over; trying again"
            );
        }
        self.settling.insert(key.clone());
        D::cleared(self, key, cleared, changed);
    }
}
