//! Which changes wake a remediation, and how soon.
//!
//! Decides only; the tasks are woken in [`super::tasks`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::store::{
    index::Change,
    object::{Key, Kind},
    remediation::RemediationId,
};

/// The objects whose changes wake a remediation.
#[derive(Default)]
pub(crate) struct WatchInterest {
    pub(crate) cluster: Option<Key>,
    pub(crate) node: Option<String>,
    pub(crate) machine: Option<Key>,
    /// The BareMetalHost of the remediation.
    pub(crate) host: Option<Key>,
    /// The rack of the host; `None` while the host is not known, which an agent of any rack may know.
    pub(crate) rack: Option<String>,
    /// The host is chosen, so that no other Machine or BareMetalHost matters. Before that, and
    /// between attempts, a link may appear, or a control plane recover, anywhere.
    pub(crate) settled: bool,
}

/// How soon a change wakes a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wakeup {
    No,
    /// Batched with other changes: in a storm the objects of all others change, and each
    /// observation reads the Node.
    Later,
    Now,
}

/// Changes that came together, arranged so that each remediation is compared with all of them at once: in an
/// outage thousands of Nodes change while thousands of remediations wait.
#[derive(Default)]
pub(super) struct ChangeBatch {
    objects: BTreeMap<Kind, BTreeSet<Key>>,
    nodes: BTreeMap<Key, BTreeSet<String>>,
    workloads: BTreeSet<Key>,
    racks: BTreeSet<String>,
}

impl FromIterator<Change> for ChangeBatch {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        let mut batch = Self::default();
        for change in changes {
            match change {
                Change::Object(kind, key) => {
                    batch.objects.entry(kind).or_default().insert(key);
                }
                Change::Node(cluster, node) => {
                    batch.nodes.entry(cluster).or_default().insert(node);
                }
                Change::Workload(cluster) => drop(batch.workloads.insert(cluster)),
                Change::Agent(rack) => drop(batch.racks.insert(rack)),
            }
        }
        batch
    }
}

impl WatchInterest {
    /// How soon these changes wake the remediation.
    pub(super) fn wakeup(&self, id: &RemediationId, changes: &ChangeBatch) -> Wakeup {
        if self.concerns_workload(changes) || self.concerns_racks(&changes.racks) {
            return Wakeup::Now;
        }
        let objects = changes.objects.iter();
        let wakeups = objects.map(|(kind, changed)| self.wakeup_for(id, *kind, changed));
        wakeups.max().unwrap_or(Wakeup::No)
    }

    fn concerns_workload(&self, changes: &ChangeBatch) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        let nodes = changes.nodes.get(cluster);
        let own = self.node.as_ref().zip(nodes);
        changes.workloads.contains(cluster) || own.is_some_and(|(node, nodes)| nodes.contains(node))
    }

    /// Whether an agent of one of these racks matters.
    fn concerns_racks(&self, racks: &BTreeSet<String>) -> bool {
        match &self.rack {
            Some(rack) => racks.contains(rack),
            None => !racks.is_empty(),
        }
    }

    fn wakeup_for(&self, id: &RemediationId, kind: Kind, changed: &BTreeSet<Key>) -> Wakeup {
        let own = match kind {
            // No decision depends on these; changes of agents are announced separately.
            Kind::MachineHealthCheck
            | Kind::OpenShiftCheck
            | Kind::NodeHealthCheck
            | Kind::RemediationTrigger
            | Kind::HostMaintenance
            | Kind::RackAgent => return Wakeup::No,
            // A policy may select any host, and another remediation may have ended: that matters to those that have
            // begun nothing (F6).
            Kind::PowerPolicy | Kind::RemediationState if self.settled => return Wakeup::No,
            Kind::PowerPolicy | Kind::RemediationState => return Wakeup::Now,
            Kind::Cluster => None,
            Kind::Machine => Some(&self.machine),
            Kind::BareMetalHost => Some(&self.host),
            // Remediations that wait for another one need to know that it has ended (F6).
            Kind::Metal3Remediation
            | Kind::PowerRemediation
            | Kind::Metal3Machine
            | Kind::OpenShiftMachine => Some(&None),
        };
        // The objects of a remediation by Node may be in any namespace.
        let is_anywhere = self.cluster.as_ref() == Some(&Key::local());
        let namespace = &id.key.namespace;
        let is_near = |key: &Key| is_anywhere || key.namespace == *namespace;
        let is_some_near = || {
            let from = changed.range(Key::new(namespace.as_str(), "")..);
            is_anywhere || from.take(1).any(is_near)
        };
        match own {
            None if is_some_near() => Wakeup::Now,
            Some(Some(own)) if is_near(own) && changed.contains(own) => Wakeup::Now,
            Some(_) if !self.settled && is_some_near() => Wakeup::Later,
            _ => Wakeup::No,
        }
    }
}

/// How long changes are batched, by the number of remediations.
pub(super) fn batch_delay(remediations: usize) -> Duration {
    let count = u32::try_from(remediations).unwrap_or(u32::MAX);
    (LATER.0 + LATER.1.saturating_mul(count)).min(LATER.2)
}

