//! All objects of the management cluster, by kind.

use std::sync::Arc;

use kube::api::DynamicObject;
use rackhand_api::{
    kinds::remediation_trigger::RemediationTriggerSpec,
    views::{
        ClusterView, MachineHealthCheckView, Metal3MachineView, NodeHealthCheckView, ViewError,
        trigger_spec,
    },
};

use super::{
    hosts::Hosts, machines::Machines, openshift::OpenShiftObjects, remediations::Remediations,
    table::Table,
};
use crate::store::{
    maintenance::StoredMaintenance,
    object::{Key, Kind},
    power_policy::StoredPolicy,
    remediation::RemediationId,
};

/// One table for each kind, or for the kinds that belong together.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) clusters: Table<ClusterView>,
    pub(super) machines: Machines,
    pub(super) checks: Table<MachineHealthCheckView>,
    pub(super) node_checks: Table<NodeHealthCheckView>,
    pub(super) metal3_machines: Table<Metal3MachineView>,
    pub(super) hosts: Hosts,
    pub(super) remediations: Remediations,
    pub(super) rack_agents: Table<()>,
    pub(super) power_policies: Table<StoredPolicy>,
    pub(super) triggers: Table<RemediationTriggerSpec>,
    pub(super) maintenances: Table<StoredMaintenance>,
    pub(super) openshift: OpenShiftObjects,
}

fn unread(_: &DynamicObject) -> Result<(), ViewError> {
    Ok(())
}

/// The view of a check, whose status may name a whole fleet: it is parsed before the index is locked.
pub(super) enum CheckView {
    OfMachines(Result<MachineHealthCheckView, ViewError>),
    OfNodes(Result<NodeHealthCheckView, ViewError>),
    /// The object is no such check.
    None,
}

impl CheckView {
    pub(super) fn parse(kind: Kind, object: &DynamicObject) -> Self {
        match kind {
            Kind::MachineHealthCheck => {
                Self::OfMachines(MachineHealthCheckView::from_dynamic(object))
            }
            Kind::NodeHealthCheck => Self::OfNodes(NodeHealthCheckView::from_dynamic(object)),
            _ => Self::None,
        }
    }
}

