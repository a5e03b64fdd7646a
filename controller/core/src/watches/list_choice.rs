//! Whether what is asked of several Nodes of one cluster is read Node by Node or by a list, whichever costs its API server
//! less.
//!
//! A list costs by its objects, their bytes and its pages; a read of its own costs a call. A list that selects the Nodes that
//! are asked for, from the cache of a newer API server, is cheaper than two calls. Where there is none, many callers are
//! needed before a list of all, of large objects, is cheaper, and a list above a bound is never shared.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use crate::watches::{
    named_list::{ConsistentLists, Extent},
    shared_list::Gap,
};

/// What a call costs the API server beside the objects that it returns, in bytes of objects that it could encode
/// meanwhile.
const CALL: usize = 200 * 1024;
/// Most objects in one response.
pub const PAGE: usize = 500;
/// Least objects in one response.
const SHORTEST_PAGE: usize = 50;
/// Bytes in one response, as far as the number of objects allows. It is in memory twice for a moment.
const PAGE_BYTES: usize = 1024 * 1024;
/// Least bytes that an object counts for.
const LEAST_OBJECT: usize = 512;
/// How long no list is shared after one has failed, which may fail again.
const FAILED_FOR: Duration = Duration::from_secs(60);

/// What is read of the Nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The pods that are bound to each.
    Pods,
    /// They themselves.
    Nodes,
    /// The Lease of each.
    Leases,
}

impl Subject {
    /// Objects of one Node before any were counted, as on an average Node.
    fn usual(self) -> usize {
        match self {
            Self::Pods => 30,
            Self::Nodes | Self::Leases => 1,
        }
    }

    /// Bytes of one object before any were read.
    fn usual_bytes(self) -> usize {
        match self {
            Self::Pods => 4 * 1024,
            Self::Nodes => 20 * 1024,
            Self::Leases => 700,
        }
    }

    /// Most bytes in a list that is shared. The pages of one list follow each other, so that those who wait for a longer
    /// one would wait for seconds, while the API server answers several reads of one Node at the same time.
    fn most_bytes(self) -> usize {
        match self {
            Self::Pods => 30_000 * Self::Pods.usual_bytes(),
            Self::Nodes | Self::Leases => 32 * 1024 * 1024,
        }
    }

    /// How long after its last question a Node counts as asked about: that of pods for longer than the pause between two
    /// questions of one drain, the others as long as the next list waits.
    fn asked_for(self) -> Duration {
        match self {
            Self::Pods => Duration::from_secs(3),
            Self::Nodes | Self::Leases => self.gap().least,
        }
    }

    /// The time between the beginnings of two lists of all. It is what a question waits for at most, beside the list that
    /// runs and its own.
    #[must_use]
    pub fn gap(self) -> Gap {
        Gap {
            least: Duration::from_millis(500),
            longest: match self {
                Self::Pods => Gap::OF_SLOW.longest,
                Self::Nodes | Self::Leases => Duration::from_secs(1),
            },
        }
    }
}

/// What answers a question about a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A read of its own.
    OfNode,
    /// The next list, shared by all that ask.
    Shared,
}

/// How many objects a read has returned, and their bytes as encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Size {
    /// Objects.
    pub objects: usize,
    /// Bytes of the responses.
    pub bytes: usize,
}

impl Size {
    /// The mean of its objects, if it has any.
    fn object(self) -> Option<usize> {
        self.bytes.checked_div(self.objects)
    }
}

/// What is known of the objects of one subject in one cluster, and of the questions about them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListChoice {
    subject: Subject,
    /// The Nodes that were asked about lately, and when.
    asked: BTreeMap<String, Timestamp>,
    /// Objects of the Node that was read last.
    of_node: Option<usize>,
    /// Objects in the last list of all.
    of_all: Option<usize>,
    /// Bytes of an object.
    object: usize,
    /// When a list failed last.
    failed: Option<Timestamp>,
    /// How the API server answers lists.
    lists: ConsistentLists,
}

