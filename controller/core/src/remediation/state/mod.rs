//! The stored state of a remediation, which survives a crash.
//!
//! It contains neither credentials nor anything that can be read again.

mod eviction;
mod on_wall;
mod progress;

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{
    Handover, HostEvidence, NodeAction, NodeFacts, OffEvidence, OutletUse, Policy, Reason,
    Strategy, UpdateWatch,
};
use crate::fleet::placement::CountedFacts;

pub use eviction::{CordonedNode, Eviction, ForbiddenEviction};
pub(super) use eviction::{forbidden, keep_names};
pub use on_wall::on_wall;
pub use progress::{
    Progress, before_first_off, is_stopped_by_freeze, is_stopped_by_marks, is_uncut, progress_again,
};

/// A step of a remediation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, IntoStaticStr,
)]
// Without a description of its own, each field keeps the one that it has.
#[schemars(description = "")]
pub enum Step {
    /// The preconditions are checked.
    Pending,
    /// The Node is cordoned and its pods are evicted; nothing is switched yet.
    Evicting,
    /// The pods have left; the host stays on and its Node cordoned.
    Evicted,
    /// The hold is put on the BareMetalHost.
    Holding,
    /// The operating system of the host shuts down, before the power is cut.
    ShuttingDown,
    /// The host is switched off.
    PoweringOff,
    /// The power state is read from the BMC.
    ConfirmingOff,
    /// The taint is put on the Node.
    Tainting,
    /// The workloads move.
    Draining,
    /// The host is off and is kept off.
    Fenced,
    /// The host is switched on.
    PoweringOn,
    /// The host starts and its Node becomes ready.
    Booting,
    /// Taint and hold are taken away.
    Restoring,
    /// The Node is ready again.
    Succeeded,
    /// The attempt failed; the next one is about to begin.
    Retrying,
    /// The remediation cannot continue; the reason names the cause.
    Blocked,
    /// A person has to confirm that the host is off.
    AwaitingConfirmation,
    /// No attempt is left, and onExhausted has been applied.
    Escalated,
    /// The taint and the hold are removed, and nothing else is done.
    Aborting,
}

impl Step {
    /// The name of the step in the status, in metric labels and in the CLI.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Whether the remediation has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Escalated | Self::Blocked)
    }

    /// Whether an attempt may begin with this step, and so takes its host.
    pub fn takes_host(self) -> bool {
        matches!(self, Self::Evicting | Self::Evicted | Self::Holding)
    }
}

/// Whether another controller switches this host as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// baremetal-operator switches the host too, and receives our hold key first.
    Cooperative,
    /// Only the agent switches the host.
    Direct,
}

/// A host, identified so that it is found after its Machine is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRef {
    /// Name of the rack.
    pub rack: String,
    /// Name of the host at the agent.
    pub host: String,
    /// `namespace/name` of the BareMetalHost, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmh: Option<String>,
    /// Address of the BMC, without credentials. Two hosts with the same BMC are one host.
    pub bmc: String,
}

/// An agent and the journal in which it records operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentId {
    /// Name of the RackAgent.
    pub agent: String,
    /// Instance id of the agent's journal; empty if the agent does not report one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub journal: String,
}

impl AgentId {
    /// Whether both are the same agent with the same journal. Journals are compared where both are known.
    pub fn is_same(&self, other: &Self) -> bool {
        let known = !self.journal.is_empty() && !other.journal.is_empty();
        self.agent == other.agent && (!known || self.journal == other.journal)
    }
}

/// The agent at which an operation is begun, written before it is begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPin {
    /// The agent and its journal.
    #[serde(flatten)]
    pub agent: AgentId,
    /// Id of the operation.
    pub operation: String,
    /// Until when the operation may command the BMC; `None` once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The Node as it was when the host was confirmed off, or before that.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedNode {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.nodeInfo.bootID`; another value means that the host has booted since.
    pub boot_id: String,
    /// `status.nodeInfo.systemUUID`, which identifies the hardware (F5).
    pub system_uuid: String,
    /// The Node was registered after the power-off had begun, and nothing identifies its machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

