//! Lists that select Nodes by the label `kubernetes.io/hostname`: one call that reads several Nodes, as a GET reads one.
//!
//! A selector knows no names, but the kubelet gives its Node this label, which on most Nodes is the name. Invariants: an
//! object answers for the name that it has, whatever its label is; what such a list lacks may be there under another
//! label, so that a GET or a list of all tells whether it is absent (F12); and a label, which others write, selects nothing
//! but itself.

use std::collections::{BTreeMap, BTreeSet};

/// The label by which Nodes are selected.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// Most values in one selector.
const VALUES: usize = 100;
/// Bytes of one selector in a URL. Proxies before an API server take request lines of 8 KiB.
const SELECTOR_BYTES: usize = 4 * 1024;
/// Characters of a value of a label.
const VALUE: usize = 63;
/// Nodes whose label is not their name, as far as it is remembered. Of any other it is taken for the name.
const MOST_REMEMBERED: usize = 10_000;

/// How an API server answers a list that must not be older than its question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ConsistentLists {
    /// It reads all objects from etcd, also where it returns few.
    #[default]
    FromEtcd,
    /// From its cache, unless the list has a limit (1.31).
    FromCacheUnlessLimited,
    /// From its cache (1.34).
    FromCache,
}

impl ConsistentLists {
    /// By the version of the API server.
    #[must_use]
    pub fn of_version(major: &str, minor: &str) -> Self {
        // Some add a sign: `31+`.
        let number = |text: &str| -> Option<u32> {
            let end = text.find(|c: char| !c.is_ascii_digit());
            text[..end.unwrap_or(text.len())].parse().ok()
        };
        match (number(major), number(minor)) {
            (Some(1), Some(31..=33)) => Self::FromCacheUnlessLimited,
            (Some(1), Some(34..)) | (Some(2..), Some(_)) => Self::FromCache,
            _ => Self::FromEtcd,
        }
    }
}

/// What a list returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// All objects.
    All,
    /// Those with the labels that were selected.
    Named,
}

/// What a complete list says about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer<T> {
    /// The object.
    Found(T),
    /// There is none.
    Absent,
    /// The list does not tell.
    Unknown,
}

impl Extent {
    /// The answer of a complete list of this extent that has shown this object of the name.
    pub fn answer<T>(self, found: Option<T>) -> Answer<T> {
        match (found, self) {
            (Some(object), _) => Answer::Found(object),
            (None, Self::All) => Answer::Absent,
            (None, Self::Named) => Answer::Unknown,
        }
    }
}

/// By which value of the label each Node of a cluster is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeLabels {
    /// The Nodes whose label was seen and is not their name; `None`: they have none.
    other: BTreeMap<String, Option<String>>,
}

impl NodeLabels {
    /// The value that selects this Node, if one does.
    #[must_use]
    pub fn value<'a>(&'a self, node: &'a str) -> Option<&'a str> {
        let value = match self.other.get(node) {
            Some(seen) => seen.as_deref()?,
            None => node,
        };
        is_value(value).then_some(value)
    }

    /// Records the label of a Node that was read; `None`: it has none, or there is no such Node.
    pub fn seen(&mut self, node: &str, label: Option<&str>) {
        if label == Some(node) {
            self.other.remove(node);
            return;
        }
        let is_known = self.other.contains_key(node);
        if is_known || self.other.len() < MOST_REMEMBERED {
            let label = label.filter(|label| is_value(label)).map(str::to_owned);
            self.other.insert(node.to_owned(), label);
        }
    }

    /// Forgets a Node that is absent. Another may register under its name.
    pub fn forget(&mut self, node: &str) {
        self.other.remove(node);
    }

    /// Selectors that together select these Nodes, each short enough for one call. A Node that no label selects is left out.
    #[must_use]
    pub fn selectors(&self, nodes: &BTreeSet<String>) -> Vec<String> {
        let values: BTreeSet<&str> = nodes.iter().filter_map(|node| self.value(node)).collect();
        let mut selectors: Vec<Vec<&str>> = Vec::new();
        let mut bytes = 0;
        for value in values {
            // A comma takes three bytes in a URL.
            let more = value.len() + 3;
            match selectors.last_mut() {
                Some(last) if last.len() < VALUES && bytes + more <= SELECTOR_BYTES => {
                    last.push(value);
                    bytes += more;
                }
                _ => {
                    selectors.push(vec![value]);
                    bytes = HOSTNAME_LABEL.len() + "%2F+in+%28%29".len() + more;
                }
            }
        }
        let text = |values: Vec<&str>| format!("{HOSTNAME_LABEL} in ({})", values.join(","));
        selectors.into_iter().map(text).collect()
    }
}

