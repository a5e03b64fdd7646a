//! A parsed HostMaintenance, as it is decided about.
//!
//! Invariant: one that cannot be parsed is kept with its error, because it may have set something.

use std::collections::BTreeMap;

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    kinds::host_maintenance::{HostMaintenanceSpec, HostMaintenanceStatus},
    names::{MADE_BY_ANNOTATION, MAINTENANCE_FINALIZER, kinds},
    views::{Meta, ViewError},
};
use rackhand_core::{
    maintenance::{MaintenancePhase, MaintenanceTarget, Mark, unmarked_reason},
    remediation::Reason,
};

use super::{index::Index, object::Key};

/// A HostMaintenance.
#[derive(Debug, Clone)]
pub(crate) struct StoredMaintenance {
    pub(crate) meta: Meta,
    /// The spec with its target, or why it cannot be used.
    pub(crate) spec: Result<(HostMaintenanceSpec, MaintenanceTarget), String>,
    /// What the controller has recorded; only the controller may write it.
    pub(crate) status: HostMaintenanceStatus,
}

impl StoredMaintenance {
    /// Parses a HostMaintenance. A mistake is kept in [`Self::spec`].
    #[allow(
        clippy::unnecessary_wraps,
        reason = "the index reads every kind like this"
    )]
    pub(crate) fn read(object: &DynamicObject) -> Result<Self, ViewError> {
        let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
        let spec = serde_json::from_value::<HostMaintenanceSpec>(part("spec"));
        let spec = spec
            .map_err(|error| format!("spec: {error}"))
            .and_then(|spec| {
                let target = MaintenanceTarget::of(
                    spec.node.as_deref(),
                    spec.machine.as_deref(),
                    spec.host.as_deref(),
                );
                let target = target.map_err(|error| error.to_string())?;
                Ok((spec, target))
            });
        Ok(Self {
            meta: Meta::of(object),
            spec,
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        })
    }

    /// Whether our finalizer is on it.
    pub(crate) fn has_finalizer(&self) -> bool {
        let mut held = self.meta.finalizers.iter();
        held.any(|held| held == MAINTENANCE_FINALIZER)
    }

    /// Whether it is unfinished and names a Node of the management cluster, or a host on which one may run.
    pub(crate) fn is_by_node(&self) -> bool {
        let by_machine =
            |target: &MaintenanceTarget| matches!(target, MaintenanceTarget::Machine(_));
        let target = self.spec.as_ref().map(|(_, target)| target);
        !self.status.phase.is_over() && target.is_ok_and(|target| !by_machine(target))
    }

    /// The Node that health checks leave alone, if it is one of this cluster. Only the recorded status counts (F15).
    fn spared_node(&self, cluster: &Key) -> Option<&str> {
        let status = &self.status;
        let of_cluster = match &status.cluster {
            Some(name) => *name == cluster.to_string(),
            None => *cluster == Key::local(),
        };
        let node = status.node_name.as_deref();
        // What is left at the end without its remediation is nobody's work.
        let works = match status.phase {
            MaintenancePhase::Ending => status.in_place.contains(&Mark::Remediation),
            phase => phase.spares_host(),
        };
        node.filter(|_| of_cluster && (status.marked || works))
    }
}

/// The Nodes of a cluster that health checks leave alone, each with `HostMaintenance namespace/name`.
pub(crate) fn spared_nodes(index: &Index, cluster: &Key) -> BTreeMap<String, String> {
    let all = index.maintenances().into_iter();
    let spared = all.filter_map(|(key, entry)| {
        let stored = entry.view.ok()?;
        let node = stored.spared_node(cluster)?.to_owned();
        Some((node, format!("HostMaintenance {key}")))
    });
    spared.collect()
}

/// The name of the remediation of a maintenance; that of another maintenance is another.
pub(crate) fn remediation_key(namespace: &str, uid: &str) -> Key {
    Key::new(namespace, format!("maintenance-{uid}"))
}

