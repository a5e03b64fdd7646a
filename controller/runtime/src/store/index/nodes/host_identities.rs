//! Nodes of a workload cluster by the identity of their host (F14).
//!
//! A look-up costs the same in a cluster of any size. It may return Nodes that have nothing in common with the host,
//! because it compares hashes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use rackhand_core::remediation::HostIdentity;

use super::SeenNode;

/// Names of Nodes by the hashes of their hosts' identities.
#[derive(Default)]
pub(super) struct HostIdentities(HashMap<u64, BTreeSet<Arc<str>>>);

// === impl HostIdentities ===

impl HostIdentities {
    /// The names of the Nodes that may run on a host, in their order.
    pub(super) fn candidates(&self, host: &HostIdentity) -> Vec<Arc<str>> {
        let keys = host.keys();
        let mut found: Vec<Arc<str>> = self.sets(&keys).flatten().cloned().collect();
        if self.sets(&keys).count() > 1 {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// At least the number of these Nodes. One that has several identities of the host counts for each.
    pub(super) fn count(&self, host: &HostIdentity) -> usize {
        self.sets(&host.keys()).map(BTreeSet::len).sum()
    }

    fn sets<'a>(&'a self, keys: &'a BTreeSet<u64>) -> impl Iterator<Item = &'a BTreeSet<Arc<str>>> {
        keys.iter().filter_map(|key| self.0.get(key))
    }

    /// Replaces the host identities of a Node.
    pub(super) fn replace(&mut self, name: &str, old: Option<&SeenNode>, new: Option<&SeenNode>) {
        let keys =
            |node: Option<&SeenNode>| node.map(|node| node.identity().keys()).unwrap_or_default();
        let (before, after) = (keys(old), keys(new));
        for key in before.difference(&after) {
            if let Some(nodes) = self.0.get_mut(key) {
                nodes.remove(name);
                if nodes.is_empty() {
                    self.0.remove(key);
                }
            }
        }
        let shared: Arc<str> = name.into();
        for key in after.difference(&before) {
            self.0.entry(*key).or_default().insert(shared.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{index::Index, object::Key};

    fn cluster() -> Key {
        Key::new("ns", "c")
    }

    fn apply(index: &Index, name: &str, uuid: &str, provider: &str, ready: &str) {
        let node = json!({
            "metadata": { "name": name, "uid": name },
            "spec": { "providerID": provider },
            "status": {
                "nodeInfo": { "systemUUID": uuid },
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        });
        let node = serde_json::from_value(node).unwrap();
        index.apply_seen_node(&cluster(), node);
    }

    #[test]
    fn f14_nodes_of_a_host_are_found_by_each_identifier_and_follow_changes() {
        let index = Index::new(Vec::new());
        let uuid = "4c4c4544-0042-3310-8051-b4c04f4e4d32";
        apply(&index, "old", uuid, "", "Unknown");
        apply(&index, "by-uuid", &uuid.to_uppercase(), "", "True");
        apply(&index, "by-provider", "", "metal3://ns/h/other", "True");
        apply(&index, "old.example.org", "", "", "True");
        apply(&index, "h", "", "", "False");
        apply(&index, "another", "", "k3s://another", "True");
        let host = HostIdentity {
            node: Some("old".into()),
            node_uuid: uuid.into(),
            names: ["h".to_owned()].into(),
            bare_metal_host: Some(("ns/h".into(), "u".into())),
            ..HostIdentity::default()
        };
        let found = || {
            let names = index.names_on_host(&cluster(), &host).into_iter();
            names
                .filter_map(|name| index.node_on_host(&cluster(), &name, &host))
                .map(|(node, ready)| (node.name, ready))
                .collect::<Vec<_>>()
        };
        let named = |name: &str, ready| (name.to_owned(), ready);
        assert_eq!(
            found(),
            [
                named("by-provider", true),
                named("by-uuid", true),
                named("h", false),
                named("old.example.org", true),
            ]
        );
        apply(&index, "by-uuid", "", "", "True");
        index.delete_node(&cluster(), "by-provider");
        apply(&index, "h", "", "", "True");
        assert_eq!(found(), [named("h", true), named("old.example.org", true)]);
        index.forget_workload(&cluster());
        assert_eq!(found(), []);
    }
}
