//! Versions of indexed objects, for the comparison with a live read.

use kube::api::DynamicObject;
use tokio::sync::Notify;

use super::{Entry, Index};
use crate::store::{
    object::{Key, Kind},
    remediation::RemediationId,
};

fn version<V>(entry: Option<&Entry<V>>) -> Option<String> {
    object_version(&entry?.object)
}

pub(super) fn object_version(object: &DynamicObject) -> Option<String> {
    object.metadata.resource_version.clone()
}

impl Index {
    /// The resourceVersion of an object in the index.
    pub(crate) fn version_of(&self, kind: Kind, key: &Key) -> Option<String> {
        let inner = self.inner.read();
        match kind {
            Kind::Cluster => version(inner.clusters.get(key)),
            Kind::Machine => inner.machines.get(key)?.version.clone(),
            Kind::MachineHealthCheck => version(inner.checks.get(key)),
            Kind::NodeHealthCheck => version(inner.node_checks.get(key)),
            Kind::Metal3Machine => version(inner.metal3_machines.get(key)),
            Kind::BareMetalHost => version(inner.hosts.get(key)),
            Kind::Metal3Remediation | Kind::PowerRemediation => {
                version(inner.requests.get(&RemediationId::new(kind, key.clone())))
            }
            Kind::RackAgent => object_version(inner.rack_agents.get(key)?),
            Kind::RemediationState => object_version(inner.states.get(key)?),
            Kind::PowerPolicy => version(inner.power_policies.get(key)),
            Kind::OpenShiftMachine | Kind::OpenShiftCheck => inner.openshift.version(kind, key),
        }
    }

    /// The resourceVersion of a Node in the index.
    pub(crate) fn node_version(&self, cluster: &Key, node: &str) -> Option<String> {
        let inner = self.inner.read();
        let workload = inner.workloads.get(cluster)?;
        workload.nodes.get(node)?.version.clone()
    }

    /// The names of the Nodes of a cluster.
    pub(crate) fn node_names(&self, cluster: &Key) -> Vec<String> {
        let inner = self.inner.read();
        let nodes = inner.workloads.get(cluster).map(|w| w.nodes.keys());
        nodes.into_iter().flatten().cloned().collect()
    }

    /// Whether a watch has recently reported the deletion of the object with this UID.
    pub(crate) fn is_deleted(&self, uid: &str) -> bool {
        self.inner.read().tombstones.holds(Some(uid))
    }

    /// Notified after each change, including changes that are not announced.
    pub(crate) fn moved(&self) -> &Notify {
        &self.moved
    }
}
