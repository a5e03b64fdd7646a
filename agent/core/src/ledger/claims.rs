//! Order of claims by their sequence numbers.
//!
//! A claim that was sent before a later one must not make a standby agent serve the rack again
//! (F6). Besides, a leader repeats its claim as a liveness check, which must not write to the disk.
//! Calls do not outlive the process that receives them, so this state is kept in memory.

use std::collections::BTreeMap;

use super::Term;

/// The claims that this process has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims(BTreeMap<String, Seen>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Seen {
    /// The last claim of the highest term.
    last: Option<Term>,
    /// The claim on disk; `None`: unknown, or a claim is being written.
    written: Option<Term>,
}

/// What to do with a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Reject it: a later claim of this term was received before it.
    Late,
    /// Confirm it: it is on disk already.
    Known,
    /// Pass it to the journal, which decides.
    New,
}

impl Claims {
    /// Handles a received claim.
    pub fn arrives(&mut self, election: &str, asked: &Term) -> Arrival {
        let seen = self.0.entry(election.to_owned()).or_default();
        if let Some(last) = &seen.last {
            let is_same = (last.number, &last.holder) == (asked.number, &asked.holder);
            if is_same && asked.sequence != 0 && asked.sequence < last.sequence {
                return Arrival::Late;
            }
            // The journal rejects it.
            if !is_same && last.number >= asked.number {
                return Arrival::New;
            }
        }
        seen.last = Some(asked.clone());
        let is_known = seen.written.as_ref().is_some_and(|written| {
            (written.number, &written.holder, written.standby)
                == (asked.number, &asked.holder, asked.standby)
        });
        if is_known {
            return Arrival::Known;
        }
        seen.written = None;
        Arrival::New
    }

    /// Records that a claim is on disk. A later claim may be in flight to the disk.
    pub fn written(&mut self, election: &str, term: &Term) {
        let seen = self.0.entry(election.to_owned()).or_default();
        if seen.last.as_ref() == Some(term) {
            seen.written = Some(term.clone());
        }
    }

    /// Records that the journal has rejected a claim.
    pub fn refused(&mut self, election: &str, term: &Term) {
        let seen = self.0.entry(election.to_owned()).or_default();
        if seen.last.as_ref() == Some(term) {
            seen.last = None;
        }
    }

    /// The last claim of an election, and the one that the disk has.
    pub fn of(&self, election: &str) -> [Option<&Term>; 2] {
        let seen = self.0.get(election);
        seen.map_or([None; 2], |seen| {
            [seen.last.as_ref(), seen.written.as_ref()]
        })
    }

    /// Drops an election, for example when an operator sets its term back.
    pub fn forget(&mut self, election: &str) {
        self.0.remove(election);
    }
}
