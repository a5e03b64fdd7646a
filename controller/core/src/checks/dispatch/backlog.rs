//! Work on many members, done piece by piece before any member gets its turn.
//!
//! In a large fleet one event concerns tens of thousands of members: a list, a limit that opens, a check that is
//! evaluated for the first time. The shell does one piece after the other and lets other tasks run in between. No
//! effect begins while a piece is left, so that every decision rests on all of them (F13).

use std::collections::BTreeSet;

use super::Item;

/// A set is merged if it is at least this part of the other one: one in so many.
const MERGED: usize = 8;

/// One piece of work. `K` is the key of a check, `C` a change of an object. The order is that of the work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work<K, C> {
    /// Apply a change.
    Apply(C),
    /// Read the next members of a check whose fleet is not whole.
    Fill(K),
    /// Evaluate the next members of a check whose facts or deadlines have changed for all of them.
    Advance(K),
    /// Read the remediation of a member again.
    ReadRemediation(Item<K>),
    /// Choose again which of several checks acts for a member.
    ChooseActing(Item<K>),
    /// Queue a member if there may be something to do for it.
    Reconsider(Item<K>),
}

/// The pieces that are left, each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backlog<K: Ord, C: Ord>(BTreeSet<Work<K, C>>);

impl<K: Ord, C: Ord> Default for Backlog<K, C> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

// === impl Backlog ===

impl<K: Ord, C: Ord> Backlog<K, C> {
    /// Adds a piece of work.
    pub fn push(&mut self, work: Work<K, C>) {
        self.0.insert(work);
    }

    /// Takes the next piece: facts before what follows from them.
    pub fn pop(&mut self) -> Option<Work<K, C>> {
        self.0.pop_first()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Ord, C: Ord> Extend<Work<K, C>> for Backlog<K, C> {
    fn extend<T: IntoIterator<Item = Work<K, C>>>(&mut self, work: T) {
        let mut more: BTreeSet<_> = work.into_iter().collect();
        // Two large sets are merged faster than the members of one are inserted one by one.
        match more.len().saturating_mul(MERGED) < self.0.len() {
            true => self.0.extend(more),
            false => self.0.append(&mut more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_before_what_follows_from_them_and_each_piece_once() {
        let item = |member: &str| Item::new(&"check", &member.into());
        let in_order = [
            Work::Apply(1),
            Work::Apply(2),
            Work::Fill("check"),
            Work::Advance("check"),
            Work::ReadRemediation(item("b")),
            Work::ChooseActing(item("b")),
            Work::Reconsider(item("a")),
            Work::Reconsider(item("b")),
        ];
        let mut backlog = Backlog::default();
        backlog.extend(in_order.iter().rev().cloned());
        backlog.extend(in_order.iter().cloned());
        let taken: Vec<_> = std::iter::from_fn(|| backlog.pop()).collect();
        assert_eq!(taken, in_order);
        assert!(backlog.is_empty());
    }
}