impl PinnedNode {
    /// From the Node as observed now.
    pub(super) fn of(node: &NodeFacts) -> Self {
        Self {
            name: node.name.clone(),
            uid: node.uid.clone(),
            boot_id: node.boot_id.clone(),
            system_uuid: node.system_uuid.clone(),
            unproven: false,
        }
    }
}

/// An entry of a host that leads to another system (F5).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedEntry {
    /// The host with the address of its BMC.
    pub host: HostRef,
    /// Its identity in the entry; `None` if that was not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Why it was refused.
    #[serde(rename = "because")]
    pub reason: Reason,
}

/// The owner of the out-of-service taint (F9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TaintOwner {
    /// Set, and to be removed, by this remediation. Written before the taint is added.
    Us,
    /// The taint was set before this remediation, and is not removed.
    Other,
}

/// The record of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRecord {
    /// Number of the attempt, from 1.
    #[serde(default)]
    pub number: u32,
    /// When the attempt began.
    pub started: Timestamp,
    /// When the host was confirmed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Timestamp>,
    /// When the drain was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Timestamp>,
    /// Outlets that were switched off, as `PDU/outlet`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlets: Vec<String>,
    /// Pods that were evicted before the power-off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pods_evicted: u32,
    /// The first of them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted_pods: Vec<String>,
    /// Pods that Rackhand deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pods_deleted: u32,
    /// The first of them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_pods: Vec<String>,
    /// When the host was confirmed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Timestamp>,
    /// When the attempt ended.
    pub ended: Timestamp,
    /// The step in which the attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Why the attempt ended.
    #[serde(rename = "because")]
    pub reason: Reason,
}

/// CAPM3's phase of a Metal3Remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the power-on.
    Running,
    /// From the power-on.
    Waiting,
    /// No attempt is left.
    DeletingMachine,
    /// The remediation was given up.
    Failed,
}

impl Phase {
    /// The value that CAPM3 writes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::DeletingMachine => "Deleting machine",
            Self::Failed => "Failed",
        }
    }
}

/// What one attempt has done. The next attempt replaces it whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// When it began.
    pub started: Timestamp,
    /// The Node of the host, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<PinnedNode>,
    /// Since when this attempt has been held because the Machine is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updating_since: Option<Timestamp>,
    /// The update of firmware that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Box<UpdateWatch>>,
    /// Power-offs that were taken back because nothing of them was sent: an update runs, or the Node is Ready again;
    /// each changes the operation id.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub update_refusals: u32,
    /// How its pods leave the host before it is switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Box<Eviction>>,
    /// Whether the operating system is asked to shut down first. Written before it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub soft_off: bool,
    /// The evidence that the host is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<OffEvidence>,
    /// What was done to the outlets that feed the host. Written before it is done (F2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlets: Option<Box<OutletUse>>,
    /// renewTime of the Lease, read after the confirmed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_at_off: Option<String>,
    /// The owner of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<TaintOwner>,
    /// Taint or deletion of the Node, decided at the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_action: Option<NodeAction>,
    /// When the drain was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Timestamp>,
    /// Pods that Rackhand deleted. Only reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pods_deleted: u32,
    /// The first of them by name. Only reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_pods: Vec<String>,
    /// What was collected before the power-off. Only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Box<HostEvidence>>,
    /// When the host was confirmed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Timestamp>,
    /// Where the power of the host is between Rackhand and its owner (F16).
    #[serde(default, skip_serializing_if = "Handover::is_empty")]
    pub handover: Handover,
    /// Power-ons that were repeated because the host was off while it had to boot; part of the
    /// operation id.
    #[serde(default)]
    pub power_on_repeats: u32,
    /// Why the remediation ends early, or why the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<Reason>,
}

