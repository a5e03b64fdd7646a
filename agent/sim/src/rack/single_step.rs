//! Single steps: the clock of a host stops, and the test advances it. Network and kubelet run on.

use std::time::Duration;

use super::host::SimHost;
use super::observation::Switched;

impl SimHost {
    /// Stops the clock of this host, so that nothing that takes time (power, boot, tasks, a restart
    /// of the BMC, the age of sessions and readings) happens by itself; or lets it run on.
    pub fn single_step(&self, still: bool) {
        self.clock(|world, clock| clock.stand(world, still));
        self.note(format!("single steps: {still}"));
    }

    /// Moves its clock to the next thing that is due, and lets that happen. Gives what was really
    /// switched by it: nothing if the operating system or the BMC did something, or nothing was due.
    pub fn step(&self) -> Vec<Switched> {
        let now = self.now();
        let machine = self.with(|_, state, _| state.machine.next_change());
        let next = [machine, self.bmc().next_change(now)].into_iter().flatten();
        match next.min() {
            Some(next) => self.advance(next.saturating_duration_since(now)),
            None => Vec::new(),
        }
    }

    /// Moves its clock forward, and gives what was really switched meanwhile.
    pub fn advance(&self, by: Duration) -> Vec<Switched> {
        let before = self.with(|_, state, _| state.switched.len());
        self.clock(|world, clock| clock.forward(world, by));
        let mut switched = self.switched();
        self.changed();
        switched.drain(..before.min(switched.len()));
        switched
    }
}
