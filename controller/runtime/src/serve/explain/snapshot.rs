//! The objects that a view is computed from, from any source.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    coordination::v1::Lease, core::v1::Pod, policy::v1::PodDisruptionBudget,
    storage::v1::VolumeAttachment,
};
use kube::{Resource, ResourceExt, api::DynamicObject};
use rackhand_api::names::NODE_LEASE_NAMESPACE;
use rackhand_core::concurrency::EtcdGuard;
use serde::de::DeserializeOwned;

use crate::{checks::FleetObjects, clusters::OPENSHIFT_ETCD};

/// Objects at one time, from a cluster or from files.
#[derive(Default)]
pub(super) struct Snapshot {
    /// Whether the objects come from files, in which any object may be missing.
    pub(super) from_files: bool,
    /// Objects of any kind, and the Nodes.
    pub(super) seen: FleetObjects,
    /// Kinds of the workload cluster that could not be listed.
    pub(super) unread: BTreeSet<String>,
    /// Kinds of remediations that the cluster does not serve, as `Kind of group/version`.
    pub(super) not_served: BTreeSet<String>,
    /// Whether OpenShift's own Machine controllers run, or why that is not known.
    pub(super) controllers: Option<Result<bool, String>>,
    /// The answer of OpenShift's guard of etcd.
    pub(super) guard: Option<Result<EtcdGuard, String>>,
    /// Version of the workload cluster: major and minor.
    pub(super) version: Option<(String, String)>,
    /// What could not be read, or is unusual.
    pub(super) notes: Vec<String>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Objects of a built-in kind of Kubernetes; objects that cannot be parsed are left out.
    fn builtin<T: Resource + DeserializeOwned>(
        &self,
        group: &'static str,
        kind: &'static str,
        namespace: Option<&'static str>,
    ) -> Vec<T> {
        let objects = self.seen.of(group, kind);
        let within =
            |o: &&DynamicObject| namespace.is_none_or(|n| o.namespace().as_deref() == Some(n));
        let parsed = objects.filter(within).map(|o| o.clone().try_parse());
        parsed.flatten().collect()
    }

    /// Whether all objects of this kind of the workload cluster are known.
    pub(super) fn has_all(&self, kind: &'static str) -> bool {
        !self.from_files && self.seen.down.is_none() && !self.unread.contains(kind)
    }

    /// Pods on the Node; `None` if they are not known.
    pub(super) fn pods(&self) -> Option<Vec<Pod>> {
        self.known("", "Pod")
    }

    /// VolumeAttachments; `None` if they are not known.
    pub(super) fn volumes(&self) -> Option<Vec<VolumeAttachment>> {
        self.known("storage.k8s.io", "VolumeAttachment")
    }

    fn known<T: Resource + DeserializeOwned>(
        &self,
        group: &'static str,
        kind: &'static str,
    ) -> Option<Vec<T>> {
        let found = self.builtin(group, kind, None);
        (!found.is_empty() || self.has_all(kind)).then_some(found)
    }

    /// Leases of Nodes.
    pub(super) fn node_leases(&self) -> Vec<Lease> {
        self.builtin("coordination.k8s.io", "Lease", Some(NODE_LEASE_NAMESPACE))
    }

    /// PodDisruptionBudgets of OpenShift's etcd.
    pub(super) fn etcd_budgets(&self) -> Vec<PodDisruptionBudget> {
        self.builtin("policy", "PodDisruptionBudget", Some(OPENSHIFT_ETCD))
    }
}
