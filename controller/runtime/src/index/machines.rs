//! Machines, packed, and how they are found.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kube::api::DynamicObject;
use rackhand_api::{names::CONTROL_PLANE_LABEL, views::MachineView};

use super::{Entry, Index, Inner, Link, Packed, Slot, is_less, readable};
use crate::object::Key;

impl Index {
    pub(crate) fn machine(&self, key: &Key) -> Option<Entry<MachineView>> {
        let packed = self.inner.read().machines.get(key)?.packed.clone();
        machine(&packed)
    }

    /// Whether a Machine has a condition of this type, in either list. Quicker than to read it.
    pub(crate) fn machine_mentions(&self, key: &Key, condition: &str) -> bool {
        let inner = self.inner.read();
        let slot = inner.machines.get(key);
        slot.is_some_and(|slot| slot.packed.mentions(condition))
    }

    /// The Machines of a namespace whose labels are wanted, in the order of their names. Each set of
    /// labels is looked at once.
    pub(crate) fn select_machines(
        &self,
        namespace: &str,
        wanted: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Vec<Entry<MachineView>> {
        let mut known: HashMap<*const u8, bool> = HashMap::new();
        let fits = |slot: &Slot| {
            // Labels are of the frame, which stays where it is while the slots hold it.
            let frame = Arc::as_ptr(slot.packed.frame()).cast::<u8>();
            *known.entry(frame).or_insert_with(|| {
                let labels = machine(&slot.packed).and_then(|e| e.object.metadata.labels.clone());
                wanted(&labels.unwrap_or_default())
            })
        };
        let packed = self.packed_machines(namespace, fits);
        packed.iter().filter_map(machine).collect()
    }

    /// The Machines of control planes in a namespace, in the order of their names.
    pub(crate) fn control_planes_in(&self, namespace: &str) -> Vec<Entry<MachineView>> {
        let fits = |slot: &Slot| slot.packed.mentions(CONTROL_PLANE_LABEL);
        let packed = self.packed_machines(namespace, fits);
        packed.iter().filter_map(machine).collect()
    }

    /// Copies, so that nobody reads objects under the lock.
    fn packed_machines(&self, namespace: &str, mut fits: impl FnMut(&Slot) -> bool) -> Vec<Packed> {
        let inner = self.inner.read();
        let from = Key::new(namespace, "");
        inner
            .machines
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .filter(|(_, slot)| fits(slot))
            .map(|(_, slot)| slot.packed.clone())
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
            && machine(&old.packed).is_some_and(|e| e.object.metadata.uid == object.metadata.uid)
        {
            return false;
        }
        let Ok(value) = serde_json::to_value(object) else {
            return false;
        };
        self.unlink(key);
        let slot = Slot {
            packed: self.frames.pack(&value),
            version: object.metadata.resource_version.clone(),
        };
        self.machines.insert(key.clone(), slot);
        if let Some((node, link)) = link(key, MachineView::from_dynamic(object).ok()) {
            self.by_node.entry(node).or_default().push(link);
        }
        true
    }

    pub(super) fn unlink(&mut self, key: &Key) {
        let view = self
            .machines
            .get(key)
            .and_then(|slot| machine(&slot.packed));
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

/// How a Machine is found by its Node.
fn link(key: &Key, view: Option<MachineView>) -> Option<(Box<str>, Link)> {
    let view = view?;
    let link = Link {
        cluster: Key::new(&key.namespace, view.cluster_name?),
        machine: key.clone(),
    };
    Some((view.node_name?.into(), link))
}

fn machine(packed: &Packed) -> Option<Entry<MachineView>> {
    let object: DynamicObject = readable(packed)?;
    let view = MachineView::from_dynamic(&object).map(Arc::new);
    Some(Entry {
        object: Arc::new(object),
        view,
    })
}