impl ListChoice {
    /// Before anything was read.
    #[must_use]
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            asked: BTreeMap::new(),
            of_node: None,
            of_all: None,
            object: subject.usual_bytes(),
            failed: None,
            lists: ConsistentLists::default(),
        }
    }

    /// Records how the API server answers lists.
    pub fn served(&mut self, lists: ConsistentLists) {
        self.lists = lists;
    }

    /// What answers a question about this Node of a cluster with so many Nodes: whichever costs the API server less, if
    /// each Node that was asked about lately is asked about again. One that asks alone is never answered by a list.
    pub fn choose(&mut self, node: &str, nodes: usize, now: Timestamp) -> Source {
        let is_recent = |at: Timestamp, within: Duration| {
            let age = Duration::try_from(now.duration_since(at));
            age.is_ok_and(|age| age < within)
        };
        let asked_for = self.subject.asked_for();
        self.asked.retain(|_, at| is_recent(*at, asked_for));
        self.asked.insert(node.to_owned(), now);
        let has_failed = self.failed.is_some_and(|at| is_recent(at, FAILED_FOR));
        let of_node = self.of_node.unwrap_or_else(|| self.subject.usual());
        if self.extent(nodes) == Extent::Named {
            return match self.asked.len() > 1 && !has_failed {
                true => Source::Shared,
                false => Source::OfNode,
            };
        }
        // A cluster whose Nodes are not counted may be of any size.
        let estimated = (nodes > 0).then(|| nodes.saturating_mul(of_node));
        let Some(all) = self.of_all.or(estimated) else {
            return Source::OfNode;
        };
        let bytes = all.saturating_mul(self.object);
        let shared = self.cost(all);
        let asked = self.asked.len();
        let single = CALL.saturating_add(of_node.saturating_mul(self.object));
        let single = asked.saturating_mul(single);
        let is_worth = asked > 1 && shared < single && bytes <= self.subject.most_bytes();
        match is_worth && !has_failed {
            true => Source::Shared,
            false => Source::OfNode,
        }
    }

    /// What the next list of a cluster with so many Nodes returns. One that selects Nodes is made only where the API server
    /// answers it from its cache; it would read all Nodes from etcd otherwise.
    #[must_use]
    pub fn extent(&self, nodes: usize) -> Extent {
        let is_cached = match self.lists {
            ConsistentLists::FromEtcd => false,
            ConsistentLists::FromCacheUnlessLimited => self.limit(nodes).is_none(),
            ConsistentLists::FromCache => true,
        };
        match self.subject == Subject::Nodes && is_cached {
            true => Extent::Named,
            false => Extent::All,
        }
    }

    /// The limit of a list that selects Nodes, in objects: it has one only where all Nodes could be too long for one
    /// response, because anybody who may label Nodes can give them all one label.
    #[must_use]
    pub fn limit(&self, nodes: usize) -> Option<usize> {
        let is_short = nodes > 0 && nodes.saturating_mul(self.object) <= self.subject.most_bytes();
        (!is_short).then(|| self.page())
    }

    /// What a list of so many objects costs, in bytes.
    fn cost(&self, objects: usize) -> usize {
        let pages = objects.div_ceil(self.page()).max(1);
        let bytes = objects.saturating_mul(self.object);
        bytes.saturating_add(pages.saturating_mul(CALL))
    }

    /// Objects in one response to a list of all.
    #[must_use]
    pub fn page(&self) -> usize {
        match self.subject {
            Subject::Pods => PAGE,
            Subject::Nodes | Subject::Leases => {
                (PAGE_BYTES / self.object.max(1)).clamp(SHORTEST_PAGE, PAGE)
            }
        }
    }

    /// At how many objects a list of all is given up. It is more than what is chosen, because a cluster may have grown.
    #[must_use]
    pub fn most(&self) -> usize {
        (self.subject.most_bytes() / self.object.max(1)).saturating_mul(2)
    }

    /// Records what a read of one Node has returned.
    pub fn read_node(&mut self, size: Size) {
        match self.subject {
            Subject::Pods => self.of_node = Some(size.objects),
            Subject::Nodes | Subject::Leases if self.of_all.is_none() => self.measured(size),
            // The mean of all says more than one.
            Subject::Nodes | Subject::Leases => {}
        }
    }

    /// Records what a list of all has returned in this time, and returns how long one call would have taken: the part of
    /// it that a read of one Node costs.
    pub fn listed_all(&mut self, size: Size, took: Duration) -> Duration {
        self.of_all = Some(size.objects);
        if self.subject != Subject::Pods {
            self.measured(size);
        }
        self.of_one_call(self.cost(size.objects), took)
    }

    /// The same of so many lists that have selected Nodes.
    pub fn listed_named(&mut self, lists: usize, size: Size, took: Duration) -> Duration {
        if self.of_all.is_none() {
            self.measured(size);
        }
        let calls = lists.saturating_mul(CALL);
        self.of_one_call(calls.saturating_add(size.bytes), took)
    }

    fn of_one_call(&self, cost: usize, took: Duration) -> Duration {
        let single = CALL.saturating_add(self.object);
        let calls = (cost / single).max(1);
        took / u32::try_from(calls).unwrap_or(u32::MAX)
    }

    fn measured(&mut self, size: Size) {
        if let Some(object) = size.object() {
            self.object = object.max(LEAST_OBJECT);
        }
    }

    /// Records that a list failed. What it would have answered is asked anew, Node by Node, for a minute (L1).
    pub fn failed(&mut self, now: Timestamp) {
        self.failed = Some(now);
        self.of_all = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000 + millis).unwrap()
    }

    fn size(objects: usize, object: usize) -> Size {
        Size {
            objects,
            bytes: objects * object,
        }
    }

    /// What is chosen for the last of so many Nodes that are asked about at once.
    fn chosen(lists: &mut ListChoice, asked: usize, nodes: usize) -> Source {
        let all = (0..asked).map(|n| lists.choose(&format!("n{n}"), nodes, at(0)));
        all.last().unwrap_or(Source::OfNode)
    }

    /// How many Nodes of so many must be asked about at once before a list of all is cheaper.
    fn needed(choice: &ListChoice, nodes: usize) -> Option<usize> {
        let mut choice = choice.clone();
        let is_shared =
            |asked: &usize| choice.choose(&format!("n{asked}"), nodes, at(0)) == Source::Shared;
        (1..=nodes).find(is_shared)
    }

    #[test]
    fn one_host_of_a_large_cluster_lists_the_pods_of_its_node() {
        for (asked, nodes, expected) in [
            (1, 1, Source::OfNode),
            (1, 1000, Source::OfNode),
            (10, 1000, Source::OfNode),
            (400, 1000, Source::OfNode),
            (420, 1000, Source::Shared),
            (1000, 1000, Source::Shared),
            (2, 3, Source::Shared),
            // It would be too long.
            (5000, 5000, Source::OfNode),
            // The cluster was not counted.
            (1000, 0, Source::OfNode),
        ] {
            let got = chosen(&mut ListChoice::new(Subject::Pods), asked, nodes);
            assert_eq!(got, expected, "{asked} of {nodes}");
        }
    }

    #[test]
    fn nodes_are_listed_for_many_callers_and_leases_for_few() {
        let mut nodes = ListChoice::new(Subject::Nodes);
        assert_eq!(
            needed(&nodes, 100),
            Some(11),
            "of 20 KiB before any was read"
        );
        nodes.read_node(size(1, 12 * 1024));
        let leases = ListChoice::new(Subject::Leases);
        for (of, by_nodes, by_leases) in [
            (1, None, None),
            (10, Some(2), Some(2)),
            (100, Some(8), Some(2)),
            (1000, Some(68), Some(6)),
            // No list of Nodes is so long.
            (5000, None, Some(27)),
        ] {
            assert_eq!(needed(&nodes, of), by_nodes, "Nodes of {of}");
            assert_eq!(needed(&leases, of), by_leases, "Leases of {of}");
        }
        let mut large = ListChoice::new(Subject::Nodes);
        large.read_node(size(1, 50 * 1024));
        assert_eq!(chosen(&mut large, 3, 5000), Source::OfNode);
        assert_eq!(chosen(&mut large, 5000, 5000), Source::OfNode);
    }

    #[test]
    fn two_who_ask_at_once_share_a_list_that_selects_their_nodes() {
        let served = |lists, subject| {
            let mut choice = ListChoice::new(subject);
            choice.served(lists);
            choice
        };
        let (cache, limited) = (
            ConsistentLists::FromCache,
            ConsistentLists::FromCacheUnlessLimited,
        );
        for (lists, nodes, expected) in [
            (cache, 1000, Some(2)),
            (cache, 5000, Some(2)),
            (limited, 1000, Some(2)),
            // It would need a limit, with which it is read from etcd.
            (limited, 5000, None),
            // A list of all, as before.
            (ConsistentLists::FromEtcd, 100, Some(11)),
        ] {
            let choice = served(lists, Subject::Nodes);
            assert_eq!(needed(&choice, nodes), expected, "{lists:?}, {nodes}");
        }
        let mut choice = served(cache, Subject::Nodes);
        assert_eq!(choice.extent(1000), Extent::Named);
        assert_eq!(chosen(&mut choice.clone(), 2, 0), Source::Shared);
        assert_eq!((choice.limit(1000), choice.limit(5000)), (None, Some(51)));
        assert_eq!(choice.limit(0), Some(51), "they are not counted");
        assert_eq!(chosen(&mut choice, 9, 100), Source::Shared);
        choice.failed(at(0));
        assert_eq!(chosen(&mut choice, 9, 100), Source::OfNode);
        // No label selects pods or Leases by their Node.
        for subject in [Subject::Pods, Subject::Leases] {
            assert_eq!(served(cache, subject).extent(10), Extent::All);
        }
        let took = Duration::from_millis(80);
        assert_eq!(choice.listed_named(1, Size::default(), took), took);
        // 19 Nodes of 12 KiB cost as much as another call.
        assert_eq!(choice.listed_named(1, size(19, 12 * 1024), took), took / 2);
    }

    #[test]
    fn pages_are_bounded_by_bytes() {
        let mut nodes = ListChoice::new(Subject::Nodes);
        for (object, page) in [(100, 500), (8 * 1024, 128), (50 * 1024, 50)] {
            nodes.read_node(size(1, object));
            assert_eq!(nodes.page(), page, "{object}");
        }
        assert_eq!(ListChoice::new(Subject::Pods).page(), PAGE);
        assert_eq!(ListChoice::new(Subject::Pods).most(), 60_000);
        nodes.read_node(size(1, 1024 * 1024));
        assert_eq!(nodes.most(), 64, "a list that has grown ends");
    }

    #[test]
    fn choice_rests_on_what_was_counted() {
        let mut pods = ListChoice::new(Subject::Pods);
        pods.read_node(size(2, 4096));
        // Of Nodes with few pods a call costs more than what it returns.
        assert_eq!(chosen(&mut pods, 50, 1000), Source::Shared);
        pods.listed_all(size(20_000, 4096), Duration::ZERO);
        assert_eq!(chosen(&mut pods, 50, 1000), Source::OfNode);

        let mut nodes = ListChoice::new(Subject::Nodes);
        nodes.listed_all(size(100, 4096), Duration::ZERO);
        assert_eq!(needed(&nodes, 100), Some(3));
        nodes.read_node(size(1, 50 * 1024));
        assert_eq!(needed(&nodes, 100), Some(3), "one Node is not all of them");
        nodes.read_node(Size::default());
        assert_eq!(needed(&nodes, 100), Some(3), "no Node says nothing");
    }

    #[test]
    fn list_counts_as_quick_as_the_calls_that_it_replaces() {
        let mut nodes = ListChoice::new(Subject::Nodes);
        let took = Duration::from_millis(100);
        assert_eq!(nodes.listed_all(Size::default(), took), took);
        // Two pages of 100 Nodes cost seven calls.
        let call = nodes.listed_all(size(100, 12 * 1024), took);
        assert_eq!(call, took / 7);
    }

    #[test]
    fn nodes_that_were_asked_about_before_count_no_more() {
        for (subject, millis) in [(Subject::Pods, 3001), (Subject::Nodes, 501)] {
            let mut lists = ListChoice::new(subject);
            assert_eq!(chosen(&mut lists, 100, 100), Source::Shared);
            assert_eq!(lists.choose("n0", 100, at(millis)), Source::OfNode);
            assert_eq!(lists.asked.len(), 1, "they are forgotten");
        }
    }

    #[test]
    fn l1_a_list_of_all_that_fails_is_not_waited_for_again() {
        let mut lists = ListChoice::new(Subject::Leases);
        assert_eq!(chosen(&mut lists, 100, 100), Source::Shared);
        lists.failed(at(0));
        assert_eq!(chosen(&mut lists, 100, 100), Source::OfNode);
        for n in 0..100 {
            lists.choose(&format!("n{n}"), 100, at(60_000));
        }
        assert_eq!(lists.choose("n0", 100, at(60_000)), Source::Shared);
    }
}
