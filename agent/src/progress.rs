//! What a person sees while many hosts are changed: one line on a terminal, a line for each host
//! anywhere else. A single host on a terminal is told step by step instead.

use std::{
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// How often the line is written again at most.
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

    /// Whether each step of a host is told.
    pub(crate) fn tells_events(&self) -> bool {
        self.terminal && self.hosts == 1
    }

    /// A host is finished.
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
            err!(
                "\r\x1b[K{} of {}{failed}, {seconds} s",
                state.done,
                self.hosts
            );
            std::io::stderr().flush().ok();
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.terminal && self.hosts > 1 {
            err!("\r\x1b[K");
        }
    }
}
