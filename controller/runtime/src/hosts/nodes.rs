//! The Nodes of the index, for the resolution of a host.

use kube::ResourceExt;
use rackhand_core::hosts::{HostQuery, KnownNodes, NodeKey, NodeOfCluster};

use crate::store::{
    index::{Index, SeenNode},
    object::Key,
};

/// The Nodes of the index.
pub(super) struct IndexNodes<'a>(pub(super) &'a Index);

impl KnownNodes for IndexNodes<'_> {
    fn find_other(
        &self,
        wanted: &HostQuery,
        identity: NodeKey<'_>,
        cluster: Option<&str>,
    ) -> Option<NodeOfCluster> {
        let is_own = |of: &str| wanted.clusters.iter().any(|own| own == of);
        let is_other = |of: &Key, name: &str, node: &SeenNode| {
            let of = of.to_string();
            let same_name = wanted.node_name.as_deref() == Some(name) && is_own(&of);
            let same_uid = wanted.node_uid.is_some() && node.uid() == wanted.node_uid;
            !same_name && !same_uid && cluster.is_none_or(|cluster| cluster == of)
        };
        let found = self.0.find_node(identity, is_other);
        let found = found.or_else(|| match identity {
            NodeKey::NodeName(name) => self.unseen(wanted, name),
            NodeKey::ProviderId(_) | NodeKey::SystemUuid(_) => None,
        });
        let found = found.filter(|(of, _)| cluster.is_none_or(|name| name == of.to_string()));
        found.map(|(cluster, name)| NodeOfCluster {
            cluster: cluster.to_string(),
            name,
        })
    }
}

impl IndexNodes<'_> {
    /// A Node that a Machine names, in a cluster that is not connected. A Node with the same providerID is the
    /// same Node, in a management cluster that has a Cluster object.
    fn unseen(&self, wanted: &HostQuery, name: &str) -> Option<(Key, String)> {
        let machines = self.0.unseen_machines_with_node(name).into_iter();
        let mut others = machines.filter(|(cluster, machine)| {
            let view = self.0.machine(machine).and_then(|entry| entry.view.ok());
            let provider = view.and_then(|machine| machine.provider_id.clone());
            let is_ours = wanted.node_name.as_deref() == Some(name)
                && (wanted.clusters.contains(&cluster.to_string())
                    || provider.is_some() && provider == wanted.provider_id);
            !is_ours
        });
        others.next().map(|(cluster, _)| (cluster, name.to_owned()))
    }
}