impl Attempt {
    /// An attempt that begins.
    pub(super) fn new(number: u32, started: Timestamp) -> Self {
        Self {
            number,
            started,
            node: None,
            updating_since: None,
            update: None,
            update_refusals: 0,
            eviction: None,
            soft_off: false,
            off: None,
            outlets: None,
            lease_at_off: None,
            taint: None,
            node_action: None,
            drained: None,
            pods_deleted: 0,
            deleted_pods: Vec::new(),
            evidence: None,
            on: None,
            handover: Handover::default(),
            power_on_repeats: 0,
            end_reason: None,
        }
    }
}

/// The stored state of a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The current step.
    pub step: Step,
    /// When the step was entered.
    pub since: Timestamp,
    /// The current attempt.
    pub attempt: Attempt,
    /// Operations tried in this step; part of the operation id.
    pub tries: u32,
    /// Those of them that sent no command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsent: u32,
    /// Power-offs that were repeated because the host was on; part of the operation id.
    pub power_off_repeats: u32,
    /// No retry before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Whether baremetal-operator switches the host as well.
    pub mode: Mode,
    /// The strategy when the attempt began.
    #[serde(default)]
    pub strategy: Strategy,
    /// The settings when the attempt began, by which it goes on while its object cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Policy>>,
    /// What counts against budgets since the beginning, whatever becomes of the Node and the Machine (F10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Box<CountedFacts>>,
    /// The conditions of the Node besides Ready, by type and status, that were the cause when the attempt began.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub causes: BTreeSet<(String, String)>,
    /// Why the host is kept off although that is not the strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_off: Option<Reason>,
    /// Why the last operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// `namespace/name` of the Cluster, pinned as soon as it is known, because a deleted Machine
    /// names none. `None` for remediations about the management cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Whether the finalizer on the object is ours. Written before it is added (F9).
    #[serde(default)]
    pub finalizer: bool,
    /// The host that is remediated, once it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRef>,
    /// The Node that this remediation has cordoned, or is about to. Written before that (F9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<CordonedNode>,
    /// Whether a power-off may have been begun, so that the agent may hold the host. Written before
    /// that.
    #[serde(default)]
    pub agent_holds: bool,
    /// The agent of the latest operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<AgentPin>,
    /// Whether the confirmation on the object no longer counts, because it was consumed or is older
    /// than the wait. A new one counts after this one was removed.
    #[serde(default)]
    pub confirmation_used: bool,
    /// Whether the Node was not Ready at some time since the remediation was made. If it becomes Ready
    /// before anything was begun, the remediation may be obsolete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_was_down: bool,
    /// The renewTime of the Node's Lease when this state was made for a remediation that had begun before: it was
    /// moved, or its state is lost; empty until the Lease can be read. The host may have been off for a moment, so
    /// only a renewal shows that its Node is back (F11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_lease: Option<String>,
    /// Since when the Node has been Ready again, before anything was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_back: Option<Timestamp>,
    /// Name of the Node whose kubelet ran on this host when it was last looked at (F14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_node: Option<String>,
    /// The entry of the host with which the BMC was that of another system. The power-off is tried again
    /// once another entry is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_entry: Option<Box<RefusedEntry>>,
    /// The first trace of CAPM3's own controller on the same object. The finalizer, which has the name of CAPM3's, is
    /// then left to it, and nothing begins on the object again (F9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rival: Option<String>,
    /// Finished attempts, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptRecord>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Attempts that are kept, so that the object does not grow without bound.
const ATTEMPTS_KEPT: usize = 10;

impl State {
    /// The state of a remediation that begins.
    pub fn new(now: Timestamp) -> Self {
        Self {
            step: Step::Pending,
            since: now,
            attempt: Attempt::new(1, now),
            tries: 0,
            unsent: 0,
            power_off_repeats: 0,
            retry_at: None,
            failure: None,
            mode: Mode::Direct,
            strategy: Strategy::Reboot,
            policy: None,
            counted: None,
            causes: BTreeSet::new(),
            keep_off: None,
            cluster: None,
            finalizer: false,
            host: None,
            cordoned: None,
            agent_holds: false,
            pinned: None,
            confirmation_used: false,
            node_was_down: false,
            former_lease: None,
            node_back: None,
            other_node: None,
            refused_entry: None,
            rival: None,
            attempts: Vec::new(),
        }
    }

