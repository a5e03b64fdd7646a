//! What must survive a crash: the cursor of a remediation.
//!
//! Owns the durable form. Must never hold credentials or anything that can be read again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Because, NodeAction, NodeFacts, OffEvidence, Strategy};

/// Where a remediation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the module's picture says it")]
pub enum Step {
    Pending,
    Holding,
    PoweringOff,
    AwaitingConfirmation,
    ConfirmingOff,
    Tainting,
    Draining,
    /// Off, and kept off.
    Fenced,
    PoweringOn,
    Booting,
    Restoring,
    Retrying,
    Aborting,
    Succeeded,
    Escalated,
    Blocked,
}

impl Step {
    /// The word for status, metric labels and the CLI.
    pub fn label(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Holding => "Holding",
            Self::PoweringOff => "PoweringOff",
            Self::AwaitingConfirmation => "AwaitingConfirmation",
            Self::ConfirmingOff => "ConfirmingOff",
            Self::Tainting => "Tainting",
            Self::Draining => "Draining",
            Self::Fenced => "Fenced",
            Self::PoweringOn => "PoweringOn",
            Self::Booting => "Booting",
            Self::Restoring => "Restoring",
            Self::Retrying => "Retrying",
            Self::Aborting => "Aborting",
            Self::Succeeded => "Succeeded",
            Self::Escalated => "Escalated",
            Self::Blocked => "Blocked",
        }
    }

    /// Nothing follows by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Escalated | Self::Blocked)
    }
}

/// Who else switches this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// baremetal-operator does too: it is told first.
    Cooperative,
    /// Nobody.
    Direct,
}

/// Which host, so that it is found again when its Machine is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRef {
    /// The agent's rack.
    pub rack: String,
    /// Its name at the agent.
    pub host: String,
    /// `namespace/name` of its BareMetalHost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmh: Option<String>,
    /// Where its BMC is, without credentials: two names for one BMC are one host.
    pub bmc: String,
}

/// An agent, and the journal in which it keeps what it did.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentId {
    /// The name of its RackAgent.
    pub agent: String,
    /// The instance of its journal; empty: it does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub journal: String,
}

impl AgentId {
    /// The same agent with the same journal, as far as both are known.
    pub fn is_same(&self, other: &Self) -> bool {
        let known = !self.journal.is_empty() && !other.journal.is_empty();
        self.agent == other.agent && (!known || self.journal == other.journal)
    }
}

/// Where an operation was to be begun, written before it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPin {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentId,
    /// The id of the operation.
    pub operation: String,
    /// Until when it may still command the BMC; `None`: it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The Node as it was when the host was found off, or before that.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMark {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// bootID: another one means that it has booted.
    pub boot_id: String,
    /// systemUUID: which hardware it is (F5).
    pub system_uuid: String,
    /// It came under this name after the power-off was begun, and nothing tells which machine it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
}

impl NodeMark {
    /// As it is seen now.
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

/// Whose the out-of-service taint is (F9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TaintOwner {
    /// Ours to remove. Written before it is added.
    Us,
    /// It was there before: not ours to remove.
    Other,
}

/// One attempt, for the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptRecord {
    /// Which it was, from 1.
    #[serde(default)]
    pub number: u32,
    /// When it began.
    pub started: Timestamp,
    /// When the host was confirmed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Timestamp>,
    /// When the drain was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Timestamp>,
    /// When it was confirmed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Timestamp>,
    /// When it ended.
    pub ended: Timestamp,
    /// In which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// How.
    pub because: Because,
}

/// CAPM3's phase of a Metal3Remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Until the host is drained.
    Running,
    /// From the power-on.
    Waiting,
    /// Attempts used up.
    DeletingMachine,
    /// Given up.
    Failed,
}

impl Phase {
    /// As CAPM3 writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::DeletingMachine => "Deleting machine",
            Self::Failed => "Failed",
        }
    }
}

