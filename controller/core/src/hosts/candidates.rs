//! The hosts of inventories that may be the host of a Node (F14).
//!
//! An entry that names the Node is its host. A providerID or a system UUID confirms an entry, and finds one only
//! where the entry names no Node and nobody else has the same.

use rackhand_identity::{IdentityMatch, compare_system_uuids};

use super::{HostQuery, InventoryHost, KnownNodes, NodeKey, Racks, bindings::Binding, node_of};

/// Maximum number of hosts with one providerID or system UUID. At most one is the right host; more are not examined.
const SHARED: usize = 64;
/// Refused hosts that a message names.
const NAMED: usize = 4;

/// The hosts that were found, and why others were not.
#[derive(Default)]
pub(super) struct Candidates<'a> {
    pub(super) found: Vec<(&'a str, &'a InventoryHost)>,
    /// Why a host that has a name, providerID or system UUID of the Node is not its host.
    pub(super) refused: Vec<String>,
    /// Hosts that do not count because their rack may not have the Node.
    pub(super) ignored: Vec<String>,
    /// Why a host that has the Node's name is not known to be its host.
    pub(super) ambiguous: Option<String>,
}

/// Looks for the hosts of a Node.
pub(super) struct Search<'a, N> {
    pub(super) wanted: &'a HostQuery,
    pub(super) racks: &'a Racks,
    pub(super) nodes: &'a N,
    pub(super) binding: &'a Binding<'a>,
}

fn push(all: &mut Vec<String>, text: String) {
    if all.len() < NAMED {
        all.push(text);
    }
}

/// A host for messages.
fn entry(rack: &str, host: &InventoryHost) -> String {
    format!("host {} in the inventory of rack {rack}", host.name)
}

