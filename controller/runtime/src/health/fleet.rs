//! The fleet of a check as the index has it, for whoever only looks.
//!
//! Must never judge, nor ask an API.

use std::sync::Arc;

use rackhand_api::{
    names::CLUSTER_NAME_LABEL,
    views::{ClusterView, MachineHealthCheckView, MachineView, Meta},
};
use rackhand_core::health::{Check, ClusterFacts, RequestView, Target};

use super::facts;
use crate::{index::Index, object::Key};

/// The selected Machines, in the order of their names.
#[derive(Default)]
pub(crate) struct Fleet {
    pub(crate) targets: Vec<(Arc<MachineView>, Target)>,
    /// Machines that do not read, and why: they are left out.
    pub(crate) unread: Vec<String>,
}

/// The rules of a check, as if nothing were paused.
pub(crate) fn rules(view: &MachineHealthCheckView) -> Check {
    facts::check(view, false)
}

/// What a check looks at in its Cluster.
pub(crate) fn cluster_facts(view: &ClusterView) -> ClusterFacts {
    facts::cluster(view)
}

/// The Machines that a check selects, with Node and request.
pub(crate) fn fleet(
    index: &Index,
    view: &MachineHealthCheckView,
    cluster: &Key,
    request: impl Fn(&MachineView) -> RequestView,
) -> Fleet {
    let mut fleet = Fleet::default();
    for entry in index.machines_in(&cluster.namespace) {
        let machine = match entry.view {
            Ok(machine) => machine,
            Err(error) => {
                fleet.unread.push(error.to_string());
                continue;
            }
        };
        let labelled = machine.meta.labels.get(CLUSTER_NAME_LABEL);
        if labelled != Some(&cluster.name) || !view.selector.matches(&machine.meta.labels) {
            continue;
        }
        let target = Target {
            node: facts::node(index, cluster, machine.node_name.as_deref()),
            machine: facts::machine(&machine),
            request: request(&machine),
        };
        fleet.targets.push((machine, target));
    }
    fleet
}

/// Whose request this is.
pub(crate) fn request_of(machine: &MachineView, request: &Meta) -> RequestView {
    let owners: Vec<_> = request
        .owners
        .iter()
        .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
        .collect();
    facts::request(machine, &owners, request.is_deleting())
}
