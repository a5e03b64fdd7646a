//! Lists that several callers share: whom a list answers, when the next one begins, and what it says (F4, F12).
//!
//! Invariants: a list answers only what was asked before it began. One that began earlier may lack a pod that was bound
//! since, and so proves nothing about the time of the question. And it answers only when its last page is there: what an
//! incomplete list does not show may be on a later page.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

/// The time between the beginnings of two lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gap {
    /// The least, so that more questions are answered by one list.
    pub least: Duration,
    /// The most that a slow list leads to.
    pub longest: Duration,
}

impl Gap {
    /// A list begins when the one before it has ended.
    pub const NONE: Self = Self {
        least: Duration::ZERO,
        longest: Duration::ZERO,
    };
    /// Only what a slow list leads to.
    pub const OF_SLOW: Self = Self {
        least: Duration::ZERO,
        longest: Duration::from_secs(2),
    };
}

/// The questions that wait for the next list of a kind in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SharedList {
    /// The names that are asked about.
    waiting: BTreeSet<String>,
    /// When the last list began.
    began: Option<Timestamp>,
    /// How long the last complete list took.
    took: Duration,
}

impl SharedList {
    /// Asks about an object, or a Node, of this name. The next list that begins has the answer.
    pub fn ask(&mut self, name: &str) {
        self.waiting.insert(name.to_owned());
    }

    /// How long the next list waits, so that the API server has at least as much time between two lists as for one,
    /// and more questions are answered by it.
    #[must_use]
    pub fn pause(&self, gap: Gap, now: Timestamp) -> Duration {
        let wait = self.took.saturating_mul(2).min(gap.longest).max(gap.least);
        let Some(began) = self.began else {
            return Duration::ZERO;
        };
        // A time ahead was taken before the clock was set back.
        let since = Duration::try_from(now.duration_since(began)).unwrap_or(wait);
        wait.saturating_sub(since)
    }

    /// Begins a list, and returns the names about which it answers.
    pub fn begin(&mut self, now: Timestamp) -> BTreeSet<String> {
        self.began = Some(now);
        std::mem::take(&mut self.waiting)
    }

    /// Records that the list which began last is complete.
    pub fn complete(&mut self, now: Timestamp) {
        let began = self.began.unwrap_or(now);
        self.took = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    }
}

/// What the pages of one list have shown of the names that it answers about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answers<T> {
    found: BTreeMap<String, T>,
    is_complete: bool,
}

impl<T: Default> Answers<T> {
    /// Of a list that answers about these names, before its first page.
    pub fn about(names: BTreeSet<String>) -> Self {
        let nothing = names.into_iter().map(|name| (name, T::default()));
        Self {
            found: nothing.collect(),
            is_complete: false,
        }
    }

    /// What was found of this name so far. `None`: nobody asks about it, so that nothing of it is kept.
    pub fn of(&mut self, name: &str) -> Option<&mut T> {
        self.found.get_mut(name)
    }

    /// Records the end of a page. `next`: its `continue` token, which the last page does not have.
    pub fn page(&mut self, next: Option<&str>) {
        self.is_complete = next.is_none_or(str::is_empty);
    }

    /// The answers, each of them the default where the list shows nothing of the name. `None`: pages are missing, so that
    /// nothing is known.
    #[must_use]
    pub fn complete(self) -> Option<BTreeMap<String, T>> {
        self.is_complete.then_some(self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_GAP: Duration = Duration::ZERO;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millis).unwrap()
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn f12_list_answers_only_what_was_asked_before_it_began() {
        let mut list = SharedList::default();
        list.ask("a");
        list.ask("b");
        list.ask("a");
        assert_eq!(list.begin(at(0)), ["a", "b"].map(String::from).into());
        list.ask("c");
        list.complete(at(10));
        assert_eq!(list.begin(at(20)), ["c".to_owned()].into());
        assert!(list.begin(at(30)).is_empty());
    }

    #[test]
    fn lists_leave_as_much_time_between_them_as_they_take() {
        let half = Gap {
            least: ms(500),
            longest: ms(1000),
        };
        let mut list = SharedList::default();
        assert_eq!(list.pause(half, at(0)), NO_GAP, "the first");
        list.begin(at(0));
        assert_eq!(list.pause(Gap::OF_SLOW, at(0)), NO_GAP);
        assert_eq!(list.pause(half, at(200)), ms(300));
        list.complete(at(400));
        assert_eq!(list.pause(half, at(400)), ms(400));
        assert_eq!(list.pause(Gap::OF_SLOW, at(900)), NO_GAP);
        assert_eq!(list.pause(half, at(-50)), NO_GAP, "the clock was set");
        list.begin(at(1000));
        list.complete(at(9000));
        assert_eq!(list.pause(Gap::OF_SLOW, at(1000)), ms(2000));
        assert_eq!(
            list.pause(half, at(1000)),
            ms(1000),
            "a fence is not slowed"
        );
        assert_eq!(list.pause(Gap::NONE, at(1000)), NO_GAP);
    }

    #[test]
    fn f12_incomplete_list_says_nothing_about_what_it_lacks() {
        let asked: BTreeSet<String> = ["a", "b"].map(String::from).into();
        let mut answers = Answers::<Option<u8>>::about(asked);
        assert_eq!(answers.clone().complete(), None, "no page");
        if let Some(of) = answers.of("a") {
            *of = Some(1);
        }
        assert!(answers.of("c").is_none(), "nobody asks about it");
        answers.page(Some("next"));
        assert_eq!(answers.clone().complete(), None, "the first of two pages");
        for last in [None, Some("")] {
            let mut answers = answers.clone();
            answers.page(last);
            let expected = [("a".to_owned(), Some(1)), ("b".to_owned(), None)];
            assert_eq!(answers.complete(), Some(expected.into()));
        }
    }
}