impl<'a, N: KnownNodes> Search<'a, N> {
    pub(super) fn run(&self) -> Candidates<'a> {
        let mut all = Candidates::default();
        self.find_named(&mut all);
        let wanted = self.wanted;
        let provider = wanted.provider_id.as_deref().filter(|id| !id.is_empty());
        if let Some(id) = provider.map(NodeKey::ProviderId) {
            self.find_by(id, &mut all);
        }
        let uuid = wanted.system_uuid.as_deref();
        if let Some(uuid) = uuid.and_then(NodeKey::system_uuid) {
            self.find_by(uuid, &mut all);
        }
        all
    }

    /// Whether the rack of a host may have the Node.
    fn counts(&self, rack: &str, host: &InventoryHost, all: &mut Candidates<'a>) -> bool {
        let Some(why) = self.binding.excludes(rack) else {
            return true;
        };
        push(
            &mut all.ignored,
            format!("{} does not count, because {why}", entry(rack, host)),
        );
        false
    }

    /// Whether a host may run Nodes of this cluster.
    fn is_of_cluster(&self, host: &InventoryHost) -> bool {
        host.cluster.is_empty() || self.wanted.clusters.contains(&host.cluster)
    }

    fn find_named(&self, all: &mut Candidates<'a>) {
        let Some(node) = self.wanted.node_name.as_deref() else {
            return;
        };
        for (rack, host) in self.racks.holders(NodeKey::NodeName(node)) {
            if !self.counts(rack, host, all) {
                continue;
            }
            if !self.is_of_cluster(host) {
                let text = format!(
                    "{} runs Node {node} of cluster {}",
                    entry(rack, host),
                    host.cluster
                );
                push(&mut all.refused, text);
                continue;
            }
            all.found.push((rack, host));
            let name = NodeKey::NodeName(node);
            let other = self.nodes.find_other(self.wanted, name, None);
            if let Some(other) = other.filter(|_| host.cluster.is_empty()) {
                all.ambiguous = Some(format!(
                    "{} names Node {node}, and clusters {} and {} have a Node of this name; set cluster = {:?} \
                     or {:?} in that entry",
                    entry(rack, host),
                    self.cluster(),
                    other.cluster,
                    self.cluster(),
                    other.cluster,
                ));
            }
        }
    }

    fn cluster(&self) -> &str {
        let first = self.wanted.clusters.first();
        first.map_or("(unknown)", String::as_str)
    }

    fn find_by(&self, identity: NodeKey<'a>, all: &mut Candidates<'a>) {
        let noun = identity.noun();
        let count = self.racks.count(identity);
        if count > SHARED {
            let text =
                format!("{count} hosts of inventories have its {noun}, so that it finds none");
            push(&mut all.refused, text);
            return;
        }
        let holders: Vec<_> = self.racks.holders(identity).collect();
        let mut allowed = holders
            .into_iter()
            .filter(|(rack, host)| self.counts(rack, host, all))
            .collect::<Vec<_>>();
        if let [(rack, host)] = *allowed.as_slice() {
            let mut found = all.found.iter();
            if found.any(|(_, known)| std::ptr::eq(*known, host)) {
                return;
            }
            match self.why_not(rack, host, identity) {
                None => all.found.push((rack, host)),
                Some(why) => push(&mut all.refused, why),
            }
            return;
        }
        allowed.truncate(NAMED);
        if !allowed.is_empty() {
            let names = allowed.iter().map(|(rack, host)| {
                let node = self.other_node(host);
                let node = node.map_or_else(|| "no Node".to_owned(), |node| format!("Node {node}"));
                format!("{rack}/{} (names {node})", host.name)
            });
            let names = names.collect::<Vec<_>>().join(", ");
            let text = format!("several hosts have its {noun}, so that it finds none: {names}");
            push(&mut all.refused, text);
        }
    }

    /// The Node that an entry names and that is not the one whose host is resolved: by its `node_name`, or by
    /// its own name if that is the name of a Node.
    fn other_node(&self, host: &'a InventoryHost) -> Option<&'a str> {
        let node = node_of(host);
        let cluster = Some(host.cluster.as_str()).filter(|cluster| !cluster.is_empty());
        let name = NodeKey::NodeName(node);
        let is_node = || self.nodes.find_other(self.wanted, name, cluster).is_some();
        let is_named = !host.node_name.is_empty() || is_node();
        let is_ours = self.wanted.node_name.as_deref() == Some(node) && self.is_of_cluster(host);
        (is_named && !is_ours).then_some(node)
    }

    /// Why the only host with this identity is not the host of the Node.
    fn why_not(
        &self,
        rack: &str,
        host: &'a InventoryHost,
        identity: NodeKey<'_>,
    ) -> Option<String> {
        let (noun, wanted) = (identity.noun(), self.wanted);
        let entry = entry(rack, host);
        if !self.is_of_cluster(host) {
            return Some(format!(
                "{entry} has its {noun} and is of cluster {}",
                host.cluster
            ));
        }
        if let Some(node) = self.other_node(host) {
            let here = wanted.node_name.as_deref().unwrap_or("(none)");
            return Some(format!(
                "{entry} has its {noun} but names Node {node}; if it is the host of Node {here}, set node_name = \
                 {here:?} in that entry"
            ));
        }
        if let Some(other) = self.nodes.find_other(wanted, identity, None) {
            return Some(format!(
                "{entry} has its {noun} and names no Node, and Node {} of cluster {} has the same {noun}; set \
                 node_name in that entry",
                other.name, other.cluster
            ));
        }
        let provider = wanted.provider_id.as_deref().unwrap_or_default();
        let ids = [provider, &host.provider_id];
        if ids.iter().all(|id| !id.is_empty()) && provider != host.provider_id {
            return Some(format!(
                "{entry} has its {noun} but another providerID, {}",
                host.provider_id
            ));
        }
        None
    }
}

/// Whether the system UUID of an entry is known to be another than the Node's.
pub(super) fn is_other_system(host: &InventoryHost, wanted: &HostQuery) -> bool {
    let uuid = wanted.system_uuid.as_deref();
    uuid.is_some_and(|uuid| {
        compare_system_uuids(uuid, &host.system_uuid) == IdentityMatch::Different
    })
}