/// Why this remediation waits for the marks of its HostMaintenance; `None`: it is of none, or all of them are set. One that
/// is not known has set none, and sets none.
pub(crate) fn unmarked(index: &Index, name: &Key, object: &DynamicObject) -> Option<Reason> {
    let (key, uid) =
        maker(object).filter(|(key, uid)| remediation_key(&key.namespace, uid) == *name)?;
    let view = index.maintenance(&key).and_then(|entry| entry.view.ok());
    let by = format!("HostMaintenance {key}");
    let Some(stored) = view.filter(|stored| stored.meta.uid == uid) else {
        return Some(Reason::WaitingForMarks(by));
    };
    let status = &stored.status;
    (!status.marked).then(|| unmarked_reason(status.reason.as_deref(), by))
}

/// The identity of a maintenance as the holder of medik8s' Lease of its Node.
pub(crate) fn lease_holder(name: &str, uid: &str) -> String {
    format!("{}-{name}-{uid}", kinds::HOST_MAINTENANCE)
}

/// medik8s' Lease of a Node that a maintenance has listed in its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedLease {
    /// The Node.
    pub(crate) node: String,
    /// The identity of the maintenance as its holder.
    pub(crate) holder: String,
    /// The maintenance, for messages.
    pub(crate) by: String,
}

/// The Lease by which medik8s' operators leave the host of this remediation alone; `None`: it is of no maintenance, or of
/// one that has taken none.
pub(crate) fn listed_lease(
    index: &Index,
    name: &Key,
    object: &DynamicObject,
) -> Option<ListedLease> {
    let (key, uid) =
        maker(object).filter(|(key, uid)| remediation_key(&key.namespace, uid) == *name)?;
    let stored = index.maintenance(&key)?.view.ok()?;
    let is_listed = stored.meta.uid == uid && stored.status.in_place.contains(&Mark::Lease);
    let node = stored.status.node_name.clone().filter(|_| is_listed)?;
    Some(ListedLease {
        node,
        holder: lease_holder(&key.name, &uid),
        by: format!("HostMaintenance {key}"),
    })
}

