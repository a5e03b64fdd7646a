//! Concurrency of remediations: which one may begin (F6).
//!
//! Invariants: no two remediations act on one host, Machine, Node or BMC, nor on two control-plane
//! machines of one cluster at a time; and a remediation that cannot begin blocks no other.

mod members;
mod urgency;

pub use members::{PlaneMachine, PlaneNode, other_machines};
pub use urgency::Urgency;

use jiff::Timestamp;

use crate::{
    fleet::placement::PolicyFacts,
    fleet::roles::Roles,
    remediation::{Progress, Reason, State, Step, before_first_off},
};

/// Members without a healthy etcd that a message names.
const NAMED: usize = 5;

/// What other remediations need to know of an unfinished one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActiveRemediation {
    /// `Kind namespace/name`, for messages.
    pub name: String,
    /// `metadata.uid` of the remediation.
    pub uid: String,
    /// Creation time; the older remediation goes first, see [`Self::precedence`].
    pub created: Timestamp,
    /// Whether the remediation waits, could begin, or has begun.
    pub progress: Progress,
    /// Its Machine, as `namespace/name`.
    pub machine: Option<String>,
    /// Its Node, as `cluster/name`.
    pub node: Option<String>,
    /// Address of the BMC.
    pub bmc: Option<String>,
    /// The cluster, by each name under which it is known, if the machine belongs to its control plane or runs its
    /// etcd.
    pub control_plane_of: Vec<String>,
    /// How urgently the workload of its host waits.
    pub urgency: Urgency,
    /// The power policies of its host, and where the host is.
    pub policy: PolicyFacts,
}

impl ActiveRemediation {
    /// The order of remediations that could begin; the least goes first. It is one order for hosts, control planes and
    /// budgets, so that no two wait for each other.
    pub fn precedence(&self) -> (Timestamp, &str) {
        let delay = self.policy.workload.precedence_delay();
        let counted = self.created.checked_add(delay);
        (counted.unwrap_or(Timestamp::MAX), &self.uid)
    }

    /// The workload cluster, as [`Self::node`] names it.
    pub(super) fn cluster(&self) -> Option<&str> {
        let (cluster, _) = self.node.as_deref()?.rsplit_once('/')?;
        Some(cluster)
    }
}

/// Another machine of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherMachine {
    /// Name of its Node or, without one, of its Machine.
    pub name: String,
    /// Its roles, by either object.
    pub roles: Roles,
    /// Whether its etcd member is healthy or, if that is unknown, whether its Node is Ready.
    pub is_healthy: bool,
}

/// The members of the etcd to which a machine belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlPlane {
    /// Number of members, including this one.
    pub total: u32,
    /// Number of other members that are healthy, see [`OtherMachine::is_healthy`].
    pub healthy_others: u32,
    /// Names of some of the other members that are not healthy, for messages.
    pub unhealthy: Vec<String>,
    /// OpenShift's PodDisruptionBudget of etcd, if there is one.
    pub guard: Option<Result<EtcdGuard, String>>,
    /// Why the members cannot be read, if they cannot.
    pub unread: Option<String>,
    /// Whether a person has overruled the quorum for this one remediation, with
    /// `rackhand.dev/override-quorum`. That one member is remediated at a time is not overruled.
    pub overruled: bool,
}

/// OpenShift's PodDisruptionBudget of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtcdGuard {
    /// Number of PodDisruptionBudgets in openshift-etcd; one is expected.
    pub budgets: usize,
    /// `status.disruptionsAllowed` of the PodDisruptionBudget.
    pub allowed: i32,
    /// Whether the guard pod of this Node is ready, or is not known to be unready.
    pub member_ready: bool,
}

