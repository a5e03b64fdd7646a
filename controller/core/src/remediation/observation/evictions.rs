//! The pods of a Node that is still on: which of them are to leave it, and what the Eviction API answered.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::super::{BoundPod, Drain, NodeFacts, PodRef};
use super::workload_view::list;

/// Whether the scheduler is kept from a Node, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Cordon {
    /// The Node takes pods.
    #[default]
    Absent,
    /// A remediation of ours has cordoned it.
    Rackhand {
        /// UID of the remediation.
        uid: String,
    },
    /// Somebody else has cordoned it.
    Other,
}

/// What the API server answered to one eviction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EvictionResult {
    /// The pod is Terminating.
    Evicted,
    /// The pod is gone, or is another one of the same name.
    Gone,
    /// PodDisruptionBudgets forbid it now. Their names as `namespace/name`, or why they cannot be named.
    Blocked(String),
    /// A repetition would be refused as well, as without the right to evict.
    Refused(String),
    /// It is not known, or the API server is busy.
    Failed(String),
}

/// An answer, and when it was given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EvictionAnswer {
    /// The pod as it was observed.
    pub pod: PodRef,
    /// When, by our clock.
    pub at: Timestamp,
    /// What the API server answered.
    pub result: EvictionResult,
}

/// The latest answer about each pod in this step, by the UID of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Evictions {
    /// The latest answer for each pod, by its UID.
    pub answers: BTreeMap<String, EvictionAnswer>,
}

impl Evictions {
    /// The answer about this pod.
    pub(in crate::remediation) fn of(&self, pod: &BoundPod) -> Option<&EvictionAnswer> {
        self.answers.get(&pod.id.uid)
    }

    /// The pods that were evicted.
    pub(in crate::remediation) fn evicted_pods(&self) -> impl Iterator<Item = &PodRef> {
        let answers = self.answers.values();
        let evicted = answers.filter(|answer| answer.result == EvictionResult::Evicted);
        evicted.map(|answer| &answer.pod)
    }

    /// The pods whose eviction budgets forbade, each with them.
    pub(in crate::remediation) fn forbidden(&self) -> impl Iterator<Item = (&PodRef, &str)> {
        let answers = self.answers.values();
        answers.filter_map(|answer| match &answer.result {
            EvictionResult::Blocked(by) => Some((&answer.pod, by.as_str())),
            _ => None,
        })
    }

    /// How many pods were evicted.
    pub(in crate::remediation) fn evicted(&self) -> u32 {
        u32::try_from(self.evicted_pods().count()).unwrap_or(u32::MAX)
    }
}

/// Longest text of an answer that is kept.
const LONGEST: usize = 300;

impl EvictionResult {
    /// By an answer that is not a success. `causes`: reason and message of each cause. `of_pod`: the answer is about a
    /// pod, and not about a path that is not served.
    pub fn of_refusal(
        namespace: &str,
        code: u16,
        of_pod: bool,
        message: &str,
        causes: &[(String, String)],
    ) -> Self {
        let said: String = message.chars().take(LONGEST).collect();
        let has_cause = |wanted: &str| causes.iter().any(|(reason, _)| reason == wanted);
        match code {
            404 if of_pod => Self::Gone,
            409 => Self::Gone,
            429 if has_cause("DisruptionBudget") => Self::Blocked(budgets(namespace, causes)),
            // The API server does not choose among several budgets.
            500 if message.contains("more than one PodDisruptionBudget") => {
                Self::Blocked(format!("several in namespace {namespace} ({said})"))
            }
            // Whoever deletes the namespace deletes the pod.
            403 if has_cause("NamespaceTerminating") => Self::Failed(said),
            404 | 408 | 429 => Self::Failed(said),
            400..=499 => Self::Refused(said),
            _ => Self::Failed(said),
        }
    }
}

