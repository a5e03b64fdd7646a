//! The observation that a step is decided on.
//!
//! Plain data only. Times are by the controller's own clock, never by that of a BMC or a kubelet.

pub(super) mod agent_view;
pub(super) mod evictions;
pub(super) mod observed_operation;
pub(super) mod other_nodes;
pub(super) mod pods;
pub(super) mod power;
pub(super) mod workload_view;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::{
    AgentId, AgentView, BmcAccess, Collected, Command, Drain, Evictions, HoldRefusal, HostRef,
    JournalFacts, NodeAction, NodeFacts, OperationOutcome, OperationView, OtherNodes,
    PinnedOperation, PodDeletions, Policy, PolicyError, PowerReading, PowerState, PowerView,
    Reason, State, Step, UpdateReading, UpdateRules, WorkloadView,
};
use agent_view::LONGEST_POWER_ON_DELAY;

/// Who has set the annotation that makes clusterctl wait before it moves an object to another cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MoveBlock {
    /// Nobody.
    #[default]
    Absent,
    /// This remediation.
    Ours,
    /// A remediation of ours that is gone.
    Left,
    /// Somebody else, who removes it.
    Other,
}

impl MoveBlock {
    /// Whether nobody sets and removes it any more.
    pub fn is_missing(self) -> bool {
        matches!(self, Self::Absent | Self::Left)
    }

    /// Whether it is ours to remove.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::Left)
    }
}

/// The remediation object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// Whether the object has a deletionTimestamp.
    pub deleting: bool,
    /// When a health check made it; `None` if a person did.
    pub made_by_check: Option<Timestamp>,
    /// The conditions of a Node, by type and status, that make it unhealthy by the check that made it; `None`: that
    /// check is not known, or is gone.
    pub checked: Option<BTreeSet<(String, String)>>,
    /// Whether medik8s' health check requests a stop (`nhc-timed-out`).
    pub timed_out: bool,
    /// When the health check that made it gives it up, where that is known.
    pub given_up_at: Option<Timestamp>,
    /// Whether the object names a Node, not a Machine.
    pub by_node: bool,
    /// Whether the object has the saved labels and annotations of a deleted Node.
    pub node_backup: bool,
    /// Whether a finalizer of our name is on the object.
    pub finalizer: bool,
    /// Whether CAPM3 has a finalizer of the same name, so that one that is there need not be ours.
    pub finalizer_is_shared: bool,
    /// Whether the copy of the state in the object says that we added the finalizer, where nothing is recorded: by
    /// that a finalizer that came with its object from another cluster is known. `None`: there is no copy.
    pub finalizer_by_copy: Option<bool>,
    /// Whether that copy says that no power-off was recorded, see `is_uncut`.
    pub uncut_by_copy: bool,
    /// Who makes clusterctl wait before it moves the object.
    pub move_block: MoveBlock,
    /// Whether clusterctl has moved the object to another cluster, and deletes it here.
    pub moved_away: bool,
    /// The step in which it has ended by the copy of its state in the object, while nothing is recorded about it
    /// (F15).
    pub ended_by_copy: Option<Step>,
    /// The value of `rackhand.dev/confirm-fenced`, if any.
    pub confirm_fenced: Option<String>,
    /// The value of `rackhand.dev/override-other-node`, if any.
    pub override_other_node: Option<String>,
    /// The value of `rackhand.dev/override-owner`, if any.
    pub override_owner: Option<String>,
    /// Whether the object, its Machine or its Cluster is paused.
    pub paused: bool,
    /// The policy that its spec requests.
    pub policy: Result<Policy, PolicyError>,
}