/// The cursor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Where it stands.
    pub step: Step,
    /// Since when.
    pub since: Timestamp,
    /// 1 is the first.
    pub attempt: u32,
    /// When this attempt began.
    pub attempt_started: Timestamp,
    /// Operations tried in this step; part of the operation's id.
    pub tries: u32,
    /// Power-offs that were started anew because the host was seen on; part of the id too.
    pub fences: u32,
    /// Power-ons that were begun anew because the host was seen off while it had to boot; part of the
    /// id too.
    #[serde(default)]
    pub ons: u32,
    /// Do not try again before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Who else switches it.
    pub mode: Mode,
    /// What is done with the power, as asked when the attempt began.
    #[serde(default)]
    pub strategy: Strategy,
    /// How the Node is told; decided at the first taint or deletion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_action: Option<NodeAction>,
    /// Why it is kept off although that was not the strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_off: Option<Because>,
    /// Why the last operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// `namespace/name` of the Cluster, from when it is known: a Machine that is deleted names none.
    /// `None` for requests about this very cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRef>,
    /// The Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeMark>,
    /// The proof that it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<OffEvidence>,
    /// The Lease's renewTime, read after the confirmed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_at_off: Option<String>,
    /// Whose the taint is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taint: Option<TaintOwner>,
    /// When the drain was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Timestamp>,
    /// When it was confirmed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Timestamp>,
    /// A power-off may have been begun, so the agent may hold the host. Written before it is.
    #[serde(default)]
    pub agent_holds: bool,
    /// Where the latest operation was to be begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<AgentPin>,
    /// The confirmation that stands on the object does not count: it was taken already, or it was
    /// there before it was asked for. It counts again once it was seen to be gone.
    #[serde(default)]
    pub person_heard: bool,
    /// The Node was seen not Ready since the request came. If it is Ready before anything was begun, the
    /// reason for the request may be gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub node_was_down: bool,
    /// Since when it has been Ready again, before anything was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_back: Option<Timestamp>,
    /// Why it is ended early, or why the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Because>,
    /// Finished attempts, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<AttemptRecord>,
}

/// Attempts kept for the record: an object must not grow for ever.
const ATTEMPTS_KEPT: usize = 10;

impl State {
    /// Where every remediation begins.
    pub fn new(now: Timestamp) -> Self {
        Self {
            step: Step::Pending,
            since: now,
            attempt: 1,
            attempt_started: now,
            tries: 0,
            fences: 0,
            ons: 0,
            retry_at: None,
            failure: None,
            mode: Mode::Direct,
            strategy: Strategy::Reboot,
            node_action: None,
            keep_off: None,
            cluster: None,
            host: None,
            node: None,
            off: None,
            lease_at_off: None,
            taint: None,
            drained: None,
            on: None,
            agent_holds: false,
            pinned: None,
            person_heard: false,
            node_was_down: false,
            node_back: None,
            ending: None,
            attempts: Vec::new(),
        }
    }

    /// The same, at another step.
    #[must_use]
    pub(super) fn at(mut self, step: Step, now: Timestamp) -> Self {
        self.step = step;
        self.since = now;
        self.tries = 0;
        self.retry_at = None;
        self.failure = None;
        self
    }

    /// Closes the attempt and puts it on record.
    pub(super) fn record_attempt(&mut self, because: Because, now: Timestamp) {
        self.attempts.push(AttemptRecord {
            number: self.attempt,
            started: self.attempt_started,
            off: self.off.as_ref().map(OffEvidence::at),
            drained: self.drained,
            on: self.on,
            ended: now,
            step: Some(self.step),
            because,
        });
        if self.attempts.len() > ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
    }

    /// What CAPM3's users read in `status.phase`.
    pub fn phase(&self) -> Phase {
        match self.step {
            Step::Pending
            | Step::Holding
            | Step::PoweringOff
            | Step::AwaitingConfirmation
            | Step::ConfirmingOff
            | Step::Tainting
            | Step::Draining
            | Step::Retrying
            | Step::Aborting => Phase::Running,
            Step::PoweringOn | Step::Booting | Step::Restoring | Step::Succeeded => Phase::Waiting,
            Step::Fenced if self.ending.is_none() => Phase::Running,
            Step::Fenced | Step::Escalated => Phase::DeletingMachine,
            Step::Blocked => Phase::Failed,
        }
    }

    /// The present attempt is on record: it has ended.
    pub fn is_recorded(&self) -> bool {
        self.attempts
            .last()
            .is_some_and(|a| a.number == self.attempt && a.started == self.attempt_started)
    }

    /// Why it has failed for good, although the object is still served; `None`: it has not.
    pub fn failed(&self) -> Option<&Because> {
        match self.step {
            Step::Fenced => self.ending.as_ref().or(self.keep_off.as_ref()),
            Step::Escalated | Step::Blocked => self.ending.as_ref(),
            _ => None,
        }
    }

    /// `status.retryCount`: attempts after the first.
    pub fn retry_count(&self) -> u32 {
        self.attempt.saturating_sub(1)
    }
}
