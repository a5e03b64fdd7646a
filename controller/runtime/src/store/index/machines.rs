//! Machines and their lookup by label and Node.
//!
//! Machines are kept as JSON text, because a Machine that is parsed into maps and strings takes several times
//! as much memory, there are tens of thousands, and few of them are read at a time.

use std::{collections::BTreeMap, sync::Arc};

use kube::api::DynamicObject;
use rackhand_api::{
    names::{CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL},
    views::MachineView,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Entry, Index, Inner, Link, is_less};
use crate::store::object::Key;

/// A Machine as JSON, and its resourceVersion.
pub(super) struct StoredMachine {
    json: Arc<str>,
    pub(super) version: Option<String>,
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

impl Index {
    pub(crate) fn machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        let json = self.inner.read().machines.get(key)?.json.clone();
        machine(&json)
    }

    /// Whether the JSON of a Machine contains this quoted text, for example the type of a condition in either
    /// list. Faster than parsing it, and also true if the text has another meaning there.
    pub(crate) fn machine_mentions(&self, key: &Key, text: &str) -> bool {
        let inner = self.inner.read();
        inner
            .machines
            .get(key)
            .is_some_and(|stored| mentions(&stored.json, text))
    }

    /// The Machines of a namespace whose labels match, ordered by name.
    pub(crate) fn select_machines(
        &self,
        namespace: &str,
        wanted: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Vec<Entry<MachineView>> {
        let stored = self.stored_machines(namespace);
        let fits = |json: &&Arc<str>| {
            read::<Labelled>(json).is_some_and(|machine| wanted(&machine.metadata.labels))
        };
        let selected = stored.iter().filter(fits);
        selected.filter_map(|json| machine(json)).collect()
    }

    /// The Machines in a namespace of control planes, or with the role of etcd, ordered by name.
    pub(crate) fn control_planes_in(&self, namespace: &str) -> Vec<Entry<MachineView>> {
        const ROLES: [&str; 2] = [CONTROL_PLANE_LABEL, RANCHER_ETCD_ROLE_LABEL];
        let mut stored = self.stored_machines(namespace);
        stored.retain(|json| ROLES.iter().any(|role| mentions(json, role)));
        let machines = stored.iter().filter_map(|json| machine(json));
        let is_labelled = |entry: &Entry<MachineView>| {
            let labels = entry.object.metadata.labels.as_ref();
            labels.is_some_and(|labels| ROLES.iter().any(|role| labels.contains_key(*role)))
        };
        machines.filter(is_labelled).collect()
    }

    /// Copies references, so that no object is parsed under the lock.
    fn stored_machines(&self, namespace: &str) -> Vec<Arc<str>> {
        let inner = self.inner.read();
        let from = inner.machines.range(Key::new(namespace, "")..);
        from.take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, stored)| stored.json.clone())
            .collect()
    }

    /// The Machines of all clusters whose nodeRef has this name.
    pub(crate) fn machines_with_node(&self, node: &str) -> Vec<Entry<MachineView>> {
        let keys: Vec<Key> = {
            let inner = self.inner.read();
            let links = inner.by_node.get(node).into_iter().flatten();
            links.map(|link| link.machine.clone()).collect()
        };
        keys.iter().filter_map(|key| self.machine(key)).collect()
    }

    /// The Machines whose nodeRef names this Node.
    pub(crate) fn machines_of_node(&self, cluster: &Key, node: &str) -> Vec<Key> {
        let inner = self.inner.read();
        let links = inner.by_node.get(node).into_iter().flatten();
        links
            .filter(|link| link.cluster == *cluster)
            .map(|link| link.machine.clone())
            .collect()
    }
}

impl Inner {
    pub(super) fn put_machine(&mut self, key: &Key, object: &DynamicObject) -> bool {
        if let Some(old) = self.machines.get(key)
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
        self.machines.insert(key.clone(), stored);
        if let Some((node, link)) = link(key, MachineView::from_dynamic(object).ok()) {
            self.by_node.entry(node).or_default().push(link);
        }
        true
    }

    pub(super) fn unlink(&mut self, key: &Key) {
        let view = self
            .machines
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

fn machine(json: &str) -> Option<Entry<MachineView>> {
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

fn mentions(json: &str, text: &str) -> bool {
    json.contains(&format!("\"{text}\""))
}
