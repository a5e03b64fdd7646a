//! BareMetalHosts by name, UID and consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::api::DynamicObject;
use rackhand_api::views::BareMetalHostView;

use super::table::Table;
use crate::store::object::Key;

/// A lookup key of a BareMetalHost, besides its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostLink {
    /// The UID of the BareMetalHost.
    Uid(String),
    /// Kind, namespace and name of its consumer.
    Consumer(String, Key),
}

/// BareMetalHosts by their links.
#[derive(Default)]
struct HostLinks(BTreeMap<HostLink, BTreeSet<Key>>);

fn links(key: &Key, bmh: &BareMetalHostView) -> BTreeSet<HostLink> {
    let uid = Some(&bmh.meta.uid).filter(|uid| !uid.is_empty());
    let consumer = bmh.consumer.as_ref().and_then(|consumer| {
        let namespace = consumer.namespace.as_ref().unwrap_or(&key.namespace);
        let of = Key::new(namespace, consumer.name.as_ref()?);
        Some(HostLink::Consumer(consumer.kind.clone()?, of))
    });
    let uid = uid.cloned().map(HostLink::Uid);
    uid.into_iter().chain(consumer).collect()
}

impl HostLinks {
    /// Replaces the links of a BareMetalHost.
    fn replace(
        &mut self,
        key: &Key,
        old: Option<&BareMetalHostView>,
        new: Option<&BareMetalHostView>,
    ) {
        let of = |view: Option<&BareMetalHostView>| {
            view.map(|view| links(key, view)).unwrap_or_default()
        };
        let (old, new) = (of(old), of(new));
        for link in old.difference(&new) {
            if let Some(keys) = self.0.get_mut(link) {
                keys.remove(key);
                if keys.is_empty() {
                    self.0.remove(link);
                }
            }
        }
        for link in new.difference(&old) {
            self.0.entry(link.clone()).or_default().insert(key.clone());
        }
    }
}

/// All BareMetalHosts.
#[derive(Default)]
pub(super) struct Hosts {
    table: Table<BareMetalHostView>,
    links: HostLinks,
}

impl Hosts {
    pub(super) fn put(&mut self, key: &Key, object: Arc<DynamicObject>) -> bool {
        let old = self.view(key);
        let taken = self.table.put(key, object, BareMetalHostView::from_dynamic);
        let new = self.view(key);
        self.links.replace(key, old.as_deref(), new.as_deref());
        taken
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let old = self.table.remove(key).and_then(|entry| entry.view.ok());
        self.links.replace(key, old.as_deref(), None);
    }

    fn view(&self, key: &Key) -> Option<Arc<BareMetalHostView>> {
        self.table.get(key)?.view.clone().ok()
    }

    pub(super) fn table(&self) -> &Table<BareMetalHostView> {
        &self.table
    }

    /// The BareMetalHosts with this link.
    pub(super) fn by_link(&self, link: &HostLink) -> Vec<Key> {
        let keys = self.links.0.get(link);
        keys.into_iter().flatten().cloned().collect()
    }
}