/// The Machine that is remediated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MachineView {
    /// `metadata.creationTimestamp`. A Node that is older than its Machine tells that the objects were copied here, by a
    /// move or a restore, and that the time of a remediation's creation is the time of the copy.
    pub created: Option<Timestamp>,
    /// `spec.providerID`; empty if it has none.
    pub provider_id: String,
    /// Status of the condition `HealthCheckSucceeded`.
    pub health_check_succeeded: Option<bool>,
    /// Whether the condition `OwnerRemediated` is False in both condition lists.
    pub owner_remediated_false: bool,
    /// Whether no live health check evaluates the Machine: there is none, it is paused, or the Machine
    /// is paused or skipped. The health condition may then be out of date.
    pub not_checked: bool,
    /// Whether the annotation `cluster.x-k8s.io/remediate-machine` requests a remediation. It makes the Machine
    /// unhealthy until somebody removes it.
    pub is_requested: bool,
    /// By what the owner of the Machine announces that it updates the Machine in place.
    pub updating: Option<String>,
}

impl MachineView {
    /// For a remediation about a Node that has no Machine.
    pub fn not_asked() -> Self {
        Self {
            created: None,
            provider_id: String::new(),
            health_check_succeeded: None,
            owner_remediated_false: true,
            not_checked: true,
            is_requested: false,
            updating: None,
        }
    }
}

/// The host of the remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum HostView {
    /// The host that was found.
    Found(HostRef),
    /// No host, or more than one, was found; nothing may be switched.
    NotFound(Reason),
}

impl HostView {
    /// A host that was not found may belong to an agent that has not connected yet; `silent` describes these.
    #[must_use]
    pub fn or_silent(self, silent: &[String]) -> Self {
        match self {
            Self::NotFound(Reason::HostNotFound(why)) if !silent.is_empty() => Self::NotFound(
                Reason::AgentUnreachable(format!("{} ({why})", silent.join("; "))),
            ),
            host => host,
        }
    }

    /// A host that an inventory knows by the system UUID of its Node is not missing while the Node cannot be read.
    /// Nothing is reported while the connection is being made, which starts with the first remediation.
    #[must_use]
    pub fn or_unread(self, workload: &WorkloadView, connecting: bool) -> Self {
        match (self, workload) {
            (Self::NotFound(Reason::HostNotFound(_)), WorkloadView::Unreachable { .. })
                if connecting =>
            {
                Self::NotFound(Reason::Working)
            }
            (Self::NotFound(Reason::HostNotFound(what)), WorkloadView::Unreachable { why }) => {
                Self::NotFound(Reason::WorkloadUnreachable(format!("{why} ({what})")))
            }
            (host, _) => host,
        }
    }
}

/// The BareMetalHost, if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct BareMetalHostFacts {
    /// `namespace/name`.
    pub name: String,
    /// `spec.online`.
    pub online: bool,
    /// Whether the paused annotation is set.
    pub paused: bool,
    /// Whether the host is detached, also by its status.
    pub detached: bool,
    /// Whether the host is being serviced (firmware).
    pub servicing: bool,
    /// Whether `status.provisioning.state` is provisioned or externally provisioned.
    pub provisioned: bool,
    /// `spec.disablePowerOff`.
    pub disable_power_off: bool,
    /// Whether the object has a deletionTimestamp.
    pub deleting: bool,
    /// `status.poweredOn`: the power state in Ironic's database when baremetal-operator last looked. Never
    /// evidence of the true state.
    pub powered_on: Option<bool>,
    /// `status.errorMessage` in the state `error`, cut to a bounded length.
    pub error: Option<String>,
    /// Whether our hold key is set.
    pub our_hold: bool,
    /// When the value of our hold key was last changed, by that value.
    pub hold_renewed: Option<Timestamp>,
    /// The last change of our hold key, if the webhook of its owner was away.
    pub hold_refused: Option<HoldRefusal>,
    /// Hold keys of other controllers, and of other remediations of ours.
    pub foreign_holds: BTreeSet<String>,
    /// Hold keys of ours whose remediations no live list shows (F12): they were moved to or from another cluster,
    /// restored or deleted without their finalizers.
    pub orphaned_holds: BTreeSet<String>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Who makes clusterctl wait before it moves the object.
    pub move_block: MoveBlock,
    /// Whether clusterctl has moved the object to another cluster, and deletes it here.
    pub moved_away: bool,
    /// Whether both unhealthy annotations are set.
    pub unhealthy_mark: bool,
    /// Serial number in the hardware details.
    pub serial: Option<String>,
}

