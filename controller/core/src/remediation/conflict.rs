//! Which of several remediations may go on (F6).
//!
//! Must never let two act on one host, Machine, Node or BMC, nor two control-plane machines of one
//! cluster at a time; nor let one that cannot go on hold up those that can.

use jiff::Timestamp;

use super::{Because, Mode, State, Step};

/// How far a remediation has come in taking its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Turn {
    /// It has nothing in hand and waits for something else than other remediations: it stands in
    /// nobody's way.
    Waits,
    /// It has nothing in hand and would begin: the oldest of these goes first.
    Ready,
    /// It has taken its turn: its host may be held, or switched, from now on.
    Begun,
}

impl Turn {
    /// By what is written. Between two attempts nothing is in hand, as before the first; and nothing
    /// is once it is over.
    pub fn of(state: Option<&State>) -> Self {
        match state.map_or(Step::Pending, |s| s.step) {
            Step::Pending | Step::Retrying => Self::Ready,
            step if step.is_terminal() => Self::Waits,
            _ => Self::Begun,
        }
    }
}

/// A remediation that is not finished, as far as others must know it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Active {
    /// `Kind namespace/name`, for messages.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Creation time: the older goes first.
    pub created: Timestamp,
    /// How far it has come in taking its turn.
    pub turn: Turn,
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
    /// Why the members cannot be read, where they cannot.
    pub unread: Option<String>,
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
    /// Why not, as medik8s reads it (docs/reference/medik8s.md, Evaluation): a member that is down already costs nothing
    /// more.
    pub fn refuses(self) -> Option<String> {
        match self.budgets {
            1 if self.allowed >= 1 || !self.member_ready => None,
            1 => Some("the etcd guard allows no disruption now".into()),
            n => Some(format!(
                "openshift-etcd has {n} PodDisruptionBudgets, one is expected"
            )),
        }
    }
}

impl ControlPlane {
    /// Its members cannot be read: nothing may be switched off then.
    pub fn unknown(why: String) -> Self {
        Self {
            total: 1,
            healthy_others: 1,
            guard: None,
            unread: Some(why),
        }
    }

    /// A majority of the members must stay: etcd, F6. This is asked before each power-off, that of a
    /// further attempt included; `None`: it stays.
    pub fn costs_quorum(&self) -> Option<Because> {
        if let Some(why) = &self.unread {
            let why = format!("the members of the control plane cannot be read: {why}");
            return Some(Because::ControlPlaneQuorum(why));
        }
        let needed = self.total / 2 + 1;
        if self.healthy_others < needed {
            return Some(Because::ControlPlaneQuorum(format!(
                "{} of {} members would be left, {needed} are needed",
                self.healthy_others, self.total
            )));
        }
        match self.guard.as_ref()? {
            Ok(guard) => guard.refuses(),
            Err(why) => Some(format!("the etcd guard cannot be asked: {why}")),
        }
        .map(Because::ControlPlaneQuorum)
    }
}

/// Nothing was sent yet, and no hold was set for which baremetal-operator would switch off: the
/// quorum is read once more.
pub fn before_first_off(state: &State) -> bool {
    let first = state.tries == 0 && state.fences == 0;
    match state.step {
        Step::Holding => true,
        Step::PoweringOff => state.mode == Mode::Direct && first,
        _ => false,
    }
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RightOfWay {
    /// Who or what stands in the way; `None`: nobody.
    pub because: Option<Because>,
    /// The turn of the one that asked. Where nobody stands in its way it has begun with this very
    /// answer: everybody who asks later must be shown that.
    pub turn: Turn,
}

/// Whether it is the turn of `me`. One that has begun is told only of its control plane, where that
/// was asked once more. The answers of one process must be given, and kept, one after the
/// other: of two that could begin at the same moment the second sees that the first has.
pub fn conflict<'a>(
    me: &Active,
    others: impl IntoIterator<Item = &'a Active>,
    quorum: Option<ControlPlane>,
) -> RightOfWay {
    fn same(a: Option<&String>, b: Option<&String>) -> bool {
        a.is_some() && a == b
    }
    if me.turn == Turn::Begun {
        return RightOfWay {
            because: quorum.and_then(|plane| plane.costs_quorum()),
            turn: Turn::Begun,
        };
    }
    let rivals: Vec<&Active> = others
        .into_iter()
        .filter(|other| {
            other.uid != me.uid
                && (same(me.machine.as_ref(), other.machine.as_ref())
                    || same(me.node.as_ref(), other.node.as_ref())
                    || same(me.bmc.as_ref(), other.bmc.as_ref())
                    || same(
                        me.control_plane_of.as_ref(),
                        other.control_plane_of.as_ref(),
                    ))
        })
        .collect();
    let named = |other: &&Active| Because::OtherRemediation(other.name.clone());
    let begun = rivals.iter().find(|other| other.turn == Turn::Begun);
    let quorum = quorum.and_then(|plane| plane.costs_quorum());
    // What could cost the quorum waits for a member: perhaps for the one that is next.
    let ready = me.turn == Turn::Ready && quorum.is_none();
    let older = rivals.iter().find(|other| {
        other.turn == Turn::Ready && (other.created, &other.uid) < (me.created, &me.uid)
    });
    let because = begun.map(named).or(quorum).or_else(|| older.map(named));
    RightOfWay {
        turn: match (ready, &because) {
            (false, _) => Turn::Waits,
            (true, Some(_)) => Turn::Ready,
            (true, None) => Turn::Begun,
        },
        because,
    }
}
