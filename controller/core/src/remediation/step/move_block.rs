//! Makes clusterctl wait before it moves a host that is held, and its remediation, to another cluster (F16).
//!
//! A move copies the objects and deletes the originals without their finalizers. What was set for a remediation in
//! progress would be left, and the host held for a remediation that does not exist. Invariants: both objects carry
//! the annotation before the hold, and until everything that was added is removed; only our own is removed (F9).

use super::{
    super::{MoveBlock, Reason, State, removable_from},
    Command, Decision, StepContext,
};

impl StepContext<'_> {
    /// Sets the annotation on the objects that have none and do not get it with the finalizer or the hold key; `None`
    /// if there are none.
    pub(super) fn block_move(&self, s: &State) -> Option<Decision> {
        // A remediation by Node is not moved, so that it makes nothing wait. Any other one makes its host wait too.
        let before_hold = self.holds() || self.o.object.by_node;
        let host = self.blocked_host().filter(|_| before_hold);
        (self.o.object.move_block.is_missing() || host.is_some_and(MoveBlock::is_missing))
            .then(|| self.act(s.clone(), Reason::Holding, Command::BlockMove))
    }

    /// Removes our annotation before the end; `None` if nothing is left to remove. With the finalizer, which is removed
    /// last, goes that of the object.
    pub(super) fn unblock_before_end(&self, s: &State, reason: Reason) -> Option<Decision> {
        let ends = self.o.object.finalizer && self.owns_finalizer(s) && s.rival.is_none();
        if !ends {
            return self.unblock_move(s, reason);
        }
        self.blocked_host()
            .is_some_and(MoveBlock::is_ours)
            .then(|| self.act(s.clone(), reason, Command::UnblockHost))
    }

    /// Removes the annotation of this remediation, which waits before anything is held.
    pub(super) fn unblock_waiting(&self, d: &Decision) -> Option<Decision> {
        let blocks = [Some(self.o.object.move_block), self.blocked_host()];
        (!self.holds() && blocks.contains(&Some(MoveBlock::Ours)))
            .then(|| self.act(d.state.clone(), d.reason.clone(), Command::UnblockMove))
    }

    fn blocked_host(&self) -> Option<MoveBlock> {
        let host = self.o.bmh.as_ref().filter(|b| !b.deleting)?;
        Some(host.move_block)
    }

    /// Removes our annotation; `None` if neither object has it.
    pub(super) fn unblock_move(&self, s: &State, reason: Reason) -> Option<Decision> {
        self.is_any_block(MoveBlock::is_ours)
            .then(|| self.act(s.clone(), reason, Command::UnblockMove))
    }

    fn is_any_block(&self, wanted: fn(MoveBlock) -> bool) -> bool {
        wanted(self.o.object.move_block) || self.blocked_host().is_some_and(wanted)
    }

    /// Whether the objects are deleted here because clusterctl has moved them. It removes all annotations of the
    /// originals, the hold key included, and the copies are another controller's.
    pub(super) fn is_moved_away(&self) -> bool {
        self.o.object.moved_away || self.o.bmh.as_ref().is_some_and(|b| b.moved_away)
    }

    /// Whether the BareMetalHost has the hold key of a former remediation of ours.
    pub(super) fn has_orphaned_hold(&self) -> bool {
        let bmh = self.o.bmh.as_ref();
        bmh.is_some_and(|b| !b.orphaned_holds.is_empty())
    }

    /// Removes the hold keys of former remediations before the host may be switched on; `None` if there are none.
    pub(super) fn remove_orphaned_holds(&self, s: &State) -> Option<Decision> {
        let bmh = self.o.bmh.as_ref()?;
        let keys = bmh.orphaned_holds.clone();
        if keys.is_empty() {
            return None;
        }
        let names = keys.iter().map(String::as_str).collect::<Vec<_>>();
        let names = names.join(", ");
        if bmh.paused || self.o.object.paused {
            let why = format!("{names}. It is removed after the pause of the host or its Cluster");
            return Some(self.recheck(s.clone(), Reason::OrphanedHold(why)));
        }
        let from = removable_from(bmh.created, self.policy.orphaned_hold_age);
        if let Some(from) = from.filter(|from| *from > self.now) {
            let why = format!(
                "{names}. It is removed {} s after BareMetalHost {} was created, at {from}",
                self.policy.orphaned_hold_age.as_secs(),
                bmh.name
            );
            return Some(self.wait(s.clone(), Reason::OrphanedHold(why), from));
        }
        let command = Command::RemoveOrphanedHolds { keys };
        Some(self.act(s.clone(), Reason::OrphanedHold(names), command))
    }
}
