//! Facts about OpenShift: its own health checks, a running upgrade, and the topology of its control plane.
//!
//! `rackhand_core::checks::nodes` decides by these facts. Outside OpenShift there are none.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use rackhand_api::names::{groups, kinds};
use rackhand_core::checks::nodes::{
    Disabled, MachineCheck, MachineChecks, MhcConflict, mhc_conflict, unknown_topology, unsupported,
};
use serde_json::Value;

use crate::store::{
    object::{Key, Kind},
    watch::no_longer_served,
};

/// A kind with facts about the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    MachineChecks,
    Version,
    Infrastructure,
}

/// The known facts about OpenShift.
#[derive(Debug, Default)]
pub(crate) struct OpenShift {
    objects: BTreeMap<(Fact, Key), DynamicObject>,
    /// Facts whose objects are current.
    known: BTreeSet<Fact>,
    /// Facts that cannot be watched now, with the cause. Their objects are stale.
    lost: BTreeMap<Fact, String>,
}

// === impl Fact ===

impl Fact {
    pub(crate) const ALL: [Self; 3] = [Self::MachineChecks, Self::Version, Self::Infrastructure];

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::MachineChecks => groups::OPENSHIFT_MACHINE,
            Self::Version | Self::Infrastructure => groups::OPENSHIFT_CONFIG,
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::MachineChecks => kinds::MACHINE_HEALTH_CHECK,
            Self::Version => kinds::CLUSTER_VERSION,
            Self::Infrastructure => kinds::INFRASTRUCTURE,
        }
    }

    /// The kind as metrics name it, which differs from a kind of the same name in another group.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::MachineChecks => Kind::OpenShiftCheck.label(),
            fact => fact.kind(),
        }
    }
}

// === impl OpenShift ===

impl OpenShift {
    pub(crate) fn put(&mut self, fact: Fact, object: DynamicObject) {
        self.objects.insert((fact, Key::of(&object)), object);
    }

    pub(crate) fn remove(&mut self, fact: Fact, key: Key) {
        self.objects.remove(&(fact, key));
    }

    /// Applies a complete list of a kind.
    pub(crate) fn listed(&mut self, fact: Fact, keys: &BTreeSet<Key>) {
        self.objects
            .retain(|(of, key), _| *of != fact || keys.contains(key));
        self.known.insert(fact);
        self.lost.remove(&fact);
    }

    /// Records that a kind cannot be watched now.
    pub(crate) fn lose(&mut self, fact: Fact, why: String) {
        self.known.remove(&fact);
        self.lost.insert(fact, why);
    }

    /// Records that no version of a kind is served. Returns why its objects are unknown, if any were known.
    pub(crate) fn not_served(&mut self, fact: Fact) -> Option<String> {
        let known = self.of(fact).count();
        let why = no_longer_served(fact.group(), fact.kind(), known);
        match &why {
            Some(why) => self.lose(fact, why.clone()),
            None => self.listed(fact, &BTreeSet::new()),
        }
        why
    }

    /// Marks all facts that were never reported as unreadable, and returns them.
    pub(crate) fn give_up(&mut self) -> Vec<(Fact, String)> {
        let unread: Vec<_> = Fact::ALL
            .into_iter()
            .filter(|fact| !self.is_decided(*fact))
            .map(|fact| (fact, "it cannot be listed".to_owned()))
            .collect();
        for (fact, why) in &unread {
            self.lose(*fact, why.clone());
        }
        unread
    }

    fn is_decided(&self, fact: Fact) -> bool {
        self.known.contains(&fact) || self.lost.contains_key(&fact)
    }

    /// Whether all facts are known or unreadable, so that checks may be evaluated.
    pub(crate) fn is_known(&self) -> bool {
        Fact::ALL.into_iter().all(|fact| self.is_decided(fact))
    }

    /// Whether the cluster runs OpenShift.
    pub(crate) fn is_there(&self) -> bool {
        self.of(Fact::Infrastructure).next().is_some()
    }