/// The name of the object that made a remediation, and its UID, by its annotation; `None` if no HostMaintenance did.
pub(crate) fn maker(object: &DynamicObject) -> Option<(Key, String)> {
    let made_by = object.annotations().get(MADE_BY_ANNOTATION)?;
    let mut parts = made_by.splitn(3, '/');
    let of_maintenance = parts.next() == Some(kinds::HOST_MAINTENANCE);
    let (name, uid) = (parts.next()?, parts.next()?);
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    (of_maintenance && !name.is_empty() && !uid.is_empty())
        .then(|| (Key::new(namespace, name), uid.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::store::object::Kind;

    fn object(value: &Value) -> DynamicObject {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn maintenance(status: &Value) -> DynamicObject {
        object(&json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": { "name": "m", "namespace": "ns", "uid": "u" },
            "spec": { "node": "n1", "reason": "DIMM" },
            "status": status,
        }))
    }

    #[test]
    fn f15_node_is_spared_only_while_the_recorded_status_says_that_something_is_set() {
        let spared = |status: Value, cluster: &Key| {
            let index = Index::new(Vec::new());
            index.apply(Kind::HostMaintenance, maintenance(&status));
            spared_nodes(&index, cluster)
        };
        let local = Key::local();
        let parked = json!({ "phase": "Parked", "nodeName": "n1" });
        let by = BTreeMap::from([("n1".to_owned(), "HostMaintenance ns/m".to_owned())]);
        assert_eq!(spared(parked.clone(), &local), by);
        let other = Key::new("ns", "cluster");
        assert!(spared(parked, &other).is_empty(), "of another cluster");
        let there = json!({
            "phase": "Ending", "nodeName": "n1", "cluster": "ns/cluster", "inPlace": ["Remediation"],
        });
        assert_eq!(spared(there.clone(), &other), by);
        assert!(spared(there, &local).is_empty());
        let marked = json!({ "phase": "Pending", "nodeName": "n1", "marked": true });
        assert_eq!(spared(marked, &local), by);
        for phase in ["Pending", "Ended", "Failed"] {
            let status = json!({ "phase": phase, "nodeName": "n1" });
            assert!(spared(status, &local).is_empty(), "{phase}");
        }
        let left = json!({ "phase": "Ending", "nodeName": "n1", "reason": "TaintLeft" });
        assert!(spared(left, &local).is_empty(), "a taint is nobody's work");
        assert!(
            spared(json!({}), &local).is_empty(),
            "the spec alone says nothing"
        );
    }

    #[test]
    fn remediation_of_a_maintenance_waits_until_that_says_that_its_marks_are_set() {
        let index = Index::new(Vec::new());
        let made = object(&json!({
            "metadata": {
                "name": "maintenance-u", "namespace": "ns",
                "annotations": { MADE_BY_ANNOTATION: "HostMaintenance/m/u" },
            },
        }));
        let name = Key::new("ns", "maintenance-u");
        let by = "HostMaintenance ns/m".to_owned();
        let waits = Some(Reason::WaitingForMarks(by.clone()));
        assert_eq!(unmarked(&index, &name, &made), waits, "it is not known");
        for (reason, expected) in [
            ("RemediationWaits", Some(Reason::SettingMarks(by))),
            ("MarkRefused", waits.clone()),
        ] {
            let status = json!({ "phase": "Pending", "reason": reason });
            index.apply(Kind::HostMaintenance, maintenance(&status));
            assert_eq!(unmarked(&index, &name, &made), expected, "{reason}");
        }
        index.apply(
            Kind::HostMaintenance,
            maintenance(&json!({ "marked": true })),
        );
        assert_eq!(unmarked(&index, &name, &made), None);
        assert_eq!(
            listed_lease(&index, &name, &made),
            None,
            "it has taken none"
        );
        let status = json!({ "marked": true, "inPlace": ["Lease"], "nodeName": "n1" });
        index.apply(Kind::HostMaintenance, maintenance(&status));
        let listed = listed_lease(&index, &name, &made).unwrap();
        assert_eq!(
            (&*listed.node, &*listed.holder),
            ("n1", "HostMaintenance-m-u")
        );
        // A remediation that only says so is one like any other.
        assert_eq!(listed_lease(&index, &Key::new("ns", "mine"), &made), None);
        assert_eq!(unmarked(&index, &Key::new("ns", "mine"), &made), None);
        let mut other = maintenance(&json!({ "marked": true }));
        other.metadata.uid = Some("u2".into());
        index.apply(Kind::HostMaintenance, other);
        assert_eq!(
            unmarked(&index, &name, &made),
            waits,
            "that of a later one says nothing"
        );
    }

    #[test]
    fn only_remediations_of_maintenances_have_a_maker_here() {
        let made = |by: &str| {
            maker(&object(&json!({
                "metadata": { "name": "r", "namespace": "ns", "annotations": { MADE_BY_ANNOTATION: by } },
            })))
        };
        let found = made("HostMaintenance/m/u");
        assert_eq!(found, Some((Key::new("ns", "m"), "u".into())));
        for odd in [
            "",
            "HostMaintenance",
            "HostMaintenance//u",
            "HostMaintenance/m",
            "MachineHealthCheck/c/u",
        ] {
            assert_eq!(made(odd), None, "{odd}");
        }
    }

    #[test]
    fn spec_with_a_mistake_is_kept_with_its_error() {
        let mut odd = maintenance(&json!({}));
        odd.data["spec"]["machine"] = "m1".into();
        let stored = StoredMaintenance::read(&odd).unwrap();
        assert!(stored.spec.unwrap_err().contains("exactly one"));
        odd.data["spec"] = json!({ "node": 7 });
        assert!(StoredMaintenance::read(&odd).unwrap().spec.is_err());
    }
}
