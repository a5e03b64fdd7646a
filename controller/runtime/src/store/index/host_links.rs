//! BareMetalHosts by UID and by consumer.

use std::collections::{BTreeMap, BTreeSet};

use rackhand_api::views::BareMetalHostView;

use super::Index;
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
pub(super) struct HostLinks(BTreeMap<HostLink, BTreeSet<Key>>);

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
    pub(super) fn replace(
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

impl Index {
    /// The BareMetalHosts with this link.
    pub(crate) fn hosts_by(&self, link: &HostLink) -> Vec<Key> {
        let inner = self.inner.read();
        let keys = inner.host_links.0.get(link);
        keys.into_iter().flatten().cloned().collect()
    }
}
