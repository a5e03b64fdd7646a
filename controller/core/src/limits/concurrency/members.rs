//! The other machines of a control plane, joined from its Machines and its Nodes (F6).
//!
//! Must never: count a machine twice, or call one healthy because only one of its two objects says so.

use std::collections::{BTreeMap, BTreeSet};

use super::OtherMachine;
use crate::fleet::roles::Roles;

/// A Machine of a control plane, as its object shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlaneMachine {
    /// Its name.
    pub name: String,
    /// The Node that it names.
    pub node: Option<String>,
    /// Its roles by its labels.
    pub roles: Roles,
    /// Whether its condition of etcd is true; `None` if it has none.
    pub etcd_healthy: Option<bool>,
}

/// A Node of a control plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PlaneNode {
    /// Its roles by its labels.
    pub roles: Roles,
    /// Whether it is Ready.
    pub ready: bool,
}

/// The machines beside this one, each once. A machine has a role that its Machine or its Node shows, and is healthy
/// if its Node is Ready and its condition of etcd, where it has one, is true: KubeadmControlPlane's condition alone
/// may be older than the failure of the Node.
///
/// Where Machines list the control plane, a Node without a Machine counts only with the role of etcd: RKE2 and k3s
/// remove a member with its Node, and other providers leave Nodes behind. `node` is the name of this machine's Node,
/// `machine` its own roles by its Machine, if it has one.
pub fn other_machines(
    node: Option<&str>,
    machine: Option<Roles>,
    machines: &[PlaneMachine],
    nodes: &BTreeMap<String, PlaneNode>,
) -> Vec<OtherMachine> {
    let mut of_machines: BTreeSet<&str> = node.into_iter().collect();
    of_machines.extend(
        machines
            .iter()
            .filter_map(|machine| machine.node.as_deref()),
    );
    let of_machine = |machine: &PlaneMachine| {
        let name = machine.node.as_ref();
        let node = name.and_then(|name| nodes.get(name)).copied();
        OtherMachine {
            name: name.unwrap_or(&machine.name).clone(),
            roles: machine.roles.or(node.unwrap_or_default().roles),
            is_healthy: node.is_some_and(|node| node.ready) && machine.etcd_healthy.unwrap_or(true),
        }
    };
    let mut roles = machine.into_iter().chain(machines.iter().map(|m| m.roles));
    let lists_plane = roles.any(Roles::is_control_plane);
    let without_machine = nodes.iter().filter(|(name, node)| {
        let counts = node.roles.etcd || node.roles.control_plane && !lists_plane;
        counts && !of_machines.contains(name.as_str())
    });
    let without_machine = without_machine.map(|(name, node)| OtherMachine {
        name: name.clone(),
        roles: node.roles,
        is_healthy: node.ready,
    });
    let with_machine = machines.iter().map(of_machine);
    with_machine.chain(without_machine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: Roles = Roles {
        etcd: true,
        control_plane: false,
    };
    const PLANE: Roles = Roles {
        etcd: false,
        control_plane: true,
    };

    fn machine(name: &str, node: Option<&str>, etcd_healthy: Option<bool>) -> PlaneMachine {
        PlaneMachine {
            name: name.into(),
            node: node.map(Into::into),
            roles: PLANE,
            etcd_healthy,
        }
    }

    fn nodes<const N: usize>(all: [(&str, Roles, bool); N]) -> BTreeMap<String, PlaneNode> {
        let all = all.map(|(name, roles, ready)| (name.to_owned(), PlaneNode { roles, ready }));
        all.into()
    }

    fn healthy(others: &[OtherMachine]) -> Vec<(&str, bool)> {
        let names = others
            .iter()
            .map(|other| (other.name.as_str(), other.is_healthy));
        names.collect()
    }

    #[test]
    fn f6_other_machine_is_healthy_by_both_of_its_objects() {
        let machines = [
            machine("b", Some("nb"), None),
            machine("c", Some("nc"), Some(false)),
            machine("d", Some("nd"), Some(true)),
            machine("e", Some("ne"), Some(true)),
            machine("f", None, Some(true)),
        ];
        let nodes = nodes([
            ("nb", PLANE, true),
            ("nc", PLANE, true),
            ("nd", PLANE, false),
        ]);
        let others = other_machines(Some("na"), Some(PLANE), &machines, &nodes);
        // The Node of `e` is gone, and `f` has none yet.
        let expected = [
            ("nb", true),
            ("nc", false),
            ("nd", false),
            ("ne", false),
            ("f", false),
        ];
        assert_eq!(healthy(&others), expected);
    }

    #[test]
    fn f6_node_without_machine_counts_by_etcd_or_where_no_machine_lists_the_plane() {
        let nodes = nodes([
            ("me", PLANE, false),
            ("left", PLANE, true),
            ("member", ETCD, true),
            ("worker", Roles::default(), true),
        ]);
        let others = |machine| other_machines(Some("me"), machine, &[], &nodes);
        assert_eq!(healthy(&others(Some(PLANE))), [("member", true)]);
        let both = [("left", true), ("member", true)];
        assert_eq!(healthy(&others(None)), both);
        assert_eq!(healthy(&others(Some(Roles::default()))), both);
        // This machine's own Node, and one that a Machine names, are no further machines.
        let named = [machine("m", Some("member"), None)];
        let others = other_machines(Some("me"), None, &named, &nodes);
        assert_eq!(healthy(&others), [("member", true)]);
        assert_eq!(others[0].roles, ETCD.or(PLANE));
    }
}
