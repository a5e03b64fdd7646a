//! Conversion of views of Kubernetes objects into facts of the core, for all dialects.

use std::time::Duration;

use rackhand_api::{names::kinds, views::ConditionCheck};
use rackhand_core::checks::machines::{
    Condition, ConditionRule, MachineRemediation, NodeFacts, NodeView,
};

use crate::store::{
    index::{Connection, Index},
    object::{Key, Kind},
};

/// Default startup timeout of Cluster API and OpenShift.
pub(super) const DEFAULT_STARTUP_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) fn rule(check: &ConditionCheck) -> ConditionRule {
    ConditionRule {
        type_: check.condition_type.clone(),
        status: check.status.clone(),
        timeout: check.timeout,
    }
}

/// The Node of a Machine, whether or not its cluster is reachable. A Node that the watch does not show is
/// missing only after a live read has confirmed that (F12).
pub(super) fn node(index: &Index, cluster: &Key, name: Option<&str>) -> NodeView {
    let Some(name) = name else {
        return NodeView::NotJoined;
    };
    match index.seen_node(cluster, name) {
        Some(node) => NodeView::Present(NodeFacts {
            name: name.to_owned(),
            conditions: node
                .conditions()
                .map(|(type_, status, reason, last_transition)| Condition {
                    type_,
                    status,
                    reason: reason.unwrap_or_default(),
                    last_transition,
                })
                .collect(),
        }),
        None if index.is_absent(cluster, name) => NodeView::Missing {
            name: name.to_owned(),
        },
        None => NodeView::Unconfirmed {
            name: name.to_owned(),
        },
    }
}

/// Why nothing is known of a workload cluster, or of the kinds that feed its checks; `None` if they are watched.
pub(super) fn unreachable(index: &Index, cluster: &Key, feeds: &[Kind]) -> Option<String> {
    match index.connection(cluster) {
        Connection::Up => index.lost_watch(feeds),
        Connection::Down(why) => Some(why),
    }
}

/// Whether a remediation with the name of the Machine belongs to the Machine.
pub(super) fn remediation(
    machine_uid: &str,
    owners: &[(String, String, String)],
    deleting: bool,
) -> MachineRemediation {
    let of_machine = |kind: &str| kind == kinds::MACHINE;
    match owners.iter().find(|(kind, _, _)| of_machine(kind)) {
        Some((_, _, uid)) if uid == machine_uid => {
            if deleting {
                MachineRemediation::Deleting
            } else {
                MachineRemediation::Open
            }
        }
        Some((kind, name, uid)) => MachineRemediation::Foreign {
            owner: format!("{kind} {name} (UID {uid})"),
        },
        None => MachineRemediation::Foreign {
            owner: "nothing (it has no ownerReference to a Machine)".into(),
        },
    }
}
