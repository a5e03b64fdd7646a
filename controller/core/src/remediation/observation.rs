//! What was seen, all of it, when a step is decided.
//!
//! Owns plain data only. Times are the controller's own clock, never a BMC's or a kubelet's.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    AgentId, Because, Command, CommandTaken, HostRef, NodeAction, Policy, PolicyError, State, Step,
};

/// What a BMC said about power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PowerState {
    /// Exactly on.
    On,
    /// Exactly off.
    Off,
    /// On its way up.
    PoweringOn,
    /// On its way down, which is not off.
    PoweringOff,
    /// Anything else.
    Unknown,
}

/// One reading, as an agent reported it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PowerReading {
    /// The state.
    pub state: PowerState,
    /// The BMC's own word.
    pub raw: String,
    /// The protocol that it was asked in; empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    /// The system that the BMC says it speaks of; empty: not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// When, by the agent's wall clock: for people.
    pub at: Timestamp,
    /// When, by the agent's monotonic clock in milliseconds: for distances.
    pub since_start_ms: u64,
    /// Which BMC.
    pub bmc: String,
}

/// The latest reading that this controller asked for outside an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PowerView {
    /// When the question was sent, by our clock: what it proves was true no earlier.
    pub asked: Timestamp,
    /// When the answer came, by our clock: how fresh it is.
    pub answered: Timestamp,
    /// The Lease's renewTime as it was known when the question was sent: what had happened by then.
    pub lease: Option<String>,
    /// The answer, or why there is none.
    pub result: Result<PowerReading, String>,
}

/// The remediation object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// medik8s' health check asks it to stop trying.
    pub timed_out: bool,
    /// It names a Node, not a Machine.
    pub by_node: bool,
    /// Labels and annotations of a Node that we delete are kept on it.
    pub node_backup: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// The value of `rackhand.dev/confirm-fenced`, if any.
    pub confirm_fenced: Option<String>,
    /// Paused: the object, its Machine or its Cluster.
    pub paused: bool,
    /// What it asks for.
    pub policy: Result<Policy, PolicyError>,
}

/// The Machine that is remediated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineView {
    /// `HealthCheckSucceeded` as it stands.
    pub health_check_succeeded: Option<bool>,
    /// `OwnerRemediated` is False in both lists.
    pub owner_remediated_false: bool,
    /// No live health check judges it (there is none, or it is paused, or the Machine is paused or to be
    /// skipped): its health condition may be out of date.
    pub not_checked: bool,
}

impl MachineView {
    /// For a request that is about a Node and has no Machine to look at or to hand over.
    pub fn not_asked() -> Self {
        Self {
            health_check_succeeded: None,
            owner_remediated_false: true,
            not_checked: true,
        }
    }
}

/// Which host it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostView {
    /// This one.
    Found(HostRef),
    /// None, or more than one: nothing may be switched.
    NotFound(Because),
}

/// The BareMetalHost, where there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BareMetalHostFacts {
    /// `namespace/name`.
    pub name: String,
    /// `spec.online`.
    pub online: bool,
    /// Carries the paused annotation.
    pub paused: bool,
    /// Detached, and its status says so.
    pub detached: bool,
    /// Being serviced (firmware).
    pub servicing: bool,
    /// `status.provisioning.state` is provisioned or externally provisioned.
    pub provisioned: bool,
    /// `spec.disablePowerOff`.
    pub disable_power_off: bool,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Our hold key is on it.
    pub our_hold: bool,
    /// Reboot annotations of others.
    pub foreign_holds: BTreeSet<String>,
    /// Carries both unhealthy marks.
    pub unhealthy_mark: bool,
    /// Serial number in its hardware details.
    pub serial: Option<String>,
}

/// The out-of-service taint on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taint {
    /// There is none.
    Absent,
    /// There is one with our value.
    Ours,
    /// There is one with another value: a person's.
    Other,
}

/// The Node's Lease in kube-node-lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseFacts {
    /// `spec.renewTime` as written: only ever compared for equality.
    pub renewed: String,
    /// `spec.leaseDurationSeconds`; a kubelet renews each quarter of it.
    pub duration: Duration,
    /// Since when, by our clock, we have seen this very renewTime.
    pub unchanged_since: Timestamp,
}

