//! What the index shows of the objects of the management cluster.

use std::{collections::BTreeMap, sync::Arc};

use kube::api::DynamicObject;
use rackhand_api::{
    kinds::remediation_trigger::RemediationTriggerSpec,
    names::{CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL},
    views::{
        BareMetalHostView, ClusterView, MachineHealthCheckView, MachineView, Metal3MachineView,
        NodeHealthCheckView, OpenShiftHealthCheckView,
    },
};

use super::{
    Entry, HostLink, Index,
    machines::{has_labels, machine, mentions},
};
use crate::store::{
    maintenance::StoredMaintenance,
    object::{Key, Kind},
    power_policy::StoredPolicy,
    remediation::{RemediationId, RemediationObject},
};

impl Index {
    pub(crate) fn cluster(&self, key: &Key) -> Option<Entry<ClusterView>> {
        self.inner.read().objects.clusters.get(key).cloned()
    }

    pub(crate) fn clusters(&self) -> Vec<Key> {
        self.inner.read().objects.clusters.keys().cloned().collect()
    }

    pub(crate) fn check(&self, key: &Key) -> Option<Entry<MachineHealthCheckView>> {
        self.inner.read().objects.checks.get(key).cloned()
    }

    pub(crate) fn node_check(&self, key: &Key) -> Option<Entry<NodeHealthCheckView>> {
        self.inner.read().objects.node_checks.get(key).cloned()
    }

    /// The MachineHealthChecks of Cluster API in a namespace.
    pub(crate) fn checks_in(&self, namespace: &str) -> Vec<Entry<MachineHealthCheckView>> {
        let checks = self.inner.read().objects.checks.in_namespace(namespace);
        checks.into_iter().map(|(_, entry)| entry).collect()
    }

    pub(crate) fn metal3_machine(&self, key: &Key) -> Option<Entry<Metal3MachineView>> {
        self.inner.read().objects.metal3_machines.get(key).cloned()
    }

    pub(crate) fn host(&self, key: &Key) -> Option<Entry<BareMetalHostView>> {
        self.inner.read().objects.hosts.table().get(key).cloned()
    }

    /// The BareMetalHosts, ordered by name. They are read a few at a time, as the names in [`Self::keys_in_pages`].
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (Key, Entry<BareMetalHostView>)> {
        let keys = self.keys_in_pages(Kind::BareMetalHost);
        keys.filter_map(|key| {
            let entry = self.host(&key)?;
            Some((key, entry))
        })
    }

    /// The BareMetalHosts with this link.
    pub(crate) fn hosts_by(&self, link: &HostLink) -> Vec<Key> {
        self.inner.read().objects.hosts.by_link(link)
    }

    pub(crate) fn remediation(&self, id: &RemediationId) -> Option<Entry<RemediationObject>> {
        let inner = self.inner.read();
        inner.objects.remediations.table().get(id).cloned()
    }

    pub(crate) fn remediations(&self) -> Vec<(RemediationId, Entry<RemediationObject>)> {
        self.inner.read().objects.remediations.table().all()
    }

    /// Whether a remediation names a Node of the management cluster.
    pub(crate) fn has_remediations_by_node(&self) -> bool {
        self.inner.read().objects.remediations.has_by_node()
    }

    /// RemediationStates of remediations that are not in the index.
    pub(crate) fn unneeded_states(&self) -> Vec<Arc<DynamicObject>> {
        self.inner.read().objects.remediations.unneeded_states()
    }

    /// The RemediationState of the remediation with this UID.
    pub(crate) fn remediation_state(&self, uid: &str) -> Option<Arc<DynamicObject>> {
        let inner = self.inner.read();
        let state = inner.objects.remediations.states.get(&Key::new("", uid))?;
        Some(state.object.clone())
    }

    pub(crate) fn power_policies(&self) -> Vec<Entry<StoredPolicy>> {
        let inner = self.inner.read();
        inner.objects.power_policies.entries().cloned().collect()
    }

    /// The RemediationTriggers, ordered by name.
    pub(crate) fn triggers(&self) -> Vec<(Key, Entry<RemediationTriggerSpec>)> {
        self.inner.read().objects.triggers.all()
    }