    fn of(&self, fact: Fact) -> impl Iterator<Item = (&Key, &DynamicObject)> {
        let objects = self.objects.iter();
        objects.filter_map(move |((of, key), object)| (*of == fact).then_some((key, object)))
    }

    fn mhc_conflict(&self) -> MhcConflict {
        if let Some(why) = self.lost.get(&Fact::MachineChecks) {
            return mhc_conflict(MachineChecks::Unknown(why));
        }
        let checks = self.of(Fact::MachineChecks).map(|(key, object)| {
            let rules = object.data.pointer("/spec/unhealthyConditions");
            let rules = rules.and_then(Value::as_array).into_iter().flatten();
            let types = rules.filter_map(|rule| rule.get("type")?.as_str());
            MachineCheck {
                name: key.to_string(),
                conditions: types.map(str::to_owned).collect(),
            }
        });
        mhc_conflict(MachineChecks::Known(&checks.collect::<Vec<_>>()))
    }

    /// Why all NodeHealthChecks are disabled, if they are.
    pub(crate) fn disabled(&self) -> Option<Disabled> {
        if let MhcConflict::Conflict(disabled) = self.mhc_conflict() {
            return Some(disabled);
        }
        if let (false, Some(why)) = (self.is_there(), self.lost.get(&Fact::Infrastructure)) {
            return Some(unknown_topology(why));
        }
        self.of(Fact::Infrastructure).find_map(|(_, object)| {
            let topology = object.data.pointer("/status/controlPlaneTopology")?;
            unsupported(topology.as_str()?)
        })
    }

    /// Whether a MachineHealthCheck remediates Nodes with condition `Terminating`.
    pub(crate) fn spares_terminating(&self) -> bool {
        self.mhc_conflict() == MhcConflict::Terminating
    }

