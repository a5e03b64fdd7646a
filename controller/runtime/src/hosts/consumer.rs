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

/// Follows the consumer of a BareMetalHost back to the Node. `expected` is the Metal3Machine that the Node
/// names.
///
/// # Errors
/// The consumer does not lead to this Node. The message tells where it leads, and how to name the Node.
pub(super) fn names_node(
    index: &Index,
    key: &Key,
    bmh: &BareMetalHostView,
    node: &Node,
    expected: Option<&str>,
) -> Result<(), String> {
    let name = node.name_any();
    let Some(consumer) = &bmh.consumer else {
        return Err(format!(
            "BareMetalHost {key}, which Node {name} names, has no spec.consumerRef that names it back; set it to \
             kind Node and the name {name}, or name the Node in an agent's inventory"
        ));
    };
    let of = consumer.name.as_deref().unwrap_or_default();
    let consumed = format!("BareMetalHost {key} is consumed by {of}");
    if consumer.kind.as_deref() == Some("Node") {
        return match of == name {
            true => Ok(()),
            false => Err(format!("{consumed}, not by Node {name}")),
        };
    }
    let back = match consumer_of(key, bmh) {
        Some((Kind::Metal3Machine, of)) => by_metal3_machine(index, key, &of, node, expected),
        Some((_, of)) => by_openshift_machine(index, key, &of, node),
        None => {
            let kind = consumer.kind.as_deref().unwrap_or_default();
            Err(format!("{kind} {of} does not tell which Node it runs"))
        }
    };
    back.map_err(|why| format!("{consumed}, and {why}; Node {name} may not run on it"))
}

fn by_metal3_machine(
    index: &Index,
    host: &Key,
    key: &Key,
    node: &Node,
    expected: Option<&str>,
) -> Result<(), String> {
    if let Some(expected) = expected.filter(|expected| *expected != key.name) {
        return Err(format!(
            "not by Metal3Machine {expected}, which the providerID of the Node names"
        ));
    }
    let missing = || format!("Metal3Machine {key} cannot be read");
    let view = index.metal3_machine(key).and_then(|e| e.view.ok());
    let view = view.ok_or_else(missing)?;
    // As in CAPM3, the namespace in the annotation is ignored.
    if view.host.as_ref().is_none_or(|of| of.name != host.name) {
        return Err(format!("Metal3Machine {key} is not linked to it"));
    }
    let owner = view.machine();
    let owner = owner.ok_or_else(|| format!("Metal3Machine {key} has no Machine"))?;
    let of = Key::new(&key.namespace, &owner.name);
    let found = index.machine(&of);
    let found = found.filter(|e| e.object.metadata.uid.as_ref() == Some(&owner.uid));
    let machine = found.and_then(|entry| entry.view.ok());
    let machine =
        machine.ok_or_else(|| format!("Machine {of} of Metal3Machine {key} cannot be read"))?;
    let is_ours = |reference: &ObjectRef| {
        reference.kind.as_deref() == Some(kinds::METAL3_MACHINE)
            && reference.name.as_ref() == Some(&key.name)
    };
    if !machine.infrastructure_ref.as_ref().is_some_and(is_ours) {
        return Err(format!(
            "Machine {of} has another infrastructureRef than Metal3Machine {key}"
        ));
    }
    machine_names(index, &machine, node)
}

fn by_openshift_machine(index: &Index, host: &Key, key: &Key, node: &Node) -> Result<(), String> {
    let found = index.openshift_machine(key).and_then(|e| e.view.ok());
    let machine = found.ok_or_else(|| format!("Machine {key} cannot be read"))?;
    let link = machine.meta.annotations.get(BARE_METAL_HOST_ANNOTATION);
    if link.is_some_and(|link| Key::parse(link) != *host) {
        return Err(format!("Machine {key} is linked to another BareMetalHost"));
    }
    machine_names(index, &machine, node)
}

fn machine_names(index: &Index, machine: &MachineView, node: &Node) -> Result<(), String> {
    if runs(index, machine, node) {
        return Ok(());
    }
    let key = machine_key(machine);
    Err(match &machine.node_name {
        None => format!("the nodeRef of Machine {key} is not set"),
        Some(other) if *other == node.name_any() => {
            format!("the Node {other} of Machine {key} is of another cluster")
        }
        Some(other) => format!("the Node of Machine {key} is {other}"),
    })
}
