//! Work on many members, done piece by piece before any member gets its turn.
//!
//! In a large fleet one event concerns tens of thousands of members: a list, a limit that opens, a check that is
//! evaluated for the first time. The shell does one piece after the other and lets other tasks run in between. No
//! effect begins while a piece is left, so that every decision rests on all of them (F13). To note that work is due for
//! a whole fleet costs as little as for one member: a set is taken over as it is, and a visit has only a position.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use super::Item;

/// Two sets are merged if one is at least this part of the other one: one in so many.
const MERGED: usize = 8;

/// Why all members of one kind are visited, in the order of their names. The order is that of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Visit {
    /// Read the remediation of every member again.
    ReadRemediations,
    /// Choose which of several checks acts for every member.
    ChooseActing,
    /// The same for the members that several checks select.
    ChooseActingAgain,
    /// Queue every unhealthy member for which there may be something to do.
    ReconsiderUnhealthy,
    /// Queue every member for which there may be something to do.
    ReconsiderAll,
}

/// One piece of work. `K` is the key of a check, `C` a change of an object. The order is that of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work<K, C> {
    /// Apply a change.
    Apply(C),
    /// Read the next members of a check whose fleet is not whole.
    Fill(K),
    /// Evaluate the next members of a check whose facts or deadlines have changed for all of them.
    Advance(K),
    /// Visit the next members of a check, after this one.
    Visit(Visit, K, Option<Arc<str>>),
    /// Queue a member if there may be something to do for it.
    Reconsider(Item<K>),
}

/// The pieces that are left, each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backlog<K: Ord, C: Ord> {
    changes: BTreeSet<C>,
    fill: BTreeSet<K>,
    advance: BTreeSet<K>,
    /// The visits, each with the member that was visited last.
    visits: BTreeMap<(Visit, K), Option<Arc<str>>>,
    reconsider: BTreeMap<K, BTreeSet<Arc<str>>>,
}

impl<K: Ord, C: Ord> Default for Backlog<K, C> {
    fn default() -> Self {
        Self {
            changes: BTreeSet::new(),
            fill: BTreeSet::new(),
            advance: BTreeSet::new(),
            visits: BTreeMap::new(),
            reconsider: BTreeMap::new(),
        }
    }
}

// === impl Backlog ===

impl<K: Ord + Clone, C: Ord> Backlog<K, C> {
    /// Adds changes to apply.
    pub fn apply(&mut self, changes: BTreeSet<C>) {
        merge(&mut self.changes, changes);
    }

    /// Adds a check whose next members are read.
    pub fn fill(&mut self, check: K) {
        self.fill.insert(check);
    }

    /// Adds a check whose next members are evaluated.
    pub fn advance(&mut self, check: K) {
        self.advance.insert(check);
    }

    /// Begins a visit, anew if it goes on: what was visited may have changed since.
    pub fn visit(&mut self, visit: Visit, check: K) {
        self.visits.insert((visit, check), None);
    }

    /// Goes on with a visit after this member, unless it has begun anew meanwhile.
    pub fn visit_after(&mut self, visit: Visit, check: K, last: Arc<str>) {
        self.visits.entry((visit, check)).or_insert(Some(last));
    }

    /// Adds members of a check to reconsider.
    pub fn reconsider(&mut self, check: &K, members: BTreeSet<Arc<str>>) {
        match self.reconsider.get_mut(check) {
            Some(known) => merge(known, members),
            None if members.is_empty() => {}
            None => drop(self.reconsider.insert(check.clone(), members)),
        }
    }

