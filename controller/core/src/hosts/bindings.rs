//! Which racks may have a Node, by what their agents cannot write (F14).
//!
//! An inventory is the word of an agent. It counts for a Node only within what others say: the RackAgents, the
//! BareMetalHost of the Node, and a label that kubelets may not write.

use std::collections::{BTreeSet, HashMap};

use super::{HostQuery, Racks, names};

/// The Nodes that RackAgents name, by name and by prefix: a Node is looked up in the same time, however many
/// racks there are.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedNodes {
    racks: HashMap<String, BTreeSet<String>>,
}

impl NamedNodes {
    pub(super) fn add(&mut self, rack: &str, patterns: &[String]) {
        for pattern in patterns {
            let racks = self.racks.entry(pattern.clone()).or_default();
            racks.insert(rack.to_owned());
        }
    }

    pub(super) fn remove(&mut self, rack: &str, patterns: &[String]) {
        for pattern in patterns {
            if let Some(racks) = self.racks.get_mut(pattern) {
                racks.remove(rack);
                if racks.is_empty() {
                    self.racks.remove(pattern);
                }
            }
        }
    }

    /// The racks that name a Node.
    pub(super) fn naming(&self, node: &str) -> BTreeSet<&str> {
        let ends = node.char_indices().map(|(at, _)| at).chain([node.len()]);
        let prefixes = ends
            .filter_map(|end| node.get(..end))
            .map(|prefix| format!("{prefix}*"));
        let patterns = prefixes.chain([node.to_owned()]);
        let racks = patterns.filter_map(|pattern| self.racks.get(&pattern));
        racks.flatten().map(String::as_str).collect()
    }
}

/// The racks that may have a Node, by each source that names any.
pub(super) struct Binding<'a> {
    sources: Vec<(String, BTreeSet<&'a str>)>,
    node: Option<&'a str>,
    racks: &'a Racks,
    /// The racks whose RackAgents name the Node.
    named_by: BTreeSet<&'a str>,
}

impl<'a> Binding<'a> {
    pub(super) fn of(wanted: &'a HostQuery, racks: &'a Racks) -> Self {
        let mut sources = Vec::new();
        if let (Some(node), Some(rack)) = (&wanted.node_name, &wanted.node_rack) {
            let label = format!("Node {node} has {}={rack}", super::NODE_RACK_LABEL);
            sources.push((label, BTreeSet::from([rack.as_str()])));
        }
        if let Some(bmh) = &wanted.bmh {
            if let Some(rack) = &bmh.rack {
                let label = format!("BareMetalHost {} has rackhand.dev/rack={rack}", bmh.name);
                sources.push((label, BTreeSet::from([rack.as_str()])));
            }
            let serving = racks.serving(&bmh.address);
            if !serving.is_empty() {
                let network = format!(
                    "the BMC of BareMetalHost {} {} lies in spec.bmcNetworks of rack {}",
                    bmh.name,
                    bmh.address,
                    names(&serving)
                );
                sources.push((network, serving.into_iter().collect()));
            }
        }
        let node = wanted.node_name.as_deref();
        let named_by = node.map(|node| racks.named_nodes.naming(node));
        let named_by = named_by.unwrap_or_default();
        if let Some(node) = node.filter(|_| !named_by.is_empty()) {
            let all: Vec<&str> = named_by.iter().copied().collect();
            let named = format!("spec.nodes of rack {} names Node {node}", names(&all));
            sources.push((named, named_by.clone()));
        }
        Self {
            sources,
            node,
            racks,
            named_by,
        }
    }

    /// Whether anything but inventories says which rack has the Node.
    pub(super) fn is_bound(&self) -> bool {
        !self.sources.is_empty()
    }

    /// What says that the host is in another rack than this one.
    pub(super) fn contradicts(&self, rack: &str) -> impl Iterator<Item = String> {
        let others = self
            .sources
            .iter()
            .filter(move |(_, of)| !of.contains(rack));
        others.map(|(why, _)| why.clone())
    }

    /// Why the inventories of a rack do not count for the Node; `None` if they do.
    pub(super) fn excludes(&self, rack: &str) -> Option<String> {
        let mut others = self.sources.iter().filter(|(_, of)| !of.contains(rack));
        if let Some((why, _)) = others.next() {
            return Some(why.clone());
        }
        let node = self.node.filter(|_| !self.named_by.contains(rack))?;
        let is_limited = self.racks.get(rack).is_some_and(|r| !r.nodes.is_empty());
        is_limited.then(|| format!("spec.nodes of rack {rack} does not name Node {node}"))
    }
}