impl EtcdGuard {
    /// Why the disruption is not allowed, as medik8s evaluates it: a member that is down already
    /// may be disrupted.
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

/// Whether a remediation takes the turn of its control plane. `state`: what is recorded of it. A host that is kept off
/// does not block others of its control plane that keep the quorum without it.
pub fn takes_planes_turn(roles: Roles, state: Option<&State>) -> bool {
    roles.is_control_plane() && state.is_none_or(|s| s.step != Step::Fenced)
}

impl ControlPlane {
    /// The members of a cluster by the roles of its machines; `None` if this machine is not a member.
    pub fn of(me: Roles, others: &[OtherMachine]) -> Option<Self> {
        let shows_etcd = me.etcd || others.iter().any(|other| other.roles.etcd);
        if !me.is_member(shows_etcd) {
            return None;
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let members = others.iter().filter(|o| o.roles.is_member(shows_etcd));
        let (healthy, unhealthy): (Vec<_>, Vec<_>) = members.partition(|other| other.is_healthy);
        let total = healthy.len().saturating_add(unhealthy.len());
        Some(Self {
            total: count(total.saturating_add(1)),
            healthy_others: count(healthy.len()),
            unhealthy: unhealthy
                .into_iter()
                .take(NAMED)
                .map(|other| other.name.clone())
                .collect(),
            guard: None,
            unread: None,
            overruled: false,
        })
    }

    /// For members that cannot be read; nothing may be switched off then.
    pub fn unknown(why: String) -> Self {
        Self {
            total: 1,
            healthy_others: 1,
            unhealthy: Vec::new(),
            guard: None,
            unread: Some(why),
            overruled: false,
        }
    }

    /// Why this machine must not be switched off (F6), evaluated before the power-off of each attempt; `None`
    /// if it may, because etcd keeps its quorum or a person has overruled it.
    pub fn refuses(&self) -> Option<Reason> {
        self.costs_quorum().filter(|_| !self.overruled)
    }

    /// What a person has overruled, if anything.
    pub fn overruled(&self) -> Option<Reason> {
        self.costs_quorum().filter(|_| self.overruled)
    }

    /// Why switching off this machine would cost etcd its quorum, whatever a person says; `None` if it would
    /// not.
    pub fn costs_quorum(&self) -> Option<Reason> {
        if let Some(why) = &self.unread {
            let why = format!("the members of the control plane cannot be read: {why}");
            return Some(Reason::ControlPlaneQuorum(why));
        }
        let needed = self.total / 2 + 1;
        if self.healthy_others < needed {
            let unhealthy = match self.unhealthy.as_slice() {
                [] => String::new(),
                names => format!(" (not healthy: {})", names.join(", ")),
            };
            return Some(Reason::ControlPlaneQuorum(format!(
                "{} of {} members would be left{unhealthy}, {needed} are needed",
                self.healthy_others, self.total
            )));
        }
        match self.guard.as_ref()? {
            Ok(guard) => guard.refuses(),
            Err(why) => Some(format!("cannot query the etcd guard: {why}")),
        }
        .map(Reason::ControlPlaneQuorum)
    }
}

/// Which view of the members of etcd a decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuorumReading {
    /// None: the host is or may be off already.
    None,
    /// That of the index.
    Known,
    /// That of a live read, because a watch that lags shows a failed member as healthy (F12).
    Live,
}

impl QuorumReading {
    /// The members are read live before a remediation begins, and immediately before its first power-off. `able`:
    /// whether it would begin; `known`: the members by the index.
    pub fn of(state: Option<&State>, able: bool, known: Option<&ControlPlane>) -> Self {
        // A quorum that would be lost by the index needs no live read.
        let is_lost = || known.is_some_and(|plane| plane.costs_quorum().is_some());
        match Progress::of(state) {
            Progress::Waiting => Self::Known,
            Progress::Ready if able && !is_lost() => Self::Live,
            Progress::Ready => Self::Known,
            Progress::Begun if state.is_some_and(before_first_off) => Self::Live,
            Progress::Begun => Self::None,
        }
    }
}

/// The result of [`check_concurrency`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConcurrencyDecision {
    /// What prevents the remediation from beginning, if anything.
    pub reason: Option<Reason>,
    /// The progress of the remediation. If nothing prevents it, it has begun with this result,
    /// which later calls for others must take into account.
    pub progress: Progress,
    /// The quorum that a person has overruled, if the remediation begins because of that.
    pub overruled: Option<Reason>,
}

/// Checks whether `me` may begin. For one that has begun only the control plane is evaluated, if it
/// was read once more. A process must call this, and keep the results, one at a time, so that of
/// two that could begin at the same moment the second sees that the first has begun.
pub fn check_concurrency<'a>(
    me: &ActiveRemediation,
    others: impl IntoIterator<Item = &'a ActiveRemediation>,
    quorum: Option<ControlPlane>,
) -> ConcurrencyDecision {
    fn same(a: Option<&String>, b: Option<&String>) -> bool {
        a.is_some() && a == b
    }
    if me.progress == Progress::Begun {
        return ConcurrencyDecision {
            reason: quorum.and_then(|plane| plane.refuses()),
            progress: Progress::Begun,
            overruled: None,
        };
    }
    let rivals: Vec<&ActiveRemediation> = others
        .into_iter()
        .filter(|other| {
            other.uid != me.uid
                && (same(me.machine.as_ref(), other.machine.as_ref())
                    || same(me.node.as_ref(), other.node.as_ref())
                    || same(me.bmc.as_ref(), other.bmc.as_ref())
                    || me
                        .control_plane_of
                        .iter()
                        .any(|cluster| other.control_plane_of.contains(cluster)))
        })
        .collect();
    let named = |other: &&ActiveRemediation| Reason::OtherRemediation(other.name.clone());
    let begun = rivals
        .iter()
        .find(|other| other.progress == Progress::Begun);
    let overruled = quorum.as_ref().and_then(ControlPlane::overruled);
    let quorum = quorum.and_then(|plane| plane.refuses());
    // One that could cost the quorum waits for another member, possibly for the next one in order.
    let ready = me.progress == Progress::Ready && quorum.is_none();
    let older = rivals
        .iter()
        .find(|other| other.progress == Progress::Ready && other.precedence() < me.precedence());
    let reason = begun.map(named).or(quorum).or_else(|| older.map(named));
    ConcurrencyDecision {
        overruled: overruled.filter(|_| ready && reason.is_none()),
        progress: match (ready, &reason) {
            (false, _) => Progress::Waiting,
            (true, Some(_)) => Progress::Ready,
            (true, None) => Progress::Begun,
        },
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remediation::Mode;

    #[test]
    fn f6_f12_members_are_read_live_before_a_beginning_and_before_the_first_off() {
        let lost = ControlPlane::unknown("no answer".into());
        let kept = ControlPlane {
            total: 3,
            healthy_others: 2,
            unread: None,
            ..lost.clone()
        };
        let of = |step, able, known| {
            let mut state = State::new(Timestamp::UNIX_EPOCH);
            (state.step, state.mode) = (step, Mode::Direct);
            QuorumReading::of(Some(&state), able, known)
        };
        use QuorumReading::{Known, Live, None as Unread};
        assert_eq!(QuorumReading::of(None, true, Some(&kept)), Live);
        assert_eq!(of(Step::Retrying, true, None), Live);
        assert_eq!(of(Step::Pending, true, Some(&lost)), Known);
        assert_eq!(of(Step::Pending, false, Some(&kept)), Known);
        assert_eq!(of(Step::Succeeded, true, Some(&kept)), Known);
        // Whatever the index shows.
        assert_eq!(of(Step::Holding, false, Some(&lost)), Live);
        assert_eq!(of(Step::PoweringOff, false, None), Live);
        assert_eq!(of(Step::Draining, true, Some(&kept)), Unread);
    }
}
