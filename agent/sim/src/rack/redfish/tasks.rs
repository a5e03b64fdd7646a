//! The tasks of one BMC.
//!
//! Pure: it is told when time has passed and whether the power has settled. Must never change the
//! machine: a task only tells of a command that the machine has taken already.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::rack::process::Stamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its `Id`.
    pub id: String,
    /// What it does.
    pub name: String,
    /// Where the request went that began it.
    pub target: String,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; none while it runs.
    pub ended: Option<Timestamp>,
    due: Instant,
}

/// How many tasks are remembered.
const ROOM: usize = 64;

/// The tasks of a BMC.
#[derive(Clone, Debug, Default)]
pub struct TaskTable {
    tasks: Vec<Task>,
    last: u64,
}

impl TaskTable {
    /// Begins a task that runs at least this long.
    pub fn begin(&mut self, now: Stamp, takes: Duration, name: &str, target: &str) -> Task {
        self.last += 1;
        if self.tasks.len() >= ROOM {
            self.tasks.remove(0);
        }
        let task = Task {
            id: self.last.to_string(),
            name: name.to_owned(),
            target: target.to_owned(),
            started: now.wall,
            ended: None,
            due: now.at + takes,
        };
        self.tasks.push(task.clone());
        task
    }

    /// Ends what is due, if the power has settled.
    pub fn settle(&mut self, now: Stamp, settled: bool) {
        for task in &mut self.tasks {
            if settled && task.ended.is_none() && task.due <= now.at {
                task.ended = Some(now.wall);
            }
        }
    }

    /// When the next task is due after `now`.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let running = self.tasks.iter().filter(|task| task.ended.is_none());
        running.map(|task| task.due).filter(|due| *due > now).min()
    }

    /// The tasks, oldest first.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    pub fn forget(&mut self) {
        self.tasks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_ends_when_it_is_due_and_the_power_has_settled() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let at = |n: u32| Stamp {
            at: start + n * second,
            wall: Timestamp::UNIX_EPOCH,
        };
        let mut table = TaskTable::default();
        table.begin(at(0), 2 * second, "Reset", "/x");
        assert_eq!(table.next_due(start), Some(start + 2 * second));
        table.settle(at(1), true);
        table.settle(at(3), false);
        assert_eq!(table.tasks()[0].ended, None);
        table.settle(at(3), true);
        assert!(table.tasks()[0].ended.is_some());
        assert_eq!(table.next_due(start), None);
    }
}
