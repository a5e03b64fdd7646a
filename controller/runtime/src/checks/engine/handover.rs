//! The live reads that precede the handover of unhealthy members to remediation.
//!
//! Invariant: each batch follows a live read of all objects that its check depends on (F13).

use rackhand_core::checks::dispatch::LiveRead;

use super::{CheckEngine, Done};
use crate::{checks::dialect::Dialect, clusters::sync::SyncError, store::object::Key};

impl<D: Dialect> CheckEngine<D> {
    /// Starts the live reads of the batches that have settled.
    pub(super) fn begin_reads(&mut self) {
        let Self { dialect, parts, .. } = self;
        let now = parts.now();
        let settles = |check: &Key| dialect.settles(check);
        for read in parts.members.begin_reads(settles, now) {
            let reach = dialect.reach(&parts.context, &read.check);
            let panicked = SyncError::Read("the read panicked".into());
            let lost = Done::Synced(read.clone(), Err(panicked));
            // What is reported meanwhile would delay the list, and the creations after it.
            let announced = parts.context.writer.announce_checks();
            let task = async move {
                let reached = reach.await;
                drop(announced);
                Done::Synced(read, reached)
            };
            parts.tasks.spawn(lost, task);
        }
    }

    /// Applies the result of a live read.
    pub(super) fn read_ended(&mut self, read: &LiveRead<Key>, result: Result<(), SyncError>) {
        let parts = &mut self.parts;
        let now = parts.now();
        let before = parts.members.read_failure(&read.check).map(str::to_owned);
        let result = result.map_err(|error| error.to_string());
        let Some(cleared) = parts.members.read_ended(read, result, now) else {
            return;
        };
        let failure = parts.members.read_failure(&read.check);
        let changed = failure != before.as_deref();
        if let Some(error) = failure.filter(|_| changed) {
            tracing::warn!(
                check = %read.check,
                error,
                "cannot read the fleet live; unhealthy members are not handed over; trying again"
            );
        }
        self.dialect.cleared(parts, &read.check, cleared, changed);
    }
}