    pub(crate) fn maintenances(&self) -> Vec<(Key, Entry<StoredMaintenance>)> {
        self.inner.read().objects.maintenances.all()
    }

    /// Whether an unfinished HostMaintenance may be about a Node of the management cluster.
    pub(crate) fn has_maintenances_by_node(&self) -> bool {
        let inner = self.inner.read();
        let mut all = inner.objects.maintenances.entries();
        all.any(|entry| entry.view.as_ref().is_ok_and(|m| m.is_by_node()))
    }

    pub(crate) fn maintenance(&self, key: &Key) -> Option<Entry<StoredMaintenance>> {
        self.inner.read().objects.maintenances.get(key).cloned()
    }

    pub(crate) fn rack_agent(&self, key: &Key) -> Option<Arc<DynamicObject>> {
        let inner = self.inner.read();
        Some(inner.objects.rack_agents.get(key)?.object.clone())
    }

    pub(crate) fn rack_agents(&self) -> Vec<(Key, Arc<DynamicObject>)> {
        let agents = self.inner.read().objects.rack_agents.all();
        agents.into_iter().map(|(k, e)| (k, e.object)).collect()
    }

    /// The health checks of OpenShift, ordered by name.
    pub(crate) fn openshift_checks(&self) -> Vec<(Key, Entry<OpenShiftHealthCheckView>)> {
        self.inner.read().objects.openshift.checks.all()
    }

    pub(crate) fn openshift_check(&self, key: &Key) -> Option<Entry<OpenShiftHealthCheckView>> {
        self.inner.read().objects.openshift.checks.get(key).cloned()
    }

    pub(crate) fn openshift_machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        let inner = self.inner.read();
        inner.objects.openshift.machines.get(key).cloned()
    }

    /// The Machines of OpenShift whose nodeRef names this Node.
    pub(crate) fn openshift_machines_of_node(&self, node: &str) -> Vec<Key> {
        self.inner.read().objects.openshift.machines_of_node(node)
    }

    pub(crate) fn machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        let json = self.inner.read().objects.machines.json(key)?;
        machine(&json)
    }

    /// Whether the JSON of a Machine contains this quoted text, for example the type of a condition in either
    /// list. Faster than parsing it, and also true if the text has another meaning there.
    pub(crate) fn machine_mentions(&self, key: &Key, text: &str) -> bool {
        let json = self.inner.read().objects.machines.json(key);
        json.is_some_and(|json| mentions(&json, text))
    }

    /// A Machine, if its labels match. The rest of one that does not match is not parsed.
    pub(crate) fn select_machine(
        &self,
        key: &Key,
        wanted: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Option<Entry<MachineView>> {
        let json = self.inner.read().objects.machines.json(key)?;
        has_labels(&json, wanted).then(|| machine(&json))?
    }

    /// The Machines in a namespace of control planes, or with the role of etcd, ordered by name.
    pub(crate) fn control_planes_in(&self, namespace: &str) -> Vec<Entry<MachineView>> {
        const ROLES: [&str; 2] = [CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL];
        let mut stored = self.inner.read().objects.machines.in_namespace(namespace);
        stored.retain(|json| ROLES.iter().any(|role| mentions(json, role)));
        let machines = stored.iter().filter_map(|json| machine(json));
        let is_labelled = |entry: &Entry<MachineView>| {
            let labels = entry.object.metadata.labels.as_ref();
            labels.is_some_and(|labels| ROLES.iter().any(|role| labels.contains_key(*role)))
        };
        machines.filter(is_labelled).collect()
    }

    /// The Machines of all clusters whose nodeRef has this name.
    pub(crate) fn machines_with_node(&self, node: &str) -> Vec<Entry<MachineView>> {
        let keys: Vec<Key> = {
            let inner = self.inner.read();
            let links = inner.objects.machines.with_node(node);
            links.map(|link| link.machine.clone()).collect()
        };
        keys.iter().filter_map(|key| self.machine(key)).collect()
    }

    /// The Machines whose nodeRef names this Node.
    pub(crate) fn machines_of_node(&self, cluster: &Key, node: &str) -> Vec<Key> {
        let inner = self.inner.read();
        let links = inner.objects.machines.with_node(node);
        links
            .filter(|link| link.cluster == *cluster)
            .map(|link| link.machine.clone())
            .collect()
    }
}
