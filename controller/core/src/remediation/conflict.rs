//! Which of several remediations may go on (F6).
//!
//! Must never let two act on one host, Machine, Node or BMC, nor two control-plane machines of one
//! cluster at a time.

use jiff::Timestamp;

use super::Because;

/// A remediation that is not finished, as far as others must know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Active {
    /// `Kind namespace/name`, for messages.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Creation time: the older goes first.
    pub created: Timestamp,
    /// Past Pending: the host may have been touched.
    pub begun: bool,
    /// Its Machine, `namespace/name`.
    pub machine: Option<String>,
    /// Its Node, `cluster/name`.
    pub node: Option<String>,
    /// Its BMC.
    pub bmc: Option<String>,
    /// Its cluster, where the Machine is of the control plane.
    pub control_plane_of: Option<String>,
}

/// The control plane that a machine belongs to, without that machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ControlPlane {
    /// Its machines, with this one.
    pub total: u32,
    /// Those besides this one that have a Ready Node.
    pub healthy_others: u32,
}

/// Who stands in the way of `me`, if anybody does.
pub fn conflict(me: &Active, others: &[Active], quorum: Option<ControlPlane>) -> Option<Because> {
    fn same(a: Option<&String>, b: Option<&String>) -> bool {
        a.is_some() && a == b
    }
    for other in others.iter().filter(|o| o.uid != me.uid) {
        let shared = same(me.machine.as_ref(), other.machine.as_ref())
            || same(me.node.as_ref(), other.node.as_ref())
            || same(me.bmc.as_ref(), other.bmc.as_ref())
            || same(
                me.control_plane_of.as_ref(),
                other.control_plane_of.as_ref(),
            );
        if !shared {
            continue;
        }
        let first = (!other.begun, other.created, &other.uid) < (!me.begun, me.created, &me.uid);
        if first {
            return Some(Because::OtherRemediation(other.name.clone()));
        }
    }
    // A majority of the members must stay: etcd, F6. This is asked before each power-off, that of a
    // further attempt included.
    match quorum {
        Some(cp) if cp.healthy_others < cp.total / 2 + 1 => {
            Some(Because::ControlPlaneQuorum(format!(
                "{} of {} members would be left, {} are needed",
                cp.healthy_others,
                cp.total,
                cp.total / 2 + 1
            )))
        }
        _ => None,
    }
}
