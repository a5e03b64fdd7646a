//! Lists that several remediations share: whom a list answers, when the next one begins, and whether the pods of one
//! Node or of all are listed (F4, F12).
//!
//! Invariant: a list answers only what was asked before it began. One that began earlier may lack a pod that was bound
//! since, and so proves nothing about the time of the question.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

/// What a call costs beside the objects that it returns, as a number of objects.
const CALL: usize = 50;
/// Objects in one response: the page of every list that is shared.
pub const PAGE: u16 = 500;
/// Most pods in a list that is shared. The pages of one list follow each other, so that those who wait for a longer one
/// would wait for seconds, while the API server answers several lists of one Node at the same time.
pub const MOST_SHARED: usize = 30_000;
/// Pods of a Node before any were counted, as on an average Node.
const USUAL_PODS: usize = 30;
/// How long after its last question a Node counts as asked about. Longer than the pause between two questions of one
/// drain.
const ASKED_FOR: Duration = Duration::from_secs(3);
/// Least time between the beginnings of two lists of all pods.
pub const GAP_OF_ALL: Duration = Duration::from_millis(500);
/// Most time between them that a slow list leads to.
const LONGEST_GAP: Duration = Duration::from_secs(2);
/// How long no list is shared after one has failed, which may fail again.
const FAILED_FOR: Duration = Duration::from_secs(60);

/// The questions that wait for the next list of a kind in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SharedList {
    /// The Nodes that are asked about.
    waiting: BTreeSet<String>,
    /// When the last list began.
    began: Option<Timestamp>,
    /// How long the last complete list took.
    took: Duration,
}

impl SharedList {
    /// Asks about a Node. The next list that begins has the answer.
    pub fn ask(&mut self, node: &str) {
        self.waiting.insert(node.to_owned());
    }

    /// How long the next list waits, so that the API server has at least as much time between two lists as for one,
    /// and more questions are answered by it.
    #[must_use]
    pub fn pause(&self, least: Duration, now: Timestamp) -> Duration {
        let gap = self.took.saturating_mul(2).min(LONGEST_GAP).max(least);
        let Some(began) = self.began else {
            return Duration::ZERO;
        };
        // A time ahead was taken before the clock was set back.
        let since = Duration::try_from(now.duration_since(began)).unwrap_or(gap);
        gap.saturating_sub(since)
    }

    /// Begins a list, and returns the Nodes about which it answers.
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

/// Which list answers a question about the pods of a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PodList {
    /// A list of the pods of this Node, of its own.
    OfNode,
    /// The next list of the pods of all Nodes, shared by all that ask.
    OfAll,
}

/// What is known of the pods of one cluster and of the questions about them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodLists {
    /// The Nodes that were asked about lately, and when.
    asked: BTreeMap<String, Timestamp>,
    /// Pods of the Node that was listed last.
    of_node: Option<usize>,
    /// Pods of the cluster in the last list of all.
    of_all: Option<usize>,
    /// When a list of all failed last.
    failed: Option<Timestamp>,
}

impl PodLists {
    /// Which list answers a question about this Node of a cluster with so many Nodes: whichever costs the API server
    /// less, if each Node that was asked about lately is asked about again.
    pub fn choose(&mut self, node: &str, nodes: usize, now: Timestamp) -> PodList {
        let is_recent = |at: Timestamp, within: Duration| {
            let age = Duration::try_from(now.duration_since(at));
            age.is_ok_and(|age| age < within)
        };
        self.asked.retain(|_, at| is_recent(*at, ASKED_FOR));
        self.asked.insert(node.to_owned(), now);
        let has_failed = self.failed.is_some_and(|at| is_recent(at, FAILED_FOR));
        let of_node = self.of_node.unwrap_or(USUAL_PODS);
        // A cluster whose Nodes are not counted may be of any size.
        let estimated = (nodes > 0).then(|| nodes.saturating_mul(of_node));
        let Some(all) = self.of_all.or(estimated) else {
            return PodList::OfNode;
        };
        let pages = all.div_ceil(usize::from(PAGE)).max(1);
        let shared = all.saturating_add(pages.saturating_mul(CALL));
        let asked = self.asked.len();
        let single = asked.saturating_mul(CALL.saturating_add(of_node));
        let is_worth = asked > 1 && shared < single && all <= MOST_SHARED;
        match is_worth && !has_failed {
            true => PodList::OfAll,
            false => PodList::OfNode,
        }
    }