/// All inputs of a decision but the stored state and the time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The remediation object.
    pub object: ObjectFacts,
    /// The Machine; `None` if that is gone. [`MachineView::not_asked`] for a remediation that names a
    /// Node.
    pub machine: Option<MachineView>,
    /// `namespace/name` of the Cluster of the Machine, where it is known.
    pub cluster: Option<String>,
    /// Whether that Cluster object is gone by a live read. Its workload may still run.
    pub cluster_removed: bool,
    /// The host that was resolved.
    pub host: HostView,
    /// What the inventory entry or the BareMetalHost of the host says about its identity; `None` if it is not
    /// known. It changes when somebody corrects that; nothing else is read from it.
    pub host_identity: Option<String>,
    /// The BareMetalHost of the host.
    pub bmh: Option<BareMetalHostFacts>,
    /// The Node in the workload cluster.
    pub workload: WorkloadView,
    /// Other Nodes of the cluster that may run on the host (F14).
    pub other_nodes: OtherNodes,
    /// The agent that serves the host.
    pub agent: AgentView,
    /// What the agent needs to reach the BMC.
    pub access: BmcAccess,
    /// The agent that serves the rack now, if that is known.
    pub agent_id: Option<AgentId>,
    /// The agent that answered that it does not know the operation.
    pub answered: Option<AgentId>,
    /// State of the pinned operation. It is queried while another agent serves the rack and the
    /// operation is not that of the current state.
    pub pinned: PinnedOperation,
    /// Whether the agent's journal has a hold of this remediation. It indicates a power-off; its
    /// absence proves nothing.
    pub held: bool,
    /// What the agents have done for this remediation that the stored state does not say.
    pub journal: JournalFacts,
    /// Every outlet that feeds the host, as `PDU/outlet`, in the inventory of the agent that serves it.
    /// Empty if they are not all known.
    pub outlets: Vec<String>,
    /// The operation with the [`super::operation_id`] of the stored state.
    pub operation: Option<OperationView>,
    /// The latest power reading outside an operation.
    pub power: Option<PowerView>,
    /// The latest reading of updates of firmware.
    pub updates: Option<UpdateReading>,
    /// What the policies say about a host whose firmware is being updated.
    pub update_rules: UpdateRules,
    /// Whether a person has approved this remediation.
    pub approved: bool,
    /// Since when the BMC has been silent, see [`Observation::silence`].
    pub silent_since: Option<Timestamp>,
    /// What keeps the Node from being drained, listed by its name, because its pods remain when the
    /// Node object is gone. `None` if it was not listed.
    pub drain: Option<Drain>,
    /// What came of the deletions of pods since the last write of the state.
    pub pod_deletions: PodDeletions,
    /// What the Eviction API answered about pods in this step.
    pub evictions: Evictions,
    /// What was collected about the host since the last write of the state.
    pub collected: Collected,
    /// Whether the Node is tainted or deleted.
    pub node_action: NodeAction,
    /// What prevents the remediation from beginning or going on now (F6).
    pub conflict: Option<Reason>,
    /// Commands carried out since the last write of the state.
    pub completed: BTreeSet<Command>,
    /// How far the wall clock is ahead of the clock of the decisions: for times in messages, never for a decision.
    pub wall_ahead: SignedDuration,
}

impl Observation {
    /// Since when this process has continuously tried to read the BMC of a host that is switched
    /// off or has to stay off, and has received neither on nor off; `None` if it answers or was not
    /// tried. `before` is the value of the previous observation. A new leader has not tried yet,
    /// whatever the state says (F8).
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

    /// The settings: those of the object or, while it cannot be parsed, those with which an attempt has begun. `None`:
    /// it cannot be parsed, and nothing has begun.
    pub fn policy<'a>(&'a self, state: Option<&'a State>) -> Option<&'a Policy> {
        match &self.object.policy {
            Ok(policy) => Some(policy),
            Err(_) => state.and_then(|s| s.policy.as_deref()),
        }
    }

