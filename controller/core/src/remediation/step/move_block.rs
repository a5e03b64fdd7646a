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
    /// Sets the annotation on the objects that have none; `None` if both have one.
    pub(super) fn block_move(&self, s: &State) -> Option<Decision> {
        self.is_any_block(MoveBlock::is_missing)
            .then(|| self.act(s.clone(), Reason::Holding, Command::BlockMove))
    }

    /// Removes our annotation; `None` if neither object has it.
    pub(super) fn unblock_move(&self, s: &State, reason: Reason) -> Option<Decision> {
        self.is_any_block(MoveBlock::is_ours)
            .then(|| self.act(s.clone(), reason, Command::UnblockMove))
    }

    fn is_any_block(&self, wanted: fn(MoveBlock) -> bool) -> bool {
        let host = self.o.bmh.as_ref().filter(|b| !b.deleting);
        wanted(self.o.object.move_block) || host.is_some_and(|b| wanted(b.move_block))
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
