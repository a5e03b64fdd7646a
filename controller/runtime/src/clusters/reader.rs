//! Workload clusters for what reads them and must not change them.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use parking_lot::Mutex;
use rackhand_core::{
    fleet::placement::HostWorkload,
    limits::{beginnings::ApiLoad, concurrency::EtcdGuard},
    remediation::{BoundPod, Drain, LeaseMemory, LeaseRenewals, NodeLife},
};

use super::{NODE_ROLES, NodeRead, RetainedConnection, WorkloadClient, Workloads, ask_guard};
use crate::store::{
    api::{ApiError, call, optional},
    object::{Key, list_pages},
};

/// The clusters that are connected.
pub(crate) struct WorkloadReader(Arc<Workloads>);

impl WorkloadReader {
    pub(crate) fn new(workloads: Arc<Workloads>) -> Self {
        Self(workloads)
    }

    /// Reads of a connected cluster.
    pub(crate) fn get(&self, cluster: &Key) -> Option<ReadClient> {
        self.0.get(cluster).map(ReadClient)
    }

    /// Keeps a cluster connected, with or without its Cluster object, until the result is dropped.
    pub(crate) fn keep_for(&self, cluster: Key) -> RetainedConnection {
        self.0.keep_for(cluster)
    }
}

/// Reads of a workload cluster that is connected.
pub(crate) struct ReadClient(Arc<WorkloadClient>);

impl ReadClient {
    /// How quickly its API answers, and which remediations have begun lately.
    pub(crate) fn load(&self) -> &Mutex<ApiLoad> {
        self.0.load()
    }

    /// Reads the Node and its kubelet's Lease.
    pub(crate) async fn node(
        &self,
        name: &str,
        memory: &Mutex<LeaseMemory>,
    ) -> Result<NodeRead, ApiError> {
        self.0.node(name, memory).await
    }

    /// Whether the kubelet of a Node that is not Ready runs, by its Lease.
    pub(crate) async fn kubelet_life(
        &self,
        node: &str,
        renewals: &Mutex<LeaseRenewals>,
    ) -> Result<NodeLife, ApiError> {
        self.0.kubelet_life(node, renewals).await
    }

    /// Lists live what keeps the Node from being drained (F4).
    pub(crate) async fn drain(&self, node: &str) -> Result<Drain, ApiError> {
        self.0.drain(node).await
    }

    /// Lists live the pods of the Node.
    pub(crate) async fn pods(&self, node: &str) -> Result<Vec<BoundPod>, ApiError> {
        self.0.pods(node).await
    }

    /// Lists live the workload that waits for the host of the Node.
    pub(crate) async fn host_workload(&self, node: &str) -> Result<HostWorkload, ApiError> {
        self.0.host_workload(node).await
    }

    /// OpenShift's guard of etcd for a Node that it applies to.
    pub(crate) async fn etcd_guard(&self, node: &str) -> Result<EtcdGuard, String> {
        ask_guard(self.0.client.clone(), node).await
    }

    /// The Nodes with a role, and the Nodes with these names.
    pub(crate) async fn nodes_with_role(
        &self,
        cluster: &Key,
        named: impl Iterator<Item = &str>,
    ) -> Result<BTreeMap<String, Node>, ApiError> {
        let nodes: Api<Node> = Api::all(self.0.client.clone());
        let lists = NODE_ROLES.map(|label| {
            let nodes = nodes.clone();
            async move {
                let labelled = ListParams::default().labels(label);
                let what = format!("control-plane nodes of cluster {cluster}");
                let read = |params: ListParams| {
                    let nodes = nodes.clone();
                    async move { nodes.list(&params).await }
                };
                list_pages(&what, &labelled, read).await
            }
        });
        let listed = try_join_all(lists).await?.into_iter().flatten();
        let mut found: BTreeMap<String, Node> = listed.map(|n| (n.name_any(), n)).collect();
        let unlisted = named.filter(|name| !found.contains_key(*name));
        let reads = unlisted.map(|name| {
            let nodes = nodes.clone();
            async move {
                let node = optional(call(format!("node {name}"), nodes.get(name)).await)?;
                Ok::<_, ApiError>(node.map(|node| (name.to_owned(), node)))
            }
        });
        let read = try_join_all(reads).await?;
        found.extend(read.into_iter().flatten());
        Ok(found)
    }
}
