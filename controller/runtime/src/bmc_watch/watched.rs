//! Which hosts are read: each member of the fleet with its host, resolved in short slices.

use std::sync::Arc;

use kube::{Client, ResourceExt};
use rackhand_core::{
    fleet::watched_hosts::{ResolvedMember, WatchedHosts},
    remediation::{HostRef, HostView},
};
use rackhand_proto::v1;

use crate::{
    agents::AgentConnections,
    clusters::{node_facts, node_label},
    hosts::{
        MemberKey, Target, bmc_endpoint, host, selects_own_nodes, target_of_machine, target_of_node,
    },
    store::{
        index::Index,
        object::{Key, Kind},
        time_slice::TimeSlice,
    },
};

/// A host that may be fenced.
pub(crate) struct Watched {
    pub(crate) host: HostRef,
    pub(crate) bmh: Option<Key>,
    /// Its cluster and Node.
    pub(crate) node: Option<(Key, String)>,
}

impl Watched {
    /// Address and credentials of the BMC, where the agent does not have them.
    ///
    /// # Errors
    /// The BareMetalHost or its Secret cannot be read.
    pub(crate) async fn endpoint(
        &self,
        client: &Client,
        index: &Index,
    ) -> Result<Option<v1::BmcEndpoint>, String> {
        let Some(key) = &self.bmh else {
            return Ok(None);
        };
        let entry = index.host(key).and_then(|entry| entry.view.ok());
        let view = entry.ok_or_else(|| format!("BareMetalHost {key} cannot be read"))?;
        let endpoint = bmc_endpoint(client, key, &view).await;
        endpoint.map(Some).map_err(|error| error.to_string())
    }
}

/// The hosts of the fleet by rack and name, and the Nodes by the identity of their machines.
pub(crate) type Fleet = WatchedHosts<MemberKey, Arc<Watched>>;

/// Resolves every member of the fleet again.
pub(crate) async fn resolve(index: &Index, agents: &AgentConnections, all: &mut Fleet) {
    let mut slice = TimeSlice::begin();
    all.begin_pass();
    for kind in [Kind::Machine, Kind::OpenShiftMachine] {
        for key in index.keys_in_pages(kind) {
            slice.pause_if_over().await;
            if let Some(target) = target_of_machine(index, kind, &key) {
                let member = MemberKey::of_machine(kind, key);
                all.visit(member, resolved(index, agents, &target));
            }
        }
    }
    if let Some(selects) = selects_own_nodes(index) {
        for node in index.nodes_in_pages(&Key::local()) {
            slice.pause_if_over().await;
            if selects(&node) {
                let name = node.name_any();
                let target = target_of_node(&name);
                all.visit(MemberKey::Node(name), resolved(index, agents, &target));
            }
        }
    }
    all.end_pass();
}

fn resolved(
    index: &Index,
    agents: &AgentConnections,
    target: &Target,
) -> ResolvedMember<Arc<Watched>> {
    let node = target.cluster.clone().zip(target.node.clone());
    let facts = node.as_ref().and_then(|(cluster, name)| {
        let node = index.node(cluster, name)?;
        Some(node_facts(&node, None))
    });
    let racks = agents.racks();
    let found = host(index, &racks, target, facts.as_ref(), None);
    drop(racks);
    let label = node
        .as_ref()
        .map(|(cluster, name)| node_label(cluster, name));
    let host = match found.view {
        HostView::Found(host) => {
            let name = format!("{}/{}", host.rack, host.host);
            let bmh = found.bmh;
            Some((name, Arc::new(Watched { host, bmh, node })))
        }
        HostView::NotFound(_) => None,
    };
    ResolvedMember {
        host,
        node: label.zip(facts.map(|facts| facts.system_uuid)),
    }
}