/// How long changes gather before they are compared with all remediations again, by the number of these: in an
/// outage of a large fleet the comparisons would otherwise take most of the time of a processor.
pub(super) fn comparison_pause(remediations: usize) -> Duration {
    let count = u32::try_from(remediations).unwrap_or(u32::MAX);
    let each = Duration::from_micros(20);
    each.saturating_mul(count).min(Duration::from_millis(250))
}

/// Shortest time, time added per remediation, and longest time.
const LATER: (Duration, Duration, Duration) = (
    Duration::from_millis(500),
    Duration::from_millis(10),
    Duration::from_secs(10),
);

#[cfg(test)]
mod tests {
    use super::*;

    fn changed<const N: usize>(objects: [(Kind, Key); N]) -> ChangeBatch {
        let changes = objects.into_iter();
        changes
            .map(|(kind, key)| Change::Object(kind, key))
            .collect()
    }

    #[test]
    fn batch_delay_grows_with_number_of_remediations() {
        assert_eq!(batch_delay(0), Duration::from_millis(500));
        assert_eq!(batch_delay(100), Duration::from_millis(1500));
        assert_eq!(batch_delay(usize::MAX), Duration::from_secs(10));
    }

    #[test]
    fn comparison_of_few_remediations_is_not_delayed() {
        assert!(comparison_pause(50) <= Duration::from_millis(1));
        assert_eq!(comparison_pause(usize::MAX), Duration::from_millis(250));
    }

    #[test]
    fn remediation_with_chosen_host_wakes_for_its_own_objects_only() {
        let key = |name: &str| Key::new("ns", name);
        let id = RemediationId::new(Kind::Metal3Remediation, key("m1"));
        let mut interest = WatchInterest {
            machine: Some(key("m1")),
            host: Some(key("h1")),
            ..WatchInterest::default()
        };
        let wakeups = |interest: &WatchInterest| {
            [
                (Kind::Machine, "m1"),
                (Kind::BareMetalHost, "h1"),
                (Kind::Cluster, "c"),
                (Kind::Machine, "m2"),
                (Kind::BareMetalHost, "h2"),
                (Kind::Metal3Machine, "m1"),
                (Kind::PowerRemediation, "r2"),
                (Kind::MachineHealthCheck, "check"),
            ]
            .map(|(kind, name)| interest.wakeup(&id, &changed([(kind, key(name))])))
        };
        let (no, now, later) = (Wakeup::No, Wakeup::Now, Wakeup::Later);
        // A link to the Machine may appear in any object.
        assert_eq!(
            wakeups(&interest),
            [now, now, now, later, later, later, later, no]
        );
        interest.settled = true;
        assert_eq!(wakeups(&interest), [now, now, now, no, no, no, no, no]);
        let elsewhere = || Key::new("other", "c");
        let far = changed([(Kind::Cluster, elsewhere())]);
        assert_eq!(interest.wakeup(&id, &far), no);
        // The most urgent change of a batch counts, wherever it stands in it.
        let batch = changed([
            (Kind::Cluster, elsewhere()),
            (Kind::Machine, key("a")),
            (Kind::Machine, key("m1")),
            (Kind::Machine, Key::new("z", "m")),
        ]);
        assert_eq!(interest.wakeup(&id, &batch), now);
        // The objects of a Node of the management cluster may be anywhere.
        interest.cluster = Some(Key::local());
        assert_eq!(interest.wakeup(&id, &far), now);
    }

    #[test]
    fn only_the_own_node_and_cluster_wake() {
        let cluster = |name: &str| Key::new("ns", name);
        let id = RemediationId::new(Kind::Metal3Remediation, cluster("m1"));
        let interest = WatchInterest {
            cluster: Some(cluster("c")),
            node: Some("n1".into()),
            rack: Some("r1".into()),
            ..WatchInterest::default()
        };
        let node = |of: &str, name: &str| Change::Node(cluster(of), name.into());
        for (change, wakes) in [
            (node("c", "n1"), true),
            (node("c", "n2"), false),
            (node("d", "n1"), false),
            (Change::Workload(cluster("c")), true),
            (Change::Workload(cluster("d")), false),
        ] {
            let others = [node("b", "n1"), node("c", "n0"), change.clone()];
            let wakeup = interest.wakeup(&id, &others.into_iter().collect());
            assert_eq!(wakeup == Wakeup::Now, wakes, "{change:?}");
        }
        let unknown = WatchInterest::default();
        let batch = ChangeBatch::from_iter([node("c", "n1"), Change::Workload(cluster("c"))]);
        assert_eq!(unknown.wakeup(&id, &batch), Wakeup::No);
    }

    #[test]
    fn agent_of_another_rack_wakes_only_while_no_host_is_found() {
        let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "r"));
        let mut interest = WatchInterest::default();
        let wakes = |interest: &WatchInterest, rack: &str| {
            let batch = ChangeBatch::from_iter([Change::Agent(rack.into())]);
            interest.wakeup(&id, &batch) == Wakeup::Now
        };
        assert!(wakes(&interest, "r1"));
        interest.rack = Some("r2".into());
        assert!(!wakes(&interest, "r1"));
        assert!(wakes(&interest, "r2"));
    }
}