    /// Enters another step.
    #[must_use]
    pub(super) fn at(mut self, step: Step, now: Timestamp) -> Self {
        self.step = step;
        self.since = now;
        self.tries = 0;
        self.unsent = 0;
        self.retry_at = None;
        self.failure = None;
        self
    }

    /// Whether no power-off of this attempt was begun, or each was taken back.
    pub(super) fn is_first_off(&self) -> bool {
        self.tries == 0 && self.power_off_repeats == self.attempt.update_refusals
    }

    /// Whether no power-off of this attempt has sent a command.
    pub(super) fn has_sent_nothing(&self) -> bool {
        self.tries == self.unsent && self.power_off_repeats == self.attempt.update_refusals
    }

    /// Whether a power-off of this attempt was taken back, so that the agent may hold the host, and none was confirmed.
    pub(super) fn is_off_taken_back(&self) -> bool {
        self.agent_holds && self.attempt.update_refusals > 0 && self.attempt.off.is_none()
    }

    /// Records the end of the current attempt.
    pub(super) fn record_attempt(&mut self, reason: Reason, now: Timestamp) {
        self.attempts.push(AttemptRecord {
            number: self.attempt.number,
            started: self.attempt.started,
            off: self.attempt.off.as_ref().map(OffEvidence::at),
            drained: self.attempt.drained,
            outlets: (self.attempt.outlets.iter())
                .flat_map(|used| used.outlets.clone())
                .collect(),
            pods_evicted: (self.attempt.eviction.as_ref()).map_or(0, |eviction| eviction.evicted),
            evicted_pods: (self.attempt.eviction.as_ref())
                .map_or_else(Vec::new, |eviction| eviction.pods.clone()),
            pods_deleted: self.attempt.pods_deleted,
            deleted_pods: self.attempt.deleted_pods.clone(),
            on: self.attempt.on,
            ended: now,
            step: Some(self.step),
            reason,
        });
        if self.attempts.len() > ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
    }

    /// The value of CAPM3's `status.phase`.
    pub fn phase(&self) -> Phase {
        match self.step {
            Step::Pending
            | Step::Evicting
            | Step::Evicted
            | Step::Holding
            | Step::ShuttingDown
            | Step::PoweringOff
            | Step::AwaitingConfirmation
            | Step::ConfirmingOff
            | Step::Tainting
            | Step::Draining
            | Step::Retrying
            | Step::Aborting => Phase::Running,
            Step::PoweringOn | Step::Booting | Step::Restoring | Step::Succeeded => Phase::Waiting,
            Step::Fenced if self.attempt.end_reason.is_none() => Phase::Running,
            Step::Fenced | Step::Escalated => Phase::DeletingMachine,
            Step::Blocked => Phase::Failed,
        }
    }

    /// Whether the current attempt has been recorded, and so has ended.
    pub fn is_recorded(&self) -> bool {
        self.attempts
            .last()
            .is_some_and(|a| a.number == self.attempt.number && a.started == self.attempt.started)
    }

    /// Why the remediation has failed for good; `None` if it has not.
    pub fn failed(&self) -> Option<&Reason> {
        match self.step {
            Step::Fenced => self.attempt.end_reason.as_ref().or(self.keep_off.as_ref()),
            Step::Escalated | Step::Blocked => self.attempt.end_reason.as_ref(),
            _ => None,
        }
    }

    /// Why nothing begins on the object again, if CAPM3's own controller was seen on it.
    pub(super) fn rival(&self) -> Option<Reason> {
        self.rival.clone().map(Reason::RivalController)
    }

    /// `status.retryCount`: attempts after the first.
    pub fn retry_count(&self) -> u32 {
        self.attempt.number.saturating_sub(1)
    }
}