/// The names of the budgets in the causes of an answer, which are sentences: `The disruption budget web needs 2 healthy
/// pods and has 2 currently`.
fn budgets(namespace: &str, causes: &[(String, String)]) -> String {
    let named = causes.iter().filter_map(|(_, message)| {
        let rest = message.strip_prefix("The disruption budget ")?;
        let name = rest.split_whitespace().next()?;
        let name: String = name.chars().take(LONGEST).collect();
        Some(format!("{namespace}/{name}"))
    });
    let named: BTreeSet<String> = named.collect();
    match named.is_empty() {
        true => format!("one in namespace {namespace}"),
        false => named.into_iter().collect::<Vec<_>>().join(", "),
    }
}

impl BoundPod {
    /// Whether the pod is to leave a Node that is still on: every pod but those of static pods and DaemonSets, which would
    /// come again on the same Node, and those that have ended.
    pub fn is_evictable(&self) -> bool {
        !self.is_mirror && !self.is_of_daemon_set && !self.is_ended
    }
}

impl Drain {
    /// The pods that are to leave a Node that is still on, those included that are Terminating.
    pub fn evictable(&self) -> impl Iterator<Item = &BoundPod> {
        self.pods.iter().filter(|pod| pod.is_evictable())
    }

    /// Their names, for messages; empty if there are none.
    pub fn describe_evictable(&self) -> String {
        let names: Vec<String> = self.evictable().map(|pod| pod.id.to_string()).collect();
        list("pod", "pods", &names).unwrap_or_default()
    }
}

/// Checks immediately before pods are evicted that the Node, read live after they were listed, is still the one with
/// this UID and cordoned (F12).
///
/// # Errors
/// It is not; a new decision is required.
pub fn eviction_is_justified(node: Option<&NodeFacts>, uid: &str) -> Result<(), &'static str> {
    match node {
        None => Err("the node is gone"),
        Some(node) if node.uid != uid => Err("the node was replaced"),
        Some(node) if node.cordon == Cordon::Absent => Err("the node is not cordoned any more"),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(code: u16, message: &str, causes: &[(&str, &str)]) -> EvictionResult {
        let causes: Vec<_> = (causes.iter())
            .map(|(reason, message)| ((*reason).to_owned(), (*message).to_owned()))
            .collect();
        EvictionResult::of_refusal("shop", code, true, message, &causes)
    }

    #[test]
    fn budgets_that_forbid_an_eviction_are_named() {
        let says = "The disruption budget web needs 2 healthy pods and has 2 currently";
        let cannot = "Cannot evict pod as it would violate the pod's disruption budget.";
        let blocked = result(429, cannot, &[("DisruptionBudget", says)]);
        assert_eq!(blocked, EvictionResult::Blocked("shop/web".into()));
        let unnamed = result(429, cannot, &[("DisruptionBudget", "No.")]);
        assert_eq!(
            unnamed,
            EvictionResult::Blocked("one in namespace shop".into())
        );
        let several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert!(matches!(
            result(500, several, &[]),
            EvictionResult::Blocked(what) if what.contains("several in namespace shop")
        ));
    }

    #[test]
    fn a_busy_api_server_is_neither_a_budget_nor_a_refusal() {
        for (code, causes) in [
            (429, &[][..]),
            (503, &[]),
            (500, &[]),
            (403, &[("NamespaceTerminating", "it is being terminated")]),
        ] {
            let failed = result(code, "later", causes);
            assert_eq!(failed, EvictionResult::Failed("later".into()), "{code}");
        }
        assert_eq!(
            result(403, "forbidden", &[]),
            EvictionResult::Refused("forbidden".into())
        );
        assert_eq!(result(404, "gone", &[]), EvictionResult::Gone);
        assert_eq!(result(409, "another UID", &[]), EvictionResult::Gone);
        let unserved = EvictionResult::of_refusal("shop", 404, false, "no path", &[]);
        assert_eq!(unserved, EvictionResult::Failed("no path".into()));
    }

    #[test]
    fn texts_of_the_api_server_are_bounded() {
        let EvictionResult::Refused(said) = result(422, &"x".repeat(10_000), &[]) else {
            panic!("it is not refused");
        };
        assert_eq!(said.len(), LONGEST);
    }
}