/// Whether a label may have this value, which then is nothing but a value in a selector.
fn is_value(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= VALUE
        && text.chars().all(inside)
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
        names.map(String::from).into()
    }

    #[test]
    fn f12_node_that_a_list_by_label_lacks_may_be_there() {
        assert_eq!(Extent::Named.answer(None::<u8>), Answer::Unknown);
        assert_eq!(Extent::All.answer(None::<u8>), Answer::Absent);
        for extent in [Extent::Named, Extent::All] {
            assert_eq!(extent.answer(Some(1)), Answer::Found(1));
        }
    }

    #[test]
    fn nodes_are_selected_by_the_label_that_was_seen() {
        let mut labels = NodeLabels::default();
        let selected = |labels: &NodeLabels| labels.selectors(&names(["b", "a"]));
        assert_eq!(selected(&labels), ["kubernetes.io/hostname in (a,b)"]);
        labels.seen("a", Some("a.hall"));
        assert_eq!(selected(&labels), ["kubernetes.io/hostname in (a.hall,b)"]);
        labels.seen("b", None);
        assert_eq!(selected(&labels), ["kubernetes.io/hostname in (a.hall)"]);
        assert_eq!(labels.value("b"), None);
        labels.seen("a", Some("a"));
        labels.forget("b");
        assert_eq!(labels, NodeLabels::default());
        // Two with one label are selected once.
        labels.seen("a", Some("b"));
        assert_eq!(selected(&labels), ["kubernetes.io/hostname in (b)"]);
        assert!(labels.selectors(&BTreeSet::new()).is_empty());
    }

    #[test]
    fn f14_label_of_a_node_selects_nothing_but_itself() {
        let mut labels = NodeLabels::default();
        let long = "x".repeat(64);
        for foreign in [
            "a),b in (c",
            "a,b",
            "a b",
            "",
            "-a",
            "a.",
            "ü",
            "a\n",
            &long,
        ] {
            labels.seen("n", Some(foreign));
            assert_eq!(labels.value("n"), None, "{foreign}");
            assert_eq!(labels.value(foreign), None, "{foreign}");
        }
        labels.seen("n", Some("A_b-c.9"));
        assert_eq!(labels.value("n"), Some("A_b-c.9"));
    }

    #[test]
    fn selectors_are_bounded() {
        let labels = NodeLabels::default();
        let short: BTreeSet<String> = (0..250).map(|n| format!("n{n}")).collect();
        let counts = |nodes: &BTreeSet<String>| -> Vec<usize> {
            let selectors = labels.selectors(nodes);
            assert!(selectors.iter().all(|text| text.len() <= SELECTOR_BYTES));
            selectors
                .iter()
                .map(|text| text.split(',').count())
                .collect()
        };
        assert_eq!(counts(&short), [100, 100, 50]);
        let long: BTreeSet<String> = (0..100).map(|n| format!("{n:063}")).collect();
        assert_eq!(counts(&long), [61, 39]);

        let mut labels = NodeLabels::default();
        for n in 0..=MOST_REMEMBERED {
            labels.seen(&format!("n{n}"), Some("other"));
        }
        assert_eq!(labels.other.len(), MOST_REMEMBERED);
        labels.seen("n0", Some("another"));
        assert_eq!(labels.value("n0"), Some("another"));
    }

    #[test]
    fn lists_come_from_the_cache_of_newer_api_servers() {
        use ConsistentLists::{FromCache, FromCacheUnlessLimited, FromEtcd};
        for (major, minor, expected) in [
            ("1", "30", FromEtcd),
            ("1", "31", FromCacheUnlessLimited),
            ("1", "33+", FromCacheUnlessLimited),
            ("1", "34", FromCache),
            ("2", "0", FromCache),
            ("", "", FromEtcd),
            ("1", "x", FromEtcd),
            ("1", "99999999999", FromEtcd),
        ] {
            let got = ConsistentLists::of_version(major, minor);
            assert_eq!(got, expected, "{major}.{minor}");
        }
    }
}