/// The Node, as the workload cluster shows it now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.nodeInfo.bootID`.
    pub boot_id: String,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: String,
    /// Condition Ready is True.
    pub ready: bool,
    /// Condition Ready is Unknown: the control plane has seen no Lease renewal for its grace period.
    pub ready_unknown: bool,
    /// The out-of-service taint.
    pub taint: Taint,
    /// Its Lease; `None`: it has none.
    pub lease: Option<LeaseFacts>,
}

/// What the workload cluster says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkloadView {
    /// It cannot be asked.
    Unreachable {
        /// Why.
        why: String,
    },
    /// The Machine has never had a Node.
    NotJoined,
    /// The Cluster object is gone, and nothing is left by which its workload could be reached or known, by
    /// live reads.
    ClusterGone {
        /// `namespace/name`.
        name: String,
    },
    /// The Node is gone.
    Missing {
        /// Its name.
        name: String,
    },
    /// The Node.
    Present(NodeFacts),
}

/// What still keeps a Node from being drained.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Drain {
    /// `namespace/name` of pods that are bound to it, are no mirror pods and do not tolerate the
    /// taint.
    pub pods: Vec<String>,
    /// Names of its VolumeAttachments.
    pub volumes: Vec<String>,
}

/// The agent that serves the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AgentView {
    /// Connected, and our term is claimed.
    Ready,
    /// Not now.
    Unreachable {
        /// Why.
        why: String,
    },
}

/// Whether the agent can be told how to reach the host's BMC.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BmcAccess {
    /// The inventory knows it, or the BareMetalHost and its Secret do, as far as was looked.
    Known,
    /// The BareMetalHost is gone, by a live read, and the address of the BMC with it.
    HostGone {
        /// `namespace/name`.
        name: String,
    },
    /// The address or the credentials are missing, by a live read.
    Missing {
        /// What is missing.
        why: String,
    },
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperationOutcome {
    /// The asked-for state was read as asked.
    Confirmed {
        /// The readings that prove it.
        readings: Vec<PowerReading>,
        /// Of a power-off: the command that the BMC took before them.
        taken: Option<CommandTaken>,
    },
    /// Its deadline passed.
    Unconfirmed {
        /// What stood in the way.
        why: String,
    },
    /// It can never work as things are.
    Failed {
        /// Why.
        why: String,
    },
    /// The BMC manages another system (F5).
    IdentityMismatch {
        /// Which.
        why: String,
    },
    /// Stopped on request.
    Cancelled,
    /// The agent was restarted in the middle.
    Interrupted,
}

/// The operation that belongs to the present step and try.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperationView {
    /// Begun, no outcome yet.
    Running,
    /// The same; a power-on that waits for its turn at what feeds the host, or has waited. That
    /// time is none of its own: the agent keeps it apart too.
    Staged {
        /// What it waits for, in the agent's words.
        why: String,
        /// When its turn comes, or came, by the agent's clock.
        turn: Timestamp,
    },
    /// Ended.
    Finished {
        /// How.
        outcome: OperationOutcome,
        /// Power commands that it sent.
        commands_sent: u32,
    },
    /// The agent refused to begin it.
    Rejected {
        /// Why.
        why: String,
    },
}

/// Where the operation that is pinned in the state stands, by the agent that it is pinned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PinnedOperation {
    /// That agent was not queried, or did not answer.
    Unknown,
    /// It may still command the BMC.
    Running,
    /// It has ended, or was never begun.
    Ended,
}

/// Longer than any rack's power supplies take to be switched on one after the other: a thousand
/// hosts on one of them, a minute apart. A turn that is to come later is overdue (L1).
pub(super) const LONGEST_TURN: Duration = Duration::from_secs(17 * 3600);

