//! Progress output while many hosts are changed: one line on a terminal, one line per host
//! otherwise. For a single host on a terminal, its events are printed instead.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::stdio::clear_line;

/// Minimum interval between two updates of the line.
const PACE: Duration = Duration::from_millis(100);

pub(crate) struct Progress {
    hosts: usize,
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    done: usize,
    failed: usize,
    begun: Instant,
    written: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            hosts,
            terminal: std::io::stderr().is_terminal(),
            state: Mutex::new(State {
                done: 0,
                failed: 0,
                begun: Instant::now(),
                written: None,
            }),
        }
    }

    /// Whether each event of a host is printed.
    pub(crate) fn tells_events(&self) -> bool {
        self.terminal && self.hosts == 1
    }

    /// Records that a host has finished.
    pub(crate) fn ended(&self, host: &str, result: &str, good: bool) {
        let mut state = self.state.lock();
        state.done += 1;
        state.failed += usize::from(!good);
        if self.hosts == 1 {
            return;
        }
        if !self.terminal {
            errln!("{host}: {result} ({} of {})", state.done, self.hosts);
            return;
        }
        let is_last = state.done == self.hosts;
        if is_last || state.written.is_none_or(|at| at.elapsed() >= PACE) {
            state.written = Some(Instant::now());
            let seconds = state.begun.elapsed().as_secs();
            let failed = match state.failed {
                0 => String::new(),
                failed => format!(", {failed} not as wanted"),
            };
            clear_line();
            err!("{} of {}{failed}, {seconds} s", state.done, self.hosts);
            std::io::stderr().flush().ok();
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.terminal && self.hosts > 1 {
            clear_line();
        }
    }
}