    /// F11: the Node of a remediation that had begun elsewhere, while it is shown as Ready and its kubelet has not
    /// proved that by a renewal of its Lease.
    pub(super) fn unrenewed_node(&self, s: &State) -> Option<&NodeFacts> {
        let WorkloadView::Present(node) = &self.workload else {
            return None;
        };
        let waits = matches!(s.step, Step::Pending | Step::Retrying) && node.ready;
        let former = s.former_lease.as_deref().filter(|_| waits)?;
        let renewed = node.renewed();
        (former == renewed || renewed.is_empty()).then_some(node)
    }

    /// When the time of this step is over, by the policy, or by the default policy if that cannot
    /// be parsed. `None` if the step ends only by a change from outside, which its [`Reason`]
    /// names.
    pub fn step_until(&self, s: &State) -> Option<Timestamp> {
        let fallback = Policy::default();
        let policy = self.policy(Some(s)).unwrap_or(&fallback);
        let running = matches!(
            self.operation,
            Some(OperationView::Running | OperationView::Staged { .. })
        );
        if s.step == Step::Aborting && running {
            // A power-on that is cancelled, or that undoes a power-off, has ended at the agent by
            // then.
            let at = s.retry_at.unwrap_or(s.since).max(s.since);
            return Some(
                at.checked_add(policy.power_on_timeout)
                    .unwrap_or(Timestamp::MAX),
            );
        }
        if let Some(at) = self.other_nodes.decided_at() {
            return Some(policy.step_until(s).map_or(at, |until| until.max(at)));
        }
        if let Some(until) = self.unrenewed_node(s).and_then(NodeFacts::lease_quiet_at) {
            return Some(until);
        }
        let until = policy.step_until(s)?;
        match &self.operation {
            Some(OperationView::Staged { due, .. }) if s.step == Step::PoweringOn => {
                let after = |t: Timestamp, d| t.checked_add(d).unwrap_or(Timestamp::MAX);
                let due = after(*due, policy.power_on_timeout);
                Some(until.max(due.min(after(until, LONGEST_POWER_ON_DELAY))))
            }
            _ => Some(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_missing() -> HostView {
        HostView::NotFound(Reason::HostNotFound("no inventory has node n".into()))
    }

    fn mk_unreachable() -> WorkloadView {
        WorkloadView::Unreachable {
            why: "not connected".into(),
        }
    }

    #[test]
    fn host_is_not_missing_before_node_was_read() {
        let waits = mk_missing().or_unread(&mk_unreachable(), true);
        assert_eq!(waits, HostView::NotFound(Reason::Working));
        let HostView::NotFound(why) = mk_missing().or_unread(&mk_unreachable(), false) else {
            panic!("it was found");
        };
        assert_eq!(why.label(), "WorkloadUnreachable");
        let text = why.to_string();
        assert!(text.contains("not connected (no inventory has"), "{text}");
    }

    #[test]
    fn host_without_link_from_node_is_missing() {
        let gone = WorkloadView::Missing { name: "n".into() };
        assert_eq!(mk_missing().or_unread(&gone, true), mk_missing());
        let several = HostView::NotFound(Reason::HostAmbiguous("a/x, b/x".into()));
        assert_eq!(several.clone().or_unread(&mk_unreachable(), true), several);
    }

    #[test]
    fn host_of_an_agent_that_was_never_seen_is_not_missing() {
        assert_eq!(mk_missing().or_silent(&[]), mk_missing());
        let silent = ["agent a of rack r1 has not connected".to_owned()];
        let HostView::NotFound(why) = mk_missing().or_silent(&silent) else {
            panic!("it was found");
        };
        assert_eq!(why.label(), "AgentUnreachable");
        assert!(why.to_string().contains("no inventory has node n"), "{why}");
    }
}
