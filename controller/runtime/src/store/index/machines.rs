//! Machines and their lookup by label and Node.
//!
//! Machines are kept as JSON text, because a Machine that is parsed into maps and strings takes several times
//! as much memory, there are tens of thousands, and few of them are read at a time.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use kube::api::DynamicObject;
use rackhand_api::views::MachineView;
use serde::{Deserialize, de::DeserializeOwned};

use super::table::{Entry, is_less, keys_after};
use crate::store::object::Key;

/// A Machine as JSON, and its resourceVersion.
struct StoredMachine {
    json: Arc<str>,
    version: Option<String>,
}

/// The labels of a Machine. The rest of its JSON is skipped.
#[derive(Deserialize)]
struct Labelled {
    metadata: Labels,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// All Machines of Cluster API.
#[derive(Default)]
pub(super) struct Machines {
    stored: BTreeMap<Key, StoredMachine>,
    /// Machines by the name of their Node. Nodes of several clusters may have the same name.
    by_node: BTreeMap<Box<str>, Vec<Link>>,
}

/// A Machine with the Node that its nodeRef names.
#[derive(PartialEq)]
pub(super) struct Link {
    pub(super) cluster: Key,
    pub(super) machine: Key,
}

impl Machines {
    pub(super) fn put(&mut self, key: &Key, object: &DynamicObject) -> bool {
        if let Some(old) = self.stored.get(key)
            && is_less(
                object.metadata.resource_version.as_deref(),
                old.version.as_deref(),
            )
            && machine(&old.json).is_some_and(|e| e.object.metadata.uid == object.metadata.uid)
        {
            return false;
        }
        let Ok(json) = serde_json::to_string(object) else {
            return false;
        };
        self.unlink(key);
        let stored = StoredMachine {
            json: json.into(),
            version: object.metadata.resource_version.clone(),
        };
        self.stored.insert(key.clone(), stored);
        if let Some((node, link)) = link(key, MachineView::from_dynamic(object).ok()) {
            self.by_node.entry(node).or_default().push(link);
        }
        true
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.unlink(key);
        self.stored.remove(key);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.stored.keys()
    }

    /// At most `most` keys after `after`, in their order.
    pub(super) fn keys_after(&self, after: Option<&Key>, most: usize) -> Vec<Key> {
        keys_after(&self.stored, after, most)
    }

    pub(super) fn version(&self, key: &Key) -> Option<String> {
        self.stored.get(key)?.version.clone()
    }

    pub(super) fn json(&self, key: &Key) -> Option<Arc<str>> {
        Some(self.stored.get(key)?.json.clone())
    }

    /// References to the JSON of the Machines of a namespace, so that no object is parsed under the lock.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<str>> {
        let from = self.stored.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, stored)| stored.json.clone())
            .collect()
    }

    /// The Machines whose nodeRef has this name, in all clusters.
    pub(super) fn with_node(&self, node: &str) -> impl Iterator<Item = &Link> {
        self.by_node.get(node).into_iter().flatten()
    }

    /// At most `most` names after `after` of Nodes that nodeRefs have, in their order, each with whether one of them is of
    /// this cluster.
    pub(super) fn nodes_after(
        &self,
        cluster: &Key,
        after: Option<&str>,
        most: usize,
    ) -> Vec<(Box<str>, bool)> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let nodes = self.by_node.range::<str, _>((after, Bound::Unbounded));
        let is_of = |links: &[Link]| links.iter().any(|link| link.cluster == *cluster);
        nodes
            .take(most)
            .map(|(node, links)| (node.clone(), is_of(links)))
            .collect()
    }

    fn unlink(&mut self, key: &Key) {
        let view = self
            .stored
            .get(key)
            .and_then(|stored| machine(&stored.json));
        if let Some((node, gone)) = link(key, view.and_then(|e| e.view.ok()).as_deref().cloned())
            && let Some(links) = self.by_node.get_mut(&node)
        {
            links.retain(|link| *link != gone);
            if links.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}

/// The link from the Node of a Machine to the Machine.
fn link(key: &Key, view: Option<MachineView>) -> Option<(Box<str>, Link)> {
    let view = view?;
    let link = Link {
        cluster: Key::new(&key.namespace, view.cluster_name?),
        machine: key.clone(),
    };
    Some((view.node_name?.into(), link))
}

pub(super) fn machine(json: &str) -> Option<Entry<MachineView>> {
    let object: DynamicObject = read(json)?;
    let view = MachineView::from_dynamic(&object).map(Arc::new);
    Some(Entry {
        object: Arc::new(object),
        view,
    })
}

/// Parses JSON that this index has serialised; a failure would be a bug and is logged.
fn read<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json)
        .inspect_err(|error| tracing::error!(%error, "cannot read a stored Machine"))
        .ok()
}

pub(super) fn mentions(json: &str, text: &str) -> bool {
    json.contains(&format!("\"{text}\""))
}

/// Whether the labels in the JSON of a Machine match. The rest of it is not parsed.
pub(super) fn has_labels(json: &str, wanted: impl Fn(&BTreeMap<String, String>) -> bool) -> bool {
    read::<Labelled>(json).is_some_and(|machine| wanted(&machine.metadata.labels))
}
