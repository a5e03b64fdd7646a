//! Observes the Node of a remediation in its workload cluster.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rackhand_api::names::{CLUSTER_NAME_LABEL, kubeconfig_secret};
use rackhand_core::remediation::{Progress, State, WorkloadView};

use super::engine::Engine;
use crate::{
    clusters::{RetainedConnection, node_facts},
    hosts::Target,
    store::{
        api::{ApiError, call, optional},
        index::Connection,
        object::{Key, Kind},
    },
};

impl Engine {
    /// Whether the Cluster object of this remediation is gone, by a live read (F12).
    pub(super) async fn removed_cluster(&self, target: &Target) -> Result<bool, ApiError> {
        match &target.cluster {
            Some(cluster)
                if *cluster != Key::local() && self.context.index.cluster(cluster).is_none() =>
            {
                self.is_absent(Kind::Cluster, cluster).await
            }
            _ => Ok(false),
        }
    }

    /// Keeps the workload cluster connected for a remediation that has begun, whether or not its
    /// Cluster object still exists.
    pub(super) fn keep_connected(&mut self, target: &Target, state: Option<&State>) {
        let begun = Progress::of(state) == Progress::Begun;
        let cluster = target.cluster.clone().filter(|_| begun);
        if self.connection.as_ref().map(RetainedConnection::cluster) != cluster.as_ref() {
            self.connection = cluster.map(|cluster| self.context.workloads.keep_for(cluster));
        }
    }

    /// Reads the Node. `removed` tells that the Cluster object is gone.
    pub(super) async fn workload(&mut self, target: &Target, removed: bool) -> WorkloadView {
        self.snapshot.node = None;
        let Some(cluster) = &target.cluster else {
            return WorkloadView::Unreachable {
                why: format!(
                    "neither the Machine nor this object names a Cluster; label this object with \
                     {CLUSTER_NAME_LABEL}=<name of the Cluster>"
                ),
            };
        };
        let context = self.context.clone();
        let index = &context.index;
        if let Connection::Down(why) = index.connection(cluster) {
            if removed {
                return self.removed_workload(target, cluster, &why).await;
            }
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: {why}"),
            };
        }
        let Some(name) = &target.node else {
            return WorkloadView::NotJoined;
        };
        let Some(client) = self.context.workloads.get(cluster) else {
            return WorkloadView::Unreachable {
                why: format!("cluster {cluster}: not connected"),
            };
        };
        let memory = self.context.lease_memory(cluster);
        // Read live, because a watch that lags would show a Node as silent that is back (F5).
        let what = format!("node {name}");
        match client.node(what, name, &memory).await {
            Ok(None) => WorkloadView::Missing { name: name.clone() },
            Ok(Some((node, lease))) => {
                let facts = node_facts(&node, lease);
                self.snapshot.keep_node(&node);
                index.apply_node(cluster, node);
                WorkloadView::Present(facts)
            }
            Err(error) => WorkloadView::Unreachable {
                why: format!("cluster {cluster}: {error}"),
            },
        }
    }

    /// The workload of a Cluster whose object is gone and whose API cannot be reached. It may still
    /// run while the kubeconfig Secret or the Machine exists (F3, F4).
    async fn removed_workload(&self, target: &Target, cluster: &Key, why: &str) -> WorkloadView {
        let remains = match self.remains(target, cluster).await {
            Ok(None) => {
                let name = cluster.to_string();
                return WorkloadView::ClusterGone { name };
            }
            Ok(Some(what)) => format!("{what} still exists"),
            Err(error) => format!("it is not known what is left of it ({error})"),
        };
        WorkloadView::Unreachable {
            why: format!(
                "Cluster {cluster} was removed, but {remains}, so its workload may still run: {why}. \
                 Create the Cluster again; or, if its workload is gone for good, delete its Machines and \
                 its kubeconfig Secret"
            ),
        }
    }

    /// What is left of a removed Cluster by live reads: its kubeconfig Secret, or the Machine.
    async fn remains(&self, target: &Target, cluster: &Key) -> Result<Option<String>, ApiError> {
        let name = kubeconfig_secret(&cluster.name);
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), &cluster.namespace);
        let what = format!("Secret {}/{name}", cluster.namespace);
        if optional(call(&what, secrets.get_metadata(&name)).await)?.is_some() {
            return Ok(Some(what));
        }
        match target.machine_key() {
            Some(machine) if !self.is_absent(Kind::Machine, &machine).await? => {
                Ok(Some(format!("Machine {machine}")))
            }
            _ => Ok(None),
        }
    }
}
