//! The order of operations at a host, and of calls at a BMC. Pure.
//!
//! One BMC may serve several hosts (the blades of a chassis). Operations take turns per host; their
//! calls, and those of readers, take turns per BMC, so a long operation on one blade delays the
//! others by no more than the call in flight.

use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::Action;

/// Precedence among the operations of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationRank {
    /// A hard power-off: precedes and replaces all others.
    HardOff,
    /// Queued in the order of the requests.
    Other,
}

impl OperationRank {
    /// The rank of an operation.
    pub fn of(action: Action) -> Self {
        match action {
            Action::Off { .. } => Self::HardOff,
            Action::SoftOff | Action::On | Action::Cycle | Action::Reset | Action::Nmi => {
                Self::Other
            }
        }
    }
}

/// Precedence of a call at the BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// A call of an operation that forces a host off.
    Fence,
    /// A call of any other operation.
    Operation,
    /// A reading that no power operation depends on.
    Reader,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Entry {
    number: u64,
    /// Whether a hard power-off may replace it.
    gives_way: bool,
}

/// The state of the queue of one BMC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    next: u64,
    /// Operations by host, each in their order; the first has the turn.
    hosts: BTreeMap<String, Vec<Entry>>,
    /// Calls that wait, the next one first.
    waiting: BTreeSet<(CallClass, u64)>,
    /// The call in flight.
    calling: Option<(CallClass, u64)>,
}

impl State {
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Adds an operation, and returns the operations that it replaces. They end before their next command:
    /// a waiting `on` would otherwise switch on a host that was just fenced. The operation whose
    /// turn it is keeps the turn until it leaves, because its command may be in flight.
    pub fn join(&mut self, host: &str, rank: OperationRank) -> (u64, Vec<u64>) {
        let number = self.number();
        let entries = self.hosts.entry(host.to_owned()).or_default();
        let mut overtaken = Vec::new();
        if rank == OperationRank::HardOff {
            overtaken = entries
                .iter()
                .filter(|e| e.gives_way)
                .map(|e| e.number)
                .collect();
            let turn = entries.first().map(|entry| entry.number);
            entries.retain(|entry| !entry.gives_way || Some(entry.number) == turn);
            // Reported once.
            entries.iter_mut().for_each(|entry| entry.gives_way = false);
        }
        entries.push(Entry {
            number,
            gives_way: rank != OperationRank::HardOff,
        });
        (number, overtaken)
    }

    /// The operations of a host in their order: the number of each, and whether a hard power-off may
    /// replace it.
    pub fn operations(&self, host: &str) -> impl Iterator<Item = (u64, bool)> {
        let entries = self.hosts.get(host).into_iter().flatten();
        entries.map(|entry| (entry.number, entry.gives_way))
    }

    /// Whether it is the turn of this operation; never for one that was replaced.
    pub fn has_turn(&self, host: &str, number: u64) -> bool {
        let entries = self.hosts.get(host);
        entries
            .and_then(|entries| entries.first())
            .is_some_and(|first| first.number == number)
    }

    /// From now on the operation cannot be replaced.
    pub fn hold_turn(&mut self, host: &str, number: u64) {
        let entries = self.hosts.get_mut(host).into_iter().flatten();
        for entry in entries.filter(|entry| entry.number == number) {
            entry.gives_way = false;
        }
    }

    /// Removes an operation from the queue.
    pub fn leave(&mut self, host: &str, number: u64) {
        if let Some(entries) = self.hosts.get_mut(host) {
            entries.retain(|entry| entry.number != number);
            if entries.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    /// Requests the BMC for one call.
    pub fn request_call(&mut self, class: CallClass) -> u64 {
        let number = self.number();
        self.waiting.insert((class, number));
        number
    }

    /// Takes the BMC if it is the turn of this call: no other is in flight, and of the waiting ones
    /// it has the highest class, and is the oldest of that.
    pub fn take_call(&mut self, number: u64) -> bool {
        if self.calling.is_none()
            && self
                .waiting
                .first()
                .is_some_and(|(_, next)| *next == number)
        {
            self.calling = self.waiting.pop_first();
        }
        self.calling.is_some_and(|(_, calling)| calling == number)
    }

    /// Whether a call of a higher class waits for the one in flight.
    pub fn must_yield(&self, number: u64) -> bool {
        match (self.calling, self.waiting.first()) {
            (Some((class, calling)), Some((first, _))) if calling == number => *first < class,
            _ => false,
        }
    }

    /// Removes a call that was answered or dropped.
    pub fn end_call(&mut self, number: u64) {
        self.calling = self.calling.filter(|(_, calling)| *calling != number);
        self.waiting.retain(|(_, waiting)| *waiting != number);
    }
}

#[cfg(test)]
mod tests;
