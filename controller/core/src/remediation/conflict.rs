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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlPlane {
    /// Its machines, with this one.
    pub total: u32,
    /// Those besides this one whose etcd member is healthy, or, where nobody says that, whose Node is
    /// Ready.
    pub healthy_others: u32,
    /// OpenShift's own guard of etcd, where there is one.
    pub guard: Option<Result<EtcdGuard, String>>,
}

/// What OpenShift's PodDisruptionBudget of etcd says; `Err` of it: it cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtcdGuard {
    /// PodDisruptionBudgets in openshift-etcd; there should be one.
    pub budgets: usize,
    /// `status.disruptionsAllowed` of it.
    pub allowed: i32,
    /// The guard pod of this very Node is ready, or nobody knows that it is not.
    pub member_ready: bool,
}

impl EtcdGuard {
    /// As medik8s reads it (nodehealthcheck.md 2): a member that is down already costs nothing more.
    fn refuses(self) -> Option<String> {
        match self.budgets {
            1 if self.allowed >= 1 || !self.member_ready => None,
            1 => Some("the etcd guard allows no disruption now".into()),
            n => Some(format!(
                "openshift-etcd has {n} PodDisruptionBudgets, one is expected"
            )),
        }
    }
}

/// Who stands in the way of `me`, if anybody does.
pub fn conflict<'a>(
    me: &Active,
    others: impl IntoIterator<Item = &'a Active>,
    quorum: Option<ControlPlane>,
) -> Option<Because> {
    fn same(a: Option<&String>, b: Option<&String>) -> bool {
        a.is_some() && a == b
    }
    for other in others.into_iter().filter(|o| o.uid != me.uid) {
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
    let cp = quorum?;
    let needed = cp.total / 2 + 1;
    if cp.healthy_others < needed {
        return Some(Because::ControlPlaneQuorum(format!(
            "{} of {} members would be left, {needed} are needed",
            cp.healthy_others, cp.total
        )));
    }
    match cp.guard? {
        Ok(guard) => guard.refuses(),
        Err(why) => Some(format!("the etcd guard cannot be asked: {why}")),
    }
    .map(Because::ControlPlaneQuorum)
}
