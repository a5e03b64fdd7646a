//! Single-step mode: the clock of a host is stopped, and the test advances it. Network and kubelet
//! keep running.

use std::time::Duration;

use super::host::SimHost;
use super::observation::Switched;

impl SimHost {
    /// Stops or restarts the clock of this host. While it is stopped, nothing with a duration
    /// happens (power, boot, tasks, a BMC reset, the age of sessions and readings).
    pub fn single_step(&self, still: bool) {
        self.clock(|world, clock| clock.set_stopped(world, still));
        self.note(format!("single steps: {still}"));
    }

    /// Advances its clock to the next due change, and applies that. Returns the real power changes:
    /// none if only the operating system or the BMC changed, or nothing was due.
    pub fn step(&self) -> Vec<Switched> {
        let now = self.now();
        let machine = self.with(|_, state, _| state.machine.next_change());
        let next = [machine, self.bmc().next_change(now)].into_iter().flatten();
        match next.min() {
            Some(next) => self.advance(next.saturating_duration_since(now)),
            None => Vec::new(),
        }
    }

    /// Advances its clock, and returns the real power changes.
    pub fn advance(&self, by: Duration) -> Vec<Switched> {
        let before = self.with(|_, state, _| state.switched.len());
        self.clock(|world, clock| clock.advance(world, by));
        let mut switched = self.switched();
        self.changed();
        switched.drain(..before.min(switched.len()));
        switched
    }
}
