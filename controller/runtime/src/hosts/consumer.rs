//! The consumer of a BareMetalHost, and whether it names a Node.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::{
    names::{BARE_METAL_HOST_ANNOTATION, kinds},
    views::{BareMetalHostView, MachineView, ObjectRef},
};

use super::{machine_key, runs};
use crate::store::{
    index::Index,
    object::{Key, Kind},
};

/// The Metal3Machine or the Machine of OpenShift that consumes a BareMetalHost.
pub(crate) fn consumer_of(key: &Key, bmh: &BareMetalHostView) -> Option<(Kind, Key)> {
    let consumer = bmh.consumer.as_ref()?;
    let kind = match consumer.kind.as_deref()? {
        kinds::METAL3_MACHINE => Kind::Metal3Machine,
        kinds::MACHINE => Kind::OpenShiftMachine,
        _ => return None,
    };
    let namespace = consumer.namespace.as_ref().unwrap_or(&key.namespace);
    Some((kind, Key::new(namespace, consumer.name.as_ref()?)))
}

/// Why a BareMetalHost that a Node names is not taken for its host (F14).
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsumerError {
    #[error(
        "BareMetalHost {host}, which Node {node} names, has no spec.consumerRef that names it back; set it to \
         kind Node and the name {node}, or name the Node in an agent's inventory"
    )]
    NoConsumer { host: Key, node: String },
    #[error("BareMetalHost {host} is consumed by {consumer}, not by Node {node}")]
    OtherNode {
        host: Key,
        consumer: String,
        node: String,
    },
    /// The consumer is no Node, and does not lead to this one.
    #[error(
        "BareMetalHost {host} is consumed by {consumer}, and {link}; Node {node} may not run on it"
    )]
    NotLinked {
        host: Key,
        consumer: String,
        link: Box<LinkError>,
        node: String,
    },
}

/// Where the way from a consumer to its Node ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("{kind} {name} does not tell which Node it runs")]
    UnknownKind { kind: String, name: String },
    #[error("not by Metal3Machine {expected}, which the providerID of the Node names")]
    OtherProviderId { expected: String },
    #[error("{what} cannot be read")]
    Unreadable { what: String },
    #[error("Metal3Machine {0} is not linked to it")]
    OtherHost(Key),
    #[error("Metal3Machine {0} has no Machine")]
    NoMachine(Key),
    #[error("Machine {machine} has another infrastructureRef than Metal3Machine {metal3_machine}")]
    OtherInfrastructure { machine: Key, metal3_machine: Key },
    #[error("Machine {0} is linked to another BareMetalHost")]
    OtherHostOfMachine(Key),
    #[error("the nodeRef of Machine {0} is not set")]
    NoNodeRef(Key),
    #[error("the Node {node} of Machine {machine} is of another cluster")]
    OtherCluster { node: String, machine: Key },
    #[error("the Node of Machine {machine} is {node}")]
    OtherNode { node: String, machine: Key },
}

/// Follows the consumer of a BareMetalHost back to the Node. `expected` is the Metal3Machine that the Node
/// names.
///
/// # Errors
/// The consumer does not lead to this Node.
pub(super) fn names_node(
    index: &Index,
    key: &Key,
    bmh: &BareMetalHostView,
    node: &Node,
    expected: Option<&str>,
) -> Result<(), ConsumerError> {
    let (host, name) = (key.clone(), node.name_any());
    let Some(consumer) = &bmh.consumer else {
        return Err(ConsumerError::NoConsumer { host, node: name });
    };
    let of = consumer.name.clone().unwrap_or_default();
    if consumer.kind.as_deref() == Some("Node") {
        return match of == name {
            true => Ok(()),
            false => Err(ConsumerError::OtherNode {
                host,
                consumer: of,
                node: name,
            }),
        };
    }
    let back = match consumer_of(key, bmh) {
        Some((Kind::Metal3Machine, of)) => by_metal3_machine(index, key, &of, node, expected),
        Some((_, of)) => by_openshift_machine(index, key, &of, node),
        None => Err(LinkError::UnknownKind {
            kind: consumer.kind.clone().unwrap_or_default(),
            name: of.clone(),
        }),
    };
    back.map_err(|link| ConsumerError::NotLinked {
        host,
        consumer: of,
        link: Box::new(link),
        node: name,
    })
}

fn by_metal3_machine(
    index: &Index,
    host: &Key,
    key: &Key,
    node: &Node,
    expected: Option<&str>,
) -> Result<(), LinkError> {
    if let Some(expected) = expected.filter(|expected| *expected != key.name) {
        return Err(LinkError::OtherProviderId {
            expected: expected.to_owned(),
        });
    }
    let unreadable = |what: String| LinkError::Unreadable { what };
    let view = index.metal3_machine(key).and_then(|e| e.view.ok());
    let view = view.ok_or_else(|| unreadable(format!("Metal3Machine {key}")))?;
    // As in CAPM3, the namespace in the annotation is ignored.
    if view.host.as_ref().is_none_or(|of| of.name != host.name) {
        return Err(LinkError::OtherHost(key.clone()));
    }
    let owner = view.machine();
    let owner = owner.ok_or_else(|| LinkError::NoMachine(key.clone()))?;
    let of = Key::new(&key.namespace, &owner.name);
    let found = index.machine(&of);
    let found = found.filter(|e| e.object.metadata.uid.as_ref() == Some(&owner.uid));
    let machine = found.and_then(|entry| entry.view.ok());
    let machine =
        machine.ok_or_else(|| unreadable(format!("Machine {of} of Metal3Machine {key}")))?;
    let is_ours = |reference: &ObjectRef| {
        reference.kind.as_deref() == Some(kinds::METAL3_MACHINE)
            && reference.name.as_ref() == Some(&key.name)
    };
    if !machine.infrastructure_ref.as_ref().is_some_and(is_ours) {
        return Err(LinkError::OtherInfrastructure {
            machine: of,
            metal3_machine: key.clone(),
        });
    }
    machine_names(index, &machine, node)
}

fn by_openshift_machine(
    index: &Index,
    host: &Key,
    key: &Key,
    node: &Node,
) -> Result<(), LinkError> {
    let found = index.openshift_machine(key).and_then(|e| e.view.ok());
    let machine = found.ok_or_else(|| LinkError::Unreadable {
        what: format!("Machine {key}"),
    })?;
    let link = machine.meta.annotations.get(BARE_METAL_HOST_ANNOTATION);
    if link.is_some_and(|link| Key::parse(link) != *host) {
        return Err(LinkError::OtherHostOfMachine(key.clone()));
    }
    machine_names(index, &machine, node)
}

fn machine_names(index: &Index, view: &MachineView, node: &Node) -> Result<(), LinkError> {
    if runs(index, view, node) {
        return Ok(());
    }
    let machine = machine_key(view);
    Err(match view.node_name.clone() {
        None => LinkError::NoNodeRef(machine),
        Some(other) if other == node.name_any() => LinkError::OtherCluster {
            node: other,
            machine,
        },
        Some(node) => LinkError::OtherNode { node, machine },
    })
}