    /// Takes the next piece: facts before what follows from them.
    pub fn pop(&mut self) -> Option<Work<K, C>> {
        if let Some(change) = self.changes.pop_first() {
            return Some(Work::Apply(change));
        }
        if let Some(check) = self.fill.pop_first() {
            return Some(Work::Fill(check));
        }
        if let Some(check) = self.advance.pop_first() {
            return Some(Work::Advance(check));
        }
        if let Some(((visit, check), last)) = self.visits.pop_first() {
            return Some(Work::Visit(visit, check, last));
        }
        let mut of_check = self.reconsider.first_entry()?;
        let member = of_check.get_mut().pop_first();
        let item = member.map(|member| Item::new(of_check.key(), &member));
        if of_check.get().is_empty() {
            of_check.remove();
        }
        item.map(Work::Reconsider)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.fill.is_empty()
            && self.advance.is_empty()
            && self.visits.is_empty()
            && self.reconsider.is_empty()
    }
}

/// Adds the members of one set to another one.
fn merge<T: Ord>(set: &mut BTreeSet<T>, mut more: BTreeSet<T>) {
    if set.len() < more.len() {
        mem::swap(set, &mut more);
    }
    // Two large sets are merged faster than the members of one are inserted one by one.
    match more.len().saturating_mul(MERGED) < set.len() {
        true => set.extend(more),
        false => set.append(&mut more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Backlog = super::Backlog<&'static str, u32>;

    fn members(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn taken(backlog: &mut Backlog) -> Vec<Work<&'static str, u32>> {
        std::iter::from_fn(|| backlog.pop()).collect()
    }

    #[test]
    fn facts_come_before_what_follows_from_them_and_each_piece_once() {
        let item = |check: &'static str, member: &str| Item::new(&check, &member.into());
        let mut backlog = Backlog::default();
        for changes in [[2, 1], [3, 1]] {
            backlog.reconsider(&"check", members(&["b", "a"]));
            backlog.reconsider(&"check", members(&["c"]));
            backlog.reconsider(&"another", members(&["z"]));
            backlog.reconsider(&"no", members(&[]));
            backlog.visit(Visit::ReconsiderUnhealthy, "check");
            backlog.visit(Visit::ChooseActing, "check");
            backlog.visit(Visit::ReadRemediations, "check");
            backlog.advance("check");
            backlog.fill("check");
            backlog.apply(changes.into());
        }
        let in_order = [
            Work::Apply(1),
            Work::Apply(2),
            Work::Apply(3),
            Work::Fill("check"),
            Work::Advance("check"),
            Work::Visit(Visit::ReadRemediations, "check", None),
            Work::Visit(Visit::ChooseActing, "check", None),
            Work::Visit(Visit::ReconsiderUnhealthy, "check", None),
            Work::Reconsider(item("another", "z")),
            Work::Reconsider(item("check", "a")),
            Work::Reconsider(item("check", "b")),
            Work::Reconsider(item("check", "c")),
        ];
        assert_eq!(taken(&mut backlog), in_order);
        assert!(backlog.is_empty());
    }

    #[test]
    fn visit_goes_on_after_the_last_member_and_begins_anew_if_something_has_changed() {
        let visit = Visit::ReadRemediations;
        let mut backlog = Backlog::default();
        backlog.visit(visit, "check");
        assert_eq!(backlog.pop(), Some(Work::Visit(visit, "check", None)));
        backlog.visit_after(visit, "check", "m".into());
        let after = Work::Visit(visit, "check", Some("m".into()));
        assert_eq!(backlog.pop(), Some(after));
        backlog.visit(visit, "check");
        backlog.visit_after(visit, "check", "n".into());
        assert_eq!(taken(&mut backlog), [Work::Visit(visit, "check", None)]);
    }

    #[test]
    fn sets_of_any_size_are_merged() {
        for (few, many) in [(1, 100), (100, 1), (50, 60)] {
            let mut backlog = Backlog::default();
            backlog.apply((0..few).map(|i| i * 2).collect());
            backlog.apply((0..many).collect());
            let all: BTreeSet<u32> = (0..few).map(|i| i * 2).chain(0..many).collect();
            let all: Vec<_> = all.into_iter().map(Work::Apply).collect();
            assert_eq!(taken(&mut backlog), all);
        }
    }
}
