//! Claims in the order in which they were sent.
//!
//! A claim that is taken after a later one would make an agent serve the rack again that was put on
//! standby (F6). And a leader repeats its claim to see that the agent lives, which must not write to the
//! disk. Calls do not outlive the process to which they are sent, so this is kept in memory.

use std::collections::BTreeMap;

use super::Term;

/// The claims that this process has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Claims(BTreeMap<String, Seen>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Seen {
    /// The last claim of the highest term.
    last: Option<Term>,
    /// What the disk has; `None`: unknown, or a claim is being written.
    written: Option<Term>,
}

/// What is to be done with a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// A later claim of this term has come before it.
    Late,
    /// The disk has it already.
    Known,
    /// The journal decides.
    New,
}

impl Claims {
    /// A claim arrives.
    pub fn arrives(&mut self, election: &str, asked: &Term) -> Arrival {
        let seen = self.0.entry(election.to_owned()).or_default();
        if let Some(last) = &seen.last {
            let is_same = (last.number, &last.holder) == (asked.number, &asked.holder);
            if is_same && asked.sequence != 0 && asked.sequence < last.sequence {
                return Arrival::Late;
            }
            // The journal refuses it.
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

    /// The disk has a claim. A claim that came after it may be on its way to the disk.
    pub fn written(&mut self, election: &str, term: &Term) {
        let seen = self.0.entry(election.to_owned()).or_default();
        if seen.last.as_ref() == Some(term) {
            seen.written = Some(term.clone());
        }
    }

    /// The journal has refused a claim: it stands for nothing.
    pub fn refused(&mut self, election: &str, term: &Term) {
        let seen = self.0.entry(election.to_owned()).or_default();
        if seen.last.as_ref() == Some(term) {
            seen.last = None;
        }
    }

    /// Forgets an election, for example when a person sets its term back.
    pub fn forget(&mut self, election: &str) {
        self.0.remove(election);
    }
}