    /// Records how many pods a Node has.
    pub fn listed_node(&mut self, pods: usize) {
        self.of_node = Some(pods);
    }

    /// Records how many pods the cluster has.
    pub fn listed_all(&mut self, pods: usize) {
        self.of_all = Some(pods);
    }

    /// Records that a list of all failed. What it would have answered is asked anew, Node by Node, for a minute (L1).
    pub fn failed(&mut self, now: Timestamp) {
        self.failed = Some(now);
        self.of_all = None;
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
        let mut list = SharedList::default();
        assert_eq!(list.pause(ms(500), at(0)), NO_GAP, "the first");
        list.begin(at(0));
        assert_eq!(list.pause(NO_GAP, at(0)), NO_GAP);
        assert_eq!(list.pause(ms(500), at(200)), ms(300));
        list.complete(at(400));
        assert_eq!(list.pause(ms(500), at(400)), ms(400));
        assert_eq!(list.pause(NO_GAP, at(900)), NO_GAP);
        assert_eq!(list.pause(ms(500), at(-50)), NO_GAP, "the clock was set");
        list.begin(at(1000));
        list.complete(at(9000));
        assert_eq!(list.pause(NO_GAP, at(1000)), LONGEST_GAP);
    }

    /// What is chosen for the last of so many Nodes that are asked about at once.
    fn chosen(lists: &mut PodLists, asked: usize, nodes: usize) -> PodList {
        let all = (0..asked).map(|n| lists.choose(&format!("n{n}"), nodes, at(0)));
        all.last().unwrap_or(PodList::OfNode)
    }

    #[test]
    fn one_host_of_a_large_cluster_lists_the_pods_of_its_node() {
        for (asked, nodes, expected) in [
            (1, 1, PodList::OfNode),
            (1, 1000, PodList::OfNode),
            (10, 1000, PodList::OfNode),
            (400, 1000, PodList::OfNode),
            (420, 1000, PodList::OfAll),
            (1000, 1000, PodList::OfAll),
            (2, 3, PodList::OfAll),
            // It would be too long.
            (5000, 5000, PodList::OfNode),
            // The cluster was not counted.
            (1000, 0, PodList::OfNode),
        ] {
            let got = chosen(&mut PodLists::default(), asked, nodes);
            assert_eq!(got, expected, "{asked} of {nodes}");
        }
    }

    #[test]
    fn choice_rests_on_the_pods_that_were_counted() {
        let mut lists = PodLists::default();
        lists.listed_node(2);
        // Of Nodes with few pods a call costs more than what it returns.
        assert_eq!(chosen(&mut lists, 50, 1000), PodList::OfAll);
        lists.listed_all(20_000);
        assert_eq!(chosen(&mut lists, 50, 1000), PodList::OfNode);
    }

    #[test]
    fn nodes_that_were_asked_about_before_count_no_more() {
        let mut lists = PodLists::default();
        assert_eq!(chosen(&mut lists, 100, 100), PodList::OfAll);
        assert_eq!(lists.choose("n0", 100, at(3001)), PodList::OfNode);
        assert_eq!(lists.asked.len(), 1, "they are forgotten");
    }

    #[test]
    fn l1_a_list_of_all_that_fails_is_not_waited_for_again() {
        let mut lists = PodLists::default();
        assert_eq!(chosen(&mut lists, 100, 100), PodList::OfAll);
        lists.failed(at(0));
        assert_eq!(chosen(&mut lists, 100, 100), PodList::OfNode);
        for n in 0..100 {
            lists.choose(&format!("n{n}"), 100, at(60_000));
        }
        assert_eq!(lists.choose("n0", 100, at(60_000)), PodList::OfAll);
    }
}