/// Everything that a step looks at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The remediation object.
    pub request: RequestFacts,
    /// Its Machine; `None`: gone. A request that names a Node has [`MachineView::not_asked`].
    pub machine: Option<MachineView>,
    /// `namespace/name` of the Cluster of the Machine, where it is known.
    pub cluster: Option<String>,
    /// That Cluster object is gone, by a live read. Its workload may run on all the same.
    pub cluster_removed: bool,
    /// The host.
    pub host: HostView,
    /// The BareMetalHost of the host.
    pub bmh: Option<BareMetalHostFacts>,
    /// The Node.
    pub workload: WorkloadView,
    /// The agent.
    pub agent: AgentView,
    /// What the agent needs to reach the BMC.
    pub access: BmcAccess,
    /// The agent that would be commanded now; `None`: it is not known which.
    pub agent_id: Option<AgentId>,
    /// The agent that answered where the operation stands.
    pub answered: Option<AgentId>,
    /// Where the pinned operation stands; queried while another agent serves the rack and the operation
    /// is not the one of the present state.
    pub pinned: PinnedOperation,
    /// The agent's journal has a hold in the name of this remediation. A sign that it was switched off;
    /// its absence proves nothing.
    pub held: bool,
    /// The operation with [`super::operation_id`] of the present state.
    pub operation: Option<OperationView>,
    /// The latest reading.
    pub power: Option<PowerView>,
    /// Since when this process has tried to hear the BMC and has not, see [`Observation::silence`].
    pub silent_since: Option<Timestamp>,
    /// What keeps the Node, by its name: also while the Node object is gone, since its pods are not
    /// gone with it. `None`: not looked at, or it could not be listed.
    pub drain: Option<Drain>,
    /// How its workload cluster is told that the host is off.
    pub node_action: NodeAction,
    /// Another remediation has the right of way (F6).
    pub conflict: Option<Because>,
    /// Commands carried out since the state was written last.
    pub completed: BTreeSet<Command>,
}

impl Observation {
    /// Since when this process has tried, without a break, to hear the host's BMC while the host is
    /// switched off or has to stay off, and has heard neither on nor off; `None`: it answers, or nobody
    /// has tried. `before` is what this was at the last look. A process that has just begun to lead has
    /// not tried yet, whatever is written (F8).
    pub fn silence(
        &self,
        s: Option<&State>,
        before: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let step = s.map_or(Step::Pending, |s| s.step);
        let listens = matches!(
            step,
            Step::PoweringOff
                | Step::AwaitingConfirmation
                | Step::ConfirmingOff
                | Step::Tainting
                | Step::Draining
        );
        if !listens {
            return None;
        }
        let is_clear = |r: &PowerReading| {
            matches!(
                r.state,
                PowerState::On | PowerState::Off | PowerState::PoweringOn
            )
        };
        let heard = self.power.as_ref().and_then(|view| {
            let clear = view.result.as_ref().is_ok_and(is_clear);
            clear.then_some(view.answered)
        });
        let confirmed = matches!(
            self.operation,
            Some(OperationView::Finished {
                outcome: OperationOutcome::Confirmed { .. },
                ..
            })
        );
        if confirmed {
            return None;
        }
        let before = before.filter(|since| heard.is_none_or(|heard| heard <= *since));
        let tries = self.agent != AgentView::Ready
            || self.access != BmcAccess::Known
            || self.operation.is_some()
            || self.power.is_some() && heard.is_none();
        before.or(tries.then_some(now))
    }

    /// When the time of this step is over, by the policy or, where that does not read, by the one that
    /// holds then; `None`: it ends when somebody ends it, and its [`Because`] says who.
    pub fn step_until(&self, s: &State) -> Option<Timestamp> {
        let fallback = Policy::default();
        let policy = self.request.policy.as_ref().unwrap_or(&fallback);
        let running = matches!(
            self.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        );
        if s.step == Step::Aborting && running {
            // A power-on that is cancelled, or that undoes a power-off: the agent ends it by then.
            let at = s.retry_at.unwrap_or(s.since).max(s.since);
            return Some(
                at.checked_add(policy.power_on_timeout)
                    .unwrap_or(Timestamp::MAX),
            );
        }
        let until = policy.step_until(s)?;
        match &self.operation {
            Some(OperationView::Staged { turn, .. }) if s.step == Step::PoweringOn => {
                let after = |t: Timestamp, d| t.checked_add(d).unwrap_or(Timestamp::MAX);
                let turn = after(*turn, policy.power_on_timeout);
                Some(until.max(turn.min(after(until, LONGEST_TURN))))
            }
            _ => Some(until),
        }
    }
}
