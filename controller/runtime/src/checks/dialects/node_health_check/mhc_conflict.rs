//! Facts about OpenShift: its own health checks, a running upgrade, and the topology of its control plane.
//!
//! `rackhand_core::checks::nodes` decides by these facts. Outside OpenShift there are none.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::DynamicObject;
use rackhand_api::names::{groups, kinds};
use rackhand_core::checks::nodes::{
    Disabled, MachineCheck, MhcConflict, mhc_conflict, unsupported,
};
use serde_json::Value;

use crate::store::object::Key;

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
    known: BTreeSet<Fact>,
    /// Whether facts that are still unknown count as unreadable.
    late: bool,
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
    }

    /// Marks all unknown facts as unreadable.
    pub(crate) fn give_up(&mut self) {
        let unread = Fact::ALL.into_iter().filter(|f| !self.known.contains(f));
        for fact in unread {
            tracing::warn!(
                kind = fact.kind(),
                group = fact.group(),
                "a kind of OpenShift is there and cannot be listed"
            );
        }
        self.late = true;
    }

    /// Whether all facts are known or unreadable, so that checks may be evaluated.
    pub(crate) fn is_known(&self) -> bool {
        self.late || Fact::ALL.iter().all(|fact| self.known.contains(fact))
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
        let checks = self.of(Fact::MachineChecks).map(|(key, object)| {
            let rules = object.data.pointer("/spec/unhealthyConditions");
            let rules = rules.and_then(Value::as_array).into_iter().flatten();
            let types = rules.filter_map(|rule| rule.get("type")?.as_str());
            MachineCheck {
                name: key.to_string(),
                conditions: types.map(str::to_owned).collect(),
            }
        });
        mhc_conflict(&checks.collect::<Vec<_>>())
    }

    /// Why all NodeHealthChecks are disabled, if they are.
    pub(crate) fn disabled(&self) -> Option<Disabled> {
        if self.late && !self.known.contains(&Fact::MachineChecks) {
            return Some(Disabled {
                reason: "ConflictingMachineHealthCheckDetected",
                message:
                    "the MachineHealthChecks of machine.openshift.io cannot be listed, so that \
                          nobody knows whether they act on the same Nodes"
                        .to_owned(),
            });
        }
        if let MhcConflict::Conflict(disabled) = self.mhc_conflict() {
            return Some(disabled);
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
    fn unlistable_machine_health_checks_disable_and_unlistable_version_does_not() {
        let mut known = OpenShift::default();
        assert!(!known.is_known());
        known.listed(Fact::MachineChecks, &BTreeSet::new());
        known.give_up();
        assert!(known.is_known());
        assert_eq!((known.disabled(), known.upgrading()), (None, None));
        let mut blind = OpenShift::default();
        blind.give_up();
        assert!(
            blind
                .disabled()
                .unwrap()
                .message
                .contains("cannot be listed")
        );
        blind.listed(Fact::MachineChecks, &BTreeSet::new());
        assert_eq!(blind.disabled(), None);
    }
}
