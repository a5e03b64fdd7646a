//! Who has the turn at a host, and whose call goes to the BMC next. Decided purely.
//!
//! One BMC may serve several hosts (the blades of a chassis). Operations take turns per host; their
//! calls, and those of readers, take turns per BMC. So one blade's long operation costs its
//! neighbours no more than the call that is under way.

use std::collections::{BTreeMap, BTreeSet};

/// How an operation stands to the others of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rank {
    /// A hard power-off: it goes before all others, and ends them.
    HardOff,
    /// In the order of the requests.
    Other,
}

/// Whose call goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Of an operation that forces a host off.
    Fence,
    /// Of any other operation.
    Operation,
    /// A reading that nobody's power depends on.
    Reader,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Entry {
    number: u64,
    /// Whether a hard power-off ends it.
    gives_way: bool,
}

/// The order at one BMC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    next: u64,
    /// Operations by host, each in their order; the first has the turn.
    hosts: BTreeMap<String, Vec<Entry>>,
    /// Calls that wait, the next one first.
    waiting: BTreeSet<(Class, u64)>,
    /// The call under way.
    calling: Option<(Class, u64)>,
}

impl State {
    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Adds an operation, and returns those that it overtakes. They are to end before their next
    /// command: an `on` that waits would otherwise switch on a host that was just fenced. The one
    /// that has the turn keeps it until it leaves, because its command may be under way.
    pub(super) fn join(&mut self, host: &str, rank: Rank) -> (u64, Vec<u64>) {
        let number = self.number();
        let entries = self.hosts.entry(host.to_owned()).or_default();
        let mut overtaken = Vec::new();
        if rank == Rank::HardOff {
            overtaken = entries
                .iter()
                .filter(|e| e.gives_way)
                .map(|e| e.number)
                .collect();
            let turn = entries.first().map(|entry| entry.number);
            entries.retain(|entry| !entry.gives_way || Some(entry.number) == turn);
            // It is overtaken once.
            entries.iter_mut().for_each(|entry| entry.gives_way = false);
        }
        entries.push(Entry {
            number,
            gives_way: rank != Rank::HardOff,
        });
        (number, overtaken)
    }

    /// Whether it is the turn of this operation. One that has lost its place never has it.
    pub(super) fn has_turn(&self, host: &str, number: u64) -> bool {
        let entries = self.hosts.get(host);
        entries
            .and_then(|entries| entries.first())
            .is_some_and(|first| first.number == number)
    }

    /// From now on it is not overtaken any more.
    pub(super) fn hold_turn(&mut self, host: &str, number: u64) {
        let entries = self.hosts.get_mut(host).into_iter().flatten();
        for entry in entries.filter(|entry| entry.number == number) {
            entry.gives_way = false;
        }
    }

    /// The operation is over, or gives up its place.
    pub(super) fn leave(&mut self, host: &str, number: u64) {
        if let Some(entries) = self.hosts.get_mut(host) {
            entries.retain(|entry| entry.number != number);
            if entries.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    /// Asks for the BMC for one call.
    pub(super) fn request_call(&mut self, class: Class) -> u64 {
        let number = self.number();
        self.waiting.insert((class, number));
        number
    }

    /// Takes the BMC if it is the turn of this call: no other is under way, and of those that wait
    /// it is of the first class, and the oldest of that.
    pub(super) fn take_call(&mut self, number: u64) -> bool {
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

    /// Whether a call of a higher class waits for the one under way.
    pub(super) fn must_yield(&self, number: u64) -> bool {
        match (self.calling, self.waiting.first()) {
            (Some((class, calling)), Some((first, _))) if calling == number => *first < class,
            _ => false,
        }
    }

    /// The call is answered, or not wanted any more.
    pub(super) fn end_call(&mut self, number: u64) {
        self.calling = self.calling.filter(|(_, calling)| *calling != number);
        self.waiting.retain(|(_, waiting)| *waiting != number);
    }
}

#[cfg(test)]
mod tests;