    /// The message that the cluster is being upgraded; `None` if it is not, or if that cannot be read.
    pub(crate) fn upgrading(&self) -> Option<String> {
        self.of(Fact::Version).find_map(|(key, object)| {
            let conditions = object.data.pointer("/status/conditions")?.as_array()?;
            let progresses = conditions.iter().any(|c| {
                let is =
                    |field: &str, value: &str| c.get(field).and_then(Value::as_str) == Some(value);
                is("type", "Progressing") && is("status", "True")
            });
            progresses.then(|| format!("{} {key} is Progressing", kinds::CLUSTER_VERSION))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, value: Value) -> DynamicObject {
        let mut value = value;
        value["metadata"] = json!({ "name": name });
        serde_json::from_value(value).unwrap()
    }

    fn version(progressing: &str) -> DynamicObject {
        let conditions = json!([
            { "type": "Available", "status": "True" },
            { "type": "Progressing", "status": progressing },
        ]);
        object("version", json!({ "status": { "conditions": conditions } }))
    }

    fn check(name: &str, type_: &str) -> DynamicObject {
        let rule = json!({ "type": type_, "status": "True", "timeout": "1s" });
        object(name, json!({ "spec": { "unhealthyConditions": [rule] } }))
    }

    fn listed(facts: &[(Fact, DynamicObject)]) -> OpenShift {
        let mut known = OpenShift::default();
        for (fact, object) in facts {
            known.put(*fact, object.clone());
        }
        for fact in Fact::ALL {
            let keys = facts.iter().filter(|(of, _)| *of == fact);
            let keys = keys.map(|(_, object)| Key::of(object)).collect();
            known.listed(fact, &keys);
        }
        known
    }

    #[test]
    fn check_is_enabled_outside_openshift() {
        let known = listed(&[]);
        assert!(known.is_known() && !known.is_there());
        assert_eq!((known.disabled(), known.upgrading()), (None, None));
    }

    #[test]
    fn progressing_cluster_version_means_upgrade() {
        assert_eq!(
            listed(&[(Fact::Version, version("False"))]).upgrading(),
            None
        );
        let mut known = listed(&[(Fact::Version, version("True"))]);
        let words = "ClusterVersion version is Progressing";
        assert_eq!(known.upgrading().as_deref(), Some(words));
        known.remove(Fact::Version, Key::new("", "version"));
        assert_eq!(known.upgrading(), None);
    }

    #[test]
    fn machine_health_check_or_dual_replica_topology_disables_check() {
        let reason = |facts: &[(Fact, DynamicObject)]| listed(facts).disabled().map(|d| d.reason);
        let conflict = Some("ConflictingMachineHealthCheckDetected");
        let (ready, ending) = (check("a", "Ready"), check("b", "Terminating"));
        assert_eq!(reason(&[(Fact::MachineChecks, ready.clone())]), conflict);
        let spared = [(Fact::MachineChecks, ending.clone())];
        assert_eq!(reason(&spared), None);
        assert!(listed(&spared).spares_terminating());
        let mut both = listed(&[(Fact::MachineChecks, ready), (Fact::MachineChecks, ending)]);
        assert!(both.disabled().is_some() && !both.spares_terminating());
        both.listed(Fact::MachineChecks, &BTreeSet::from([Key::new("", "b")]));
        assert_eq!(both.disabled(), None, "one is left");
        let infrastructure = |topology: &str| {
            let status = json!({ "status": { "controlPlaneTopology": topology } });
            (Fact::Infrastructure, object("cluster", status))
        };
        assert_eq!(reason(&[infrastructure("HighlyAvailable")]), None);
        let topology = Some("UnsupportedControlPlaneTopology");
        assert_eq!(reason(&[infrastructure("DualReplica")]), topology);
    }

    #[test]
    fn f12_unlistable_kinds_disable_except_the_version() {
        let none = BTreeSet::new();
        let mut known = OpenShift::default();
        assert!(!known.is_known());
        known.listed(Fact::MachineChecks, &none);
        known.listed(Fact::Infrastructure, &none);
        let unread: Vec<_> = known.give_up().into_iter().map(|(fact, _)| fact).collect();
        assert_eq!(unread, [Fact::Version]);
        assert!(known.is_known());
        assert_eq!((known.disabled(), known.upgrading()), (None, None));
        let mut blind = OpenShift::default();
        blind.give_up();
        let reason = |known: &OpenShift| known.disabled().map(|d| d.reason);
        let conflict = Some("ConflictingMachineHealthCheckDetected");
        assert_eq!(reason(&blind), conflict);
        blind.listed(Fact::MachineChecks, &none);
        let topology = Some("UnsupportedControlPlaneTopology");
        assert_eq!(reason(&blind), topology);
        blind.listed(Fact::Infrastructure, &none);
        assert_eq!(blind.disabled(), None);
    }

    #[test]
    fn f12_lost_machine_health_checks_are_neither_none_nor_as_before() {
        let ending = check("b", "Terminating");
        let mut known = listed(&[(Fact::MachineChecks, ending.clone())]);
        assert_eq!(known.disabled(), None);
        known.lose(Fact::MachineChecks, "denied".into());
        assert!(known.is_known(), "unknown is a decision");
        let disabled = known.disabled().unwrap();
        assert!(disabled.message.contains("denied"), "{disabled:?}");
        assert!(!known.spares_terminating());
        // The list of the restarted watch is not complete yet.
        known.put(Fact::MachineChecks, ending);
        assert!(known.disabled().is_some());
        known.listed(Fact::MachineChecks, &BTreeSet::from([Key::new("", "b")]));
        assert_eq!(known.disabled(), None);
    }

    #[test]
    fn f12_kind_that_is_not_served_any_more_is_unknown() {
        let mut known = listed(&[
            (Fact::MachineChecks, check("b", "Terminating")),
            (Fact::Version, version("True")),
        ]);
        let why = known.not_served(Fact::MachineChecks).unwrap();
        assert!(why.contains("1 objects are known"), "{why}");
        assert!(known.disabled().is_some());
        assert!(known.not_served(Fact::Version).is_some());
        assert!(known.upgrading().is_some(), "nothing says that it is over");
        assert_eq!(known.not_served(Fact::Infrastructure), None);
        let mut elsewhere = OpenShift::default();
        for fact in Fact::ALL {
            assert_eq!(elsewhere.not_served(fact), None);
        }
        assert!(elsewhere.is_known() && elsewhere.disabled().is_none());
    }
}
