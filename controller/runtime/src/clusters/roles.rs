//! The roles of a machine, by the labels of its Node and of its Machine (F6).

use std::collections::BTreeMap;

use rackhand_api::{
    names::{
        NODE_ROLE_ARBITER_LABEL, NODE_ROLE_CONTROL_PLANE_LABEL, NODE_ROLE_ETCD_LABEL,
        NODE_ROLE_MASTER_LABEL, RANCHER_ETCD_ROLE_LABEL,
    },
    views::MachineView,
};
use rackhand_core::fleet::roles::Roles;

/// Labels of Nodes of the control plane.
const CONTROL_PLANE: [&str; 3] = [
    NODE_ROLE_CONTROL_PLANE_LABEL,
    NODE_ROLE_MASTER_LABEL,
    NODE_ROLE_ARBITER_LABEL,
];
/// Labels of Nodes with a role. [`node_roles`] knows each of them.
pub(crate) const NODE_ROLES: [&str; 4] = [
    NODE_ROLE_ETCD_LABEL,
    NODE_ROLE_CONTROL_PLANE_LABEL,
    NODE_ROLE_MASTER_LABEL,
    NODE_ROLE_ARBITER_LABEL,
];

/// The roles of a Node with these labels.
pub(crate) fn node_roles(labels: &BTreeMap<String, String>) -> Roles {
    Roles {
        etcd: labels.contains_key(NODE_ROLE_ETCD_LABEL),
        control_plane: CONTROL_PLANE
            .iter()
            .any(|label| labels.contains_key(*label)),
    }
}

/// The roles of a Machine of Cluster API.
pub(crate) fn machine_roles(machine: &MachineView) -> Roles {
    Roles {
        etcd: machine.meta.has_label(RANCHER_ETCD_ROLE_LABEL),
        control_plane: machine.is_control_plane(),
    }
}
