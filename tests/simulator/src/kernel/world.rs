//! The state of a simulation, and its queue of events.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, VecDeque},
    hash::{DefaultHasher, Hasher},
    task::Waker,
    time::Duration,
};

use rackhand_interpose::View;

use super::{
    network::Network,
    process::{Process, ProcessId, State},
    view,
};
use crate::{
    api::{ApiServer, ApiWays},
    fleet::Fleet,
};

/// What an event does.
pub(super) type Action = Box<dyn FnOnce(&mut World) + Send>;

struct Event {
    at: Duration,
    sequence: u64,
    action: Action,
}

impl Event {
    fn order(&self) -> (Duration, u64) {
        (self.at, self.sequence)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// The log: a hash of everything that was told, and the lines themselves where they are wanted.
#[derive(Default)]
struct Log {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
    follow: bool,
}

/// The world.
pub struct World {
    seed: u64,
    now: Duration,
    sequence: u64,
    events: BinaryHeap<Reverse<Event>>,
    processes: Vec<Process>,
    due: BTreeSet<(Duration, ProcessId)>,
    runnable: VecDeque<ProcessId>,
    wakers: Vec<Waker>,
    ended: Vec<ProcessId>,
    started: Vec<ProcessId>,
    log: Log,
    /// Random numbers of the world.
    pub rng: fastrand::Rng,
    /// Connections between processes.
    pub network: Network,
    /// The Kubernetes API.
    pub api: ApiServer,
    pub(crate) ways: ApiWays,
    /// Hosts, their kubelets and what else acts beside Rackhand.
    pub fleet: Fleet,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(seed: u64, fleet: Fleet) -> Self {
        Self {
            seed,
            now: Duration::ZERO,
            sequence: 0,
            events: BinaryHeap::new(),
            processes: Vec::new(),
            due: BTreeSet::new(),
            runnable: VecDeque::new(),
            wakers: Vec::new(),
            ended: Vec::new(),
            started: Vec::new(),
            log: Log::default(),
            rng: fastrand::Rng::with_seed(seed),
            network: Network::default(),
            api: ApiServer::new(seed),
            ways: ApiWays::default(),
            fleet,
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// What the world itself sees.
    pub(super) fn view(&self) -> View {
        view(self.now, State::default(), 1)
    }

    /// Does something later.
    pub fn after(&mut self, delay: Duration, action: impl FnOnce(&mut World) + Send + 'static) {
        self.at(self.now + delay, action);
    }

    /// Does something at a time; at once where it has passed.
    pub fn at(&mut self, at: Duration, action: impl FnOnce(&mut World) + Send + 'static) {
        self.sequence += 1;
        self.events.push(Reverse(Event {
            at: at.max(self.now),
            sequence: self.sequence,
            action: Box::new(action),
        }));
    }

    /// A duration between two, by chance.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.rng.u64(micros(least)..=micros(most)))
    }

    /// The next event until `end`, at whose time the world is then.
    pub(super) fn next(&mut self, end: Duration) -> Option<Action> {
        let action = self.advance(end);
        self.api.set_time(self.now);
        action
    }

    fn advance(&mut self, end: Duration) -> Option<Action> {
        let event = self.events.peek().map(|Reverse(event)| event.at);
        let timer = self.due.first().copied();
        match (event, timer) {
            (event, Some((at, id))) if event.is_none_or(|event| at < event) && at <= end => {
                self.now = at;
                self.due.remove(&(at, id));
                self.process_mut(id).due = None;
                self.make_runnable(id);
                Some(Box::new(|_| {}))
            }
            (Some(at), _) if at <= end => {
                self.now = at;
                self.events.pop().map(|Reverse(event)| event.action)
            }
            _ => {
                self.now = end.max(self.now);
                None
            }
        }
    }

    /// Adds a line to the log.
    pub fn log(&mut self, what: std::fmt::Arguments<'_>) {
        let line = format!("{:>12.3} {what}", self.now.as_secs_f64());
        self.log.hash.write(line.as_bytes());
        self.log.hash.write_u8(0);
        if self.log.follow {
            eprintln!("{line}");
        }
        if let Some(lines) = &mut self.log.lines {
            lines.push(line);
        }
    }

    /// Prints the log as it grows.
    pub fn follow_log(&mut self) {
        self.log.follow = true;
    }

    /// Keeps the lines of the log.
    pub fn keep_log(&mut self) {
        self.log.lines = Some(Vec::new());
    }

    /// The lines of the log, if they are kept.
    #[must_use]
    pub fn log_lines(&self) -> &[String] {
        self.log.lines.as_deref().unwrap_or_default()
    }

    /// The hash of the log.
    #[must_use]
    pub fn log_hash(&self) -> u64 {
        self.log.hash.clone().finish()
    }

    /// Wakes a task of a process, and lets the process run.
    pub fn wake(&mut self, process: ProcessId, waker: Option<Waker>) {
        self.wakers.extend(waker);
        self.make_runnable(process);
    }

    // === processes ===

    pub(super) fn add_process(&mut self, name: &str) -> ProcessId {
        let id = ProcessId(i32::try_from(self.processes.len() + 100).unwrap_or(i32::MAX));
        self.processes.push(Process {
            name: name.to_owned(),
            state: State::default(),
            due: None,
            queued: false,
            missed: false,
        });
        self.start_process(id);
        id
    }

    #[allow(clippy::indexing_slicing, reason = "an id is made with its process")]
    fn process(&self, id: ProcessId) -> &Process {
        &self.processes[usize::try_from(id.0 - 100).unwrap_or(0)]
    }

    #[allow(clippy::indexing_slicing, reason = "an id is made with its process")]
    fn process_mut(&mut self, id: ProcessId) -> &mut Process {
        &mut self.processes[usize::try_from(id.0 - 100).unwrap_or(0)]
    }

    /// The state of a process.
    #[must_use]
    pub fn state(&self, id: ProcessId) -> State {
        self.process(id).state
    }

    /// The name of a process.
    #[must_use]
    pub fn name(&self, id: ProcessId) -> &str {
        &self.process(id).name
    }

    pub(super) fn make_runnable(&mut self, id: ProcessId) {
        let process = self.process_mut(id);
        if process.state.paused {
            process.missed = true;
        } else if process.state.alive && !process.queued {
            process.queued = true;
            self.runnable.push_back(id);
        }
    }

    pub(super) fn next_runnable(&mut self) -> Option<ProcessId> {
        loop {
            let id = self.runnable.pop_front()?;
            let process = self.process_mut(id);
            process.queued = false;
            if process.state.alive && !process.state.paused {
                return Some(id);
            }
        }
    }

    /// A process has nothing to do for so long.
    pub(super) fn sleep(&mut self, id: ProcessId, wait: Option<Duration>) {
        let due = wait.map(|wait| self.now + wait);
        let before = std::mem::replace(&mut self.process_mut(id).due, due);
        if let Some(before) = before {
            self.due.remove(&(before, id));
        }
        if let Some(due) = due {
            self.due.insert((due, id));
        }
    }

    /// Whether something is to be done before the next event.
    pub(super) fn has_orders(&self) -> bool {
        !(self.wakers.is_empty() && self.ended.is_empty() && self.started.is_empty())
    }

    pub(super) fn take_orders(&mut self) -> (Vec<Waker>, Vec<ProcessId>, Vec<ProcessId>) {
        (
            std::mem::take(&mut self.wakers),
            std::mem::take(&mut self.ended),
            std::mem::take(&mut self.started),
        )
    }

    fn start_process(&mut self, id: ProcessId) {
        let process = self.process_mut(id);
        if process.state.alive {
            return;
        }
        let state = &mut process.state;
        state.alive = true;
        state.lives += 1;
        state.origin_error = state.wall_error;
        self.started.push(id);
    }

    /// Starts a process that has ended, some time later.
    pub fn restart(&mut self, id: ProcessId, delay: Duration) {
        self.after(delay, move |world| world.start_process(id));
    }

    /// A process has ended by itself; it is started again, as by a kubelet or systemd.
    pub(super) fn end_process(&mut self, id: ProcessId, why: &str) {
        let name = self.name(id).to_owned();
        self.log(format_args!("{name} ends: {why}"));
        self.kill(id);
    }

    /// Ends a process at once, and starts it again later.
    pub fn kill(&mut self, id: ProcessId) {
        if self.stop(id) {
            let delay = self.between(Duration::from_millis(500), Duration::from_secs(10));
            self.restart(id, delay);
        }
    }

    /// Ends a process at once; whether it ran.
    pub fn stop(&mut self, id: ProcessId) -> bool {
        let process = self.process_mut(id);
        if !process.state.alive {
            return false;
        }
        process.state.alive = false;
        process.state.paused = false;
        process.missed = false;
        self.sleep(id, None);
        self.ended.push(id);
        self.reset_connections(id);
        true
    }

    /// Stops a process, as SIGSTOP does.
    pub fn pause(&mut self, id: ProcessId) {
        self.process_mut(id).state.paused = true;
    }

    /// Lets a paused process go on. With `suspended`, its machine was suspended meanwhile.
    pub fn resume(&mut self, id: ProcessId, suspended: Duration) {
        let process = self.process_mut(id);
        if !process.state.paused {
            return;
        }
        process.state.paused = false;
        process.state.suspended += suspended;
        process.missed = false;
        self.make_runnable(id);
    }

    /// Changes the wall clock of a process.
    pub fn set_wall_error(&mut self, id: ProcessId, milliseconds: i64) {
        self.process_mut(id).state.wall_error = milliseconds;
    }
}
