//! Which changes wake a remediation, and how soon.
//!
//! Decides only; the tasks are woken in [`super::tasks`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rackhand_core::remediation::State;

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
    /// What has become of recorded states: that which matters most to others.
    records: Option<RecordChange>,
}

/// What a changed RemediationState means for remediations that have begun nothing (F6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RecordChange {
    /// Its remediation goes on, or had begun nothing, which lets nobody begin.
    None,
    /// The end of its remediation is recorded, or it is gone.
    Ended,
}

impl RecordChange {
    /// `recorded`: what is recorded now. `was_begun`: whether its remediation may have begun before it was gone.
    pub(super) fn of(recorded: &Result<Option<State>, String>, was_begun: bool) -> Self {
        match recorded {
            Ok(Some(state)) if state.step.is_terminal() => Self::Ended,
            Ok(None) if was_begun => Self::Ended,
            // What was done is not known where it cannot be read, so that nothing is known to have ended.
            Ok(_) | Err(_) => Self::None,
        }
    }
}

impl ChangeBatch {
    /// Arranges changes; `record` tells what the change of a RemediationState of this name means.
    pub(super) fn arrange(
        changes: impl IntoIterator<Item = Change>,
        record: impl Fn(&str) -> RecordChange,
    ) -> Self {
        let mut batch = Self::default();
        for change in changes {
            match change {
                Change::Object(Kind::RemediationState, key) => {
                    batch.records = batch.records.max(Some(record(&key.name)));
                }
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
        let workload = self.wakeup_for_workload(changes);
        if workload == Wakeup::Now || self.concerns_racks(&changes.racks) {
            return Wakeup::Now;
        }
        let record = match changes.records.filter(|_| !self.settled) {
            Some(RecordChange::Ended) => Wakeup::Now,
            Some(RecordChange::None) | None => Wakeup::No,
        };
        let objects = changes.objects.iter();
        let wakeups = objects.map(|(kind, changed)| self.wakeup_for(id, *kind, changed));
        wakeups.chain([workload, record]).max().unwrap_or(record)
    }

    fn wakeup_for_workload(&self, changes: &ChangeBatch) -> Wakeup {
        let Some(cluster) = &self.cluster else {
            return Wakeup::No;
        };
        let nodes = changes.nodes.get(cluster);
        let own = self.node.as_ref().zip(nodes);
        let has_changed = own.is_some_and(|(node, nodes)| nodes.contains(node));
        match (changes.workloads.contains(cluster), has_changed) {
            (true, _) => Wakeup::Now,
            // The Nodes of a rack may come back together, and their checks delete the remediations that have begun
            // nothing. One that begins reads its Node before that.
            (false, true) if !self.settled => Wakeup::Later,
            (false, true) => Wakeup::Now,
            (false, false) => Wakeup::No,
        }
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
            // What became of them is in [`ChangeBatch::records`].
            Kind::RemediationState => return Wakeup::No,
            // A policy may select any host, which matters to those that have begun nothing.
            Kind::PowerPolicy if self.settled => return Wakeup::No,
            Kind::PowerPolicy => return Wakeup::Now,
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
    use rackhand_core::remediation::Step;

    use super::*;

    fn changed<const N: usize>(objects: [(Kind, Key); N]) -> ChangeBatch {
        let changes = objects.into_iter();
        arranged(changes.map(|(kind, key)| Change::Object(kind, key)))
    }

    fn arranged(changes: impl IntoIterator<Item = Change>) -> ChangeBatch {
        ChangeBatch::arrange(changes, |_| RecordChange::Ended)
    }

    #[test]
    fn f6_only_the_end_of_another_remediation_wakes_those_that_wait_at_once() {
        let of = |step| {
            let mut state = State::new(jiff::Timestamp::UNIX_EPOCH);
            state.step = step;
            RecordChange::of(&Ok(Some(state)), true)
        };
        let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "r"));
        let wakeup = |settled, changes: &[RecordChange]| {
            let interest = WatchInterest {
                settled,
                ..WatchInterest::default()
            };
            let named = (0..changes.len())
                .map(|i| Change::Object(Kind::RemediationState, Key::new("", i.to_string())));
            let record = |name: &str| changes[name.parse::<usize>().unwrap()];
            interest.wakeup(&id, &ChangeBatch::arrange(named, record))
        };
        let (goes_on, ended) = (of(Step::PoweringOff), of(Step::Succeeded));
        let gone = RecordChange::of(&Ok(None), true);
        let unbegun = RecordChange::of(&Ok(None), false);
        assert_eq!(wakeup(false, &[goes_on, unbegun]), Wakeup::No);
        assert_eq!(wakeup(false, &[goes_on, gone]), Wakeup::Now);
        assert_eq!(wakeup(false, &[ended, goes_on]), Wakeup::Now);
        assert_eq!(wakeup(true, &[gone, ended]), Wakeup::No);
        assert_eq!(RecordChange::of(&Err("?".into()), true), goes_on);
    }

    #[test]
    fn node_of_a_remediation_that_has_begun_nothing_wakes_it_later() {
        let cluster = Key::new("ns", "c");
        let id = RemediationId::new(Kind::Metal3Remediation, Key::new("ns", "m1"));
        let mut interest = WatchInterest {
            cluster: Some(cluster.clone()),
            node: Some("n1".into()),
            rack: Some("r1".into()),
            ..WatchInterest::default()
        };
        let own = arranged([Change::Node(cluster.clone(), "n1".into())]);
        assert_eq!(interest.wakeup(&id, &own), Wakeup::Later);
        // Unless something else is urgent.
        let node = Change::Node(cluster.clone(), "n1".into());
        let both = arranged([node, Change::Workload(cluster)]);
        assert_eq!(interest.wakeup(&id, &both), Wakeup::Now);
        interest.settled = true;
        assert_eq!(interest.wakeup(&id, &own), Wakeup::Now);
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
            settled: true,
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
            let wakeup = interest.wakeup(&id, &arranged(others));
            assert_eq!(wakeup == Wakeup::Now, wakes, "{change:?}");
        }
        let unknown = WatchInterest::default();
        let batch = arranged([node("c", "n1"), Change::Workload(cluster("c"))]);
        assert_eq!(unknown.wakeup(&id, &batch), Wakeup::No);
    }

    #[test]
    fn agent_of_another_rack_wakes_only_while_no_host_is_found() {
        let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "r"));
        let mut interest = WatchInterest::default();
        let wakes = |interest: &WatchInterest, rack: &str| {
            let batch = arranged([Change::Agent(rack.into())]);
            interest.wakeup(&id, &batch) == Wakeup::Now
        };
        assert!(wakes(&interest, "r1"));
        interest.rack = Some("r2".into());
        assert!(!wakes(&interest, "r1"));
        assert!(wakes(&interest, "r2"));
    }
}