impl Objects {
    /// Puts a version of an object, unless a later one is known. Returns whether it was put.
    pub(super) fn put(
        &mut self,
        kind: Kind,
        key: &Key,
        object: Arc<DynamicObject>,
        check: CheckView,
    ) -> bool {
        match check {
            CheckView::OfMachines(view) => return self.checks.put(key, object, |_| view),
            CheckView::OfNodes(view) => return self.node_checks.put(key, object, |_| view),
            CheckView::None => {}
        }
        match kind {
            Kind::Cluster => self.clusters.put(key, object, ClusterView::from_dynamic),
            Kind::Machine => self.machines.put(key, &object),
            // Parsed above.
            Kind::MachineHealthCheck | Kind::NodeHealthCheck => false,
            Kind::Metal3Machine => {
                let read = Metal3MachineView::from_dynamic;
                self.metal3_machines.put(key, object, read)
            }
            Kind::BareMetalHost => self.hosts.put(key, object),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                let id = RemediationId::new(kind, key.clone());
                self.remediations.put(id, object)
            }
            Kind::RackAgent => self.rack_agents.put(key, object, unread),
            Kind::RemediationState => self.remediations.states.put(key, object, unread),
            Kind::PowerPolicy => self.power_policies.put(key, object, StoredPolicy::read),
            Kind::RemediationTrigger => self.triggers.put(key, object, trigger_spec),
            Kind::HostMaintenance => self.maintenances.put(key, object, StoredMaintenance::read),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => self.openshift.put(kind, key, object),
        }
    }

    pub(super) fn remove(&mut self, kind: Kind, key: &Key) {
        match kind {
            Kind::Cluster => drop(self.clusters.remove(key)),
            Kind::Machine => self.machines.remove(key),
            Kind::MachineHealthCheck => drop(self.checks.remove(key)),
            Kind::NodeHealthCheck => drop(self.node_checks.remove(key)),
            Kind::Metal3Machine => drop(self.metal3_machines.remove(key)),
            Kind::BareMetalHost => self.hosts.remove(key),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                let id = RemediationId::new(kind, key.clone());
                self.remediations.remove(&id);
            }
            Kind::RackAgent => drop(self.rack_agents.remove(key)),
            Kind::RemediationState => drop(self.remediations.states.remove(key)),
            Kind::PowerPolicy => drop(self.power_policies.remove(key)),
            Kind::RemediationTrigger => drop(self.triggers.remove(key)),
            Kind::HostMaintenance => drop(self.maintenances.remove(key)),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => self.openshift.remove(kind, key),
        }
    }

    /// The names of all objects of a kind.
    pub(super) fn keys(&self, kind: Kind) -> Vec<Key> {
        match kind {
            Kind::Cluster => self.clusters.keys().cloned().collect(),
            Kind::Machine => self.machines.keys().cloned().collect(),
            Kind::MachineHealthCheck => self.checks.keys().cloned().collect(),
            Kind::NodeHealthCheck => self.node_checks.keys().cloned().collect(),
            Kind::Metal3Machine => self.metal3_machines.keys().cloned().collect(),
            Kind::BareMetalHost => self.hosts.table().keys().cloned().collect(),
            Kind::Metal3Remediation | Kind::PowerRemediation => self.remediations.keys(kind),
            Kind::RackAgent => self.rack_agents.keys().cloned().collect(),
            Kind::RemediationState => self.remediations.states.keys().cloned().collect(),
            Kind::PowerPolicy => self.power_policies.keys().cloned().collect(),
            Kind::RemediationTrigger => self.triggers.keys().cloned().collect(),
            Kind::HostMaintenance => self.maintenances.keys().cloned().collect(),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => self.openshift.keys(kind),
        }
    }

    /// At most `most` names after `after` of objects of a kind, in their order.
    pub(super) fn keys_after(&self, kind: Kind, after: Option<&Key>, most: usize) -> Vec<Key> {
        match kind {
            Kind::Machine => self.machines.keys_after(after, most),
            Kind::Metal3Machine => self.metal3_machines.keys_after(after, most),
            Kind::RemediationState => self.remediations.states.keys_after(after, most),
            Kind::BareMetalHost => self.hosts.table().keys_after(after, most),
            Kind::OpenShiftMachine => self.openshift.machines.keys_after(after, most),
            _ => {
                let later = self.keys(kind).into_iter();
                let later = later.filter(|key| after.is_none_or(|after| key > after));
                later.take(most).collect()
            }
        }
    }

    /// The resourceVersion of an object, for the comparison with a live read.
    pub(super) fn version(&self, kind: Kind, key: &Key) -> Option<String> {
        match kind {
            Kind::Cluster => self.clusters.version(key),
            Kind::Machine => self.machines.version(key),
            Kind::MachineHealthCheck => self.checks.version(key),
            Kind::NodeHealthCheck => self.node_checks.version(key),
            Kind::Metal3Machine => self.metal3_machines.version(key),
            Kind::BareMetalHost => self.hosts.table().version(key),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                let id = RemediationId::new(kind, key.clone());
                self.remediations.table().version(&id)
            }
            Kind::RackAgent => self.rack_agents.version(key),
            Kind::RemediationState => self.remediations.states.version(key),
            Kind::PowerPolicy => self.power_policies.version(key),
            Kind::RemediationTrigger => self.triggers.version(key),
            Kind::HostMaintenance => self.maintenances.version(key),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => self.openshift.version(kind, key),
        }
    }

    /// Whether a Machine names this Node.
    pub(super) fn names_node(&self, cluster: &Key, node: &str) -> bool {
        let mut links = self.machines.with_node(node);
        links.any(|link| link.cluster == *cluster)
            || *cluster == Key::local() && self.openshift.node_names().any(|name| name == node)
    }
}
