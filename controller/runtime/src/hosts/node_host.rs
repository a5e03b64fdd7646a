//! The BareMetalHost that a Node without a Machine names.
//!
//! A kubelet may write each of these references, so they only propose a BareMetalHost. Invariant: the consumer
//! of the BareMetalHost must name the Node (F14).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::names::{METAL3_UUID_LABEL, OPENSHIFT_MACHINE_ANNOTATION, kinds};
use rackhand_core::remediation::Reason;

use super::{Linked, consumer::names_node, linked, provider_id};
use crate::store::{
    index::{HostLink, Index},
    object::Key,
};

/// Prefix of CAPM3's providerIDs.
const METAL3_PROVIDER: &str = "metal3://";

/// The references of a Node to a BareMetalHost: CAPM3 writes it into a label and the providerID, OpenShift writes
/// the Machine into an annotation.
struct References<'a> {
    provider: Option<&'a str>,
    label: Option<&'a String>,
    openshift: Option<&'a String>,
}

impl<'a> References<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            provider: provider_id(node).and_then(|id| id.strip_prefix(METAL3_PROVIDER)),
            label: node.labels().get(METAL3_UUID_LABEL),
            openshift: node.annotations().get(OPENSHIFT_MACHINE_ANNOTATION),
        }
    }

    fn is_empty(&self) -> bool {
        self.provider.is_none() && self.label.is_none() && self.openshift.is_none()
    }

    /// The BareMetalHosts that the references name.
    fn find(&self, index: &Index) -> BTreeSet<Key> {
        let mut found = BTreeSet::new();
        let mut add = |link: HostLink| found.extend(index.hosts_by(&link));
        if let Some(uid) = self.label {
            add(HostLink::Uid(uid.clone()));
        }
        if let Some(machine) = self.openshift {
            add(HostLink::Consumer(
                kinds::MACHINE.to_owned(),
                Key::parse(machine),
            ));
        }
        let mut parts = self.provider.into_iter().flat_map(|p| p.split('/'));
        match (parts.next(), parts.next()) {
            (Some(uid), None) => add(HostLink::Uid(uid.to_owned())),
            (Some(namespace), Some(name)) => {
                let key = Key::new(namespace, name);
                let is_known = index.host(&key).is_some();
                found.extend(is_known.then_some(key));
            }
            _ => {}
        }
        found
    }

    /// The Metal3Machine in the providerID.
    fn metal3_machine(&self) -> Option<&'a str> {
        self.provider?.split('/').nth(2)
    }
}

/// The BareMetalHosts that the references of a Node name; `None` if the Node has no reference.
pub(crate) fn named_bmh(index: &Index, node: &Node) -> Option<Vec<Key>> {
    let references = References::of(node);
    if references.is_empty() {
        return None;
    }
    Some(references.find(index).into_iter().collect())
}

/// The BareMetalHost of a Node, by its references and by the consumer. All must match one host.
///
/// # Errors
/// Several BareMetalHosts match, or the consumer of the host does not name the Node.
pub(super) fn host_of_node(index: &Index, node: &Node) -> Result<Linked, Reason> {
    let named = named_bmh(index, node).unwrap_or_default();
    let key = match named.as_slice() {
        [] => return Ok((None, None)),
        [key] => key,
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(Reason::HostAmbiguous(format!(
                "Node {} fits the BareMetalHosts {}",
                node.name_any(),
                names.join(", ")
            )));
        }
    };
    let Some(bmh) = index.host(key).and_then(|entry| entry.view.ok()) else {
        return Ok((None, None));
    };
    let metal3_machine = References::of(node).metal3_machine();
    match names_node(index, key, &bmh, node, metal3_machine) {
        Ok(()) => Ok(linked(key, &bmh)),
        Err(error) => Err(Reason::HostNotFound(error.to_string())),
    }
}
