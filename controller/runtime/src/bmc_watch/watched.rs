//! Which hosts are read: each member of the fleet with its host, resolved in short slices.

use std::sync::Arc;

use kube::ResourceExt;
use rackhand_core::{
    fleet::watched_hosts::{ResolvedMember, WatchedHosts},
    remediation::{HostRef, HostView},
};

use super::BmcWatch;
use crate::{
    clusters::{node_facts, node_label},
    hosts::{MemberKey, Target, host, selects_own_nodes, target_of_machine, target_of_node},
    store::{
        index::Index,
        object::{Key, Kind},
        time_slice::TimeSlice,
    },
};

/// Members that are listed at once.
const PAGE: usize = 64;

/// A host that may be fenced.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) host: HostRef,
    pub(super) bmh: Option<Key>,
    /// Its cluster and Node.
    pub(super) node: Option<(Key, String)>,
}

/// The hosts of the fleet by rack and name, and the Nodes by the identity of their machines.
pub(super) type Fleet = WatchedHosts<MemberKey, Arc<Watched>>;

/// Resolves every member of the fleet again.
pub(super) async fn resolve(watch: &BmcWatch, all: &mut Fleet) {
    let mut slice = TimeSlice::begin();
    let index = &watch.index;
    all.begin_pass();
    for kind in [Kind::Machine, Kind::OpenShiftMachine] {
        let mut after = None;
        loop {
            let keys = index.keys_after(kind, after.as_ref(), PAGE);
            for key in &keys {
                if let Some(target) = target_of_machine(index, kind, key) {
                    let member = MemberKey::of_machine(kind, key.clone());
                    all.visit(member, resolved(watch, &target));
                }
                slice.pause_if_over().await;
            }
            match keys.into_iter().last() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
    }
    if let Some(selects) = selects_own_nodes(index) {
        let mut after: Option<String> = None;
        loop {
            let nodes = index.nodes_after(&Key::local(), after.as_deref(), PAGE);
            for node in &nodes {
                if selects(node) {
                    let name = node.name_any();
                    let target = target_of_node(&name);
                    all.visit(MemberKey::Node(name), resolved(watch, &target));
                }
                slice.pause_if_over().await;
            }
            match nodes.last() {
                Some(last) => after = Some(last.name_any()),
                None => break,
            }
        }
    }
    all.end_pass();
}

fn resolved(watch: &BmcWatch, target: &Target) -> ResolvedMember<Arc<Watched>> {
    let index: &Index = &watch.index;
    let node = target.cluster.clone().zip(target.node.clone());
    let facts = node.as_ref().and_then(|(cluster, name)| {
        let node = index.node(cluster, name)?;
        Some(node_facts(&node, None))
    });
    let racks = watch.agents.racks();
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
