//! The policy of a remediation: what the user requested, validated, and the time limits of all
//! steps.
//!
//! Contains the defaults and their reasons.

pub(super) mod version;

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Mode, Reason, State, Step, WordsOfPersons, handover::SILENT_OWNER};

/// What is done with a host's power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// The host is switched off and confirmed off, the workloads move, and the
    /// host is switched on again.
    #[default]
    Reboot,
    /// The host is switched off and confirmed off, the workloads move, and the
    /// host stays off, tainted and held, until this object is deleted. Then it
    /// is switched on again, unless it is to stay off for another reason: its
    /// BareMetalHost has online false or another reboot annotation.
    PowerOff,
    /// The Node is cordoned and its pods are evicted. The host stays on, and
    /// its Node cordoned, until this object is deleted. Nothing is switched,
    /// also if the Node becomes Unknown, because a person may be working on
    /// the host: pods that are left wait until the type is changed to
    /// PowerOff. If a health check has made this object, a host that fails
    /// before its pods have left is fenced as with PowerOff.
    Evict,
    /// The first attempt only switches the host off, confirmed, and on again
    /// after a short pause: it is faster and moves no workload, so it sets no
    /// taint. The attempts after it are as for Reboot.
    PowerCycleFirst,
}

/// What happens when pods do not leave a host in time that is still on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EvictionPolicy {
    /// The remediation goes on. The workloads that are left move once the host
    /// is confirmed off, whatever their PodDisruptionBudgets say.
    #[default]
    Proceed,
    /// Nothing is switched before they have left, and the status names what
    /// blocks them. A host that fails meanwhile is switched off nevertheless.
    Wait,
    /// The remediation ends without a power-off, as failed, and the Node is
    /// uncordoned.
    Abort,
}

/// What happens when a host's workloads do not move in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DrainPolicy {
    /// The host stays off until they have moved, and the status names what
    /// blocks them.
    #[default]
    StayOff,
    /// The host is switched on nevertheless. A workload that has not moved
    /// starts there again. With PowerOff, and where onExhausted keeps the host
    /// off, the effect is that of StayOff.
    PowerOn,
    /// The attempts end there. Escalate and Retire hand the Machine over; in
    /// any case the host stays off and tainted until this object is deleted and
    /// the workloads have moved.
    GiveUp,
}

/// What happens when no taint can be set because the workload cluster does not
/// answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UnreachablePolicy {
    /// The host stays off until the cluster answers.
    #[default]
    StayOff,
    /// The host is switched on without a taint: nothing was moved.
    PowerOn,
}

/// What happens when the Node is gone before anything was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum NodeGonePolicy {
    /// The host is switched off and on, and its kubelet registers the Node
    /// again.
    #[default]
    PowerCycle,
    /// No attempt is made, and onExhausted applies at once.
    Replace,
}

/// What happens when no attempt is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum OnExhausted {
    /// The owner of the Machine is to replace it, and the remediation is
    /// reported to the health check as failed.
    #[default]
    Escalate,
    /// As Escalate, and the BareMetalHost is marked unhealthy so that it is not
    /// chosen again.
    Retire,
    /// The host is switched off once more as for PowerOff, and kept off until
    /// this object is deleted. The remediation counts as failed.
    StayOff,
    /// The host stays on as it is. Only a condition and an Event report the
    /// failure.
    Notify,
}

/// How the workload cluster is notified of a confirmed off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeAction {
    /// The out-of-service taint is set.
    Taint,
    /// The Node is deleted, for clusters older than Kubernetes 1.28.
    Delete,
}

/// Who deletes the pods of a host that is confirmed off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PodDeletion {
    /// Rackhand deletes them as soon as the taint has evicted them, only while
    /// the BMC reports off. The controller needs the right to delete pods;
    /// without it, the effect is that of PodGC.
    #[default]
    Immediate,
    /// Rackhand deletes no pods. The garbage collector of pods in
    /// kube-controller-manager deletes them within 20 seconds, once the Node is
    /// not ready.
    #[serde(rename = "PodGC")]
    PodGc,
}

/// The settings of a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// What is done with the power of the host.
    pub strategy: Strategy,
    /// What happens when no attempt is left.
    pub on_exhausted: OnExhausted,
    /// What happens when the Node is gone before anything was done.
    pub node_gone: NodeGonePolicy,
    /// Attempts after the first one (CAPM3: cycles = retryLimit + 1).
    pub retry_limit: u32,
    /// Time from the confirmed power-on until the Node is Ready. CAPM3 counts from the power-off,
    /// so that a slow drain shortens the time to boot.
    pub boot_timeout: Duration,
    /// Time that the collection of evidence may take before the power-off of an attempt; zero collects
    /// none.
    pub evidence_timeout: Duration,
    /// Whether a diagnostic interrupt is sent before the power-off. The host has the rest of the evidence
    /// timeout to write its dump.
    pub diagnostic_interrupt: bool,
    /// Readings of exactly off that confirm a power-off (F1).
    pub confirmations: u32,
    /// Minimum time between the first and the last of these readings (F1).
    pub confirm_interval: Duration,
    /// Time for baremetal-operator to act before the agent does (cooperative mode, A3).
    pub cooperative_grace: Duration,
    /// Time for the pods of a host that is still on to be evicted before the power-off; zero evicts none.
    pub eviction_timeout: Duration,
    /// What happens after the eviction timeout.
    pub eviction_blocked: EvictionPolicy,
    /// Time for the operating system to shut down before the power is cut; zero sends no soft off.
    pub soft_off_timeout: Duration,
    /// Deadline of one power-off operation.
    pub power_off_timeout: Duration,
    /// Power-off operations that may fail before a confirmation by a person is requested (F8).
    pub power_off_tries: u32,
    /// Deadline of one power-on operation.
    pub power_on_timeout: Duration,
    /// Pause after a failed operation.
    pub retry_interval: Duration,
    /// Pause between retries while a confirmation is awaited.
    pub unconfirmed_interval: Duration,
    /// Maximum age of a reading of off while the taint is set (F3).
    pub hold_watch: Duration,
    /// Interval of listing pods and volumes.
    pub drain_poll: Duration,
    /// Time after which a drain is reported as blocked.
    pub drain_timeout: Duration,
    /// What happens after the drain timeout.
    pub drain_blocked: DrainPolicy,
    /// Who deletes the pods.
    pub pod_deletion: PodDeletion,
    /// Time for which a plain power cycle keeps the host off after it was confirmed off.
    pub cycle_hold: Duration,
    /// Time after the confirmed off for which the workload cluster may be out of reach.
    pub defer_timeout: Duration,
    /// What happens after the defer timeout.
    pub workload_down: UnreachablePolicy,
    /// Time after which the check that the kubelet is silent is reported as overdue.
    pub confirm_timeout: Duration,
    /// Time after which cleaning up is reported as overdue.
    pub restore_timeout: Duration,
    /// Time for which an update in place that the owner of the Machine announces holds an attempt.
    pub update_timeout: Duration,
    /// Age of a BareMetalHost from which hold keys on it that no remediation needs are removed: after a move or a
    /// restore, its remediation may arrive later than the host.
    pub orphaned_hold_age: Duration,
    /// Whether annotations count by which a person decides. A flag of the controller, which applies at once: it is
    /// not recorded.
    #[serde(skip)]
    pub words_of_persons: WordsOfPersons,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            strategy: Strategy::Reboot,
            // What CAPM3 does.
            on_exhausted: OnExhausted::Retire,
            node_gone: NodeGonePolicy::PowerCycle,
            retry_limit: 1,
            boot_timeout: Duration::from_secs(600),
            // The flags of the controller set it.
            evidence_timeout: Duration::ZERO,
            diagnostic_interrupt: false,
            confirmations: 2,
            confirm_interval: Duration::from_secs(2),
            cooperative_grace: Duration::from_secs(20),
            // CAPM3 evicts nothing, and sends no soft off.
            eviction_timeout: Duration::ZERO,
            eviction_blocked: EvictionPolicy::Proceed,
            soft_off_timeout: Duration::ZERO,
            // Ironic allows 120 s for a change of power; slow chassis took 46 s to switch on.
            power_off_timeout: Duration::from_secs(180),
            power_off_tries: 3,
            power_on_timeout: Duration::from_secs(180),
            retry_interval: Duration::from_secs(5),
            unconfirmed_interval: Duration::from_secs(60),
            hold_watch: Duration::from_secs(5),
            drain_poll: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(600),
            drain_blocked: DrainPolicy::StayOff,
            // What CAPM3 relies on.
            pod_deletion: PodDeletion::PodGc,
            // Long enough for a power supply to discharge.
            cycle_hold: Duration::from_secs(5),
            defer_timeout: Duration::from_secs(600),
            workload_down: UnreachablePolicy::StayOff,
            // The Lease is observed for less than a minute.
            confirm_timeout: Duration::from_secs(120),
            restore_timeout: Duration::from_secs(120),
            update_timeout: Duration::from_secs(1800),
            orphaned_hold_age: Duration::from_secs(600),
            words_of_persons: WordsOfPersons::Accepted,
        }
    }
}

/// Upper bound of [`Policy::evidence_timeout`], during which a failed Node waits.
pub const LONGEST_EVIDENCE: Duration = Duration::from_secs(600);

/// Time for a health check to evaluate a Node that is Ready again, before a remediation that waited is
/// begun nevertheless.
pub(super) const HEALTH_GRACE: Duration = Duration::from_secs(15);

/// Minimum time for an operation beyond the readings that confirm it.
const LEAST: Duration = Duration::from_secs(1);

impl Policy {
    /// How long a power-off may take that sends its command after `command_after`: the readings that confirm it (F1) have
    /// their time even if the timeout is shorter.
    pub fn off_limit(&self, command_after: Duration) -> Duration {
        let readings = self.confirmations.saturating_sub(1);
        let least = self.confirm_interval.saturating_mul(readings);
        self.power_off_timeout
            .max(least.saturating_add(LEAST))
            .saturating_add(command_after)
    }

    /// How long a power-on may take.
    pub fn on_limit(&self) -> Duration {
        self.power_on_timeout.max(LEAST)
    }

    /// When the time of the current step is over; `None` if it is unlimited. The step decides what
    /// follows; if nothing else may follow, it is reported as overdue and continues.
    pub fn step_until(&self, s: &State) -> Option<Timestamp> {
        let since = |t: Timestamp, d: Duration| Some(t.checked_add(d).unwrap_or(Timestamp::MAX));
        let after_off = s
            .attempt
            .off
            .as_ref()
            .map_or(s.since, super::OffEvidence::at);
        match s.step {
            Step::PoweringOff => {
                let grace = match s.mode {
                    Mode::Cooperative if s.attempt.soft_off => {
                        self.cooperative_grace.max(self.soft_off_timeout)
                    }
                    Mode::Cooperative => self.cooperative_grace,
                    Mode::Direct => Duration::ZERO,
                };
                let all = self.power_off_timeout.saturating_mul(self.power_off_tries);
                since(s.since, all.saturating_add(grace))
            }
            // By then the current or the next try has ended.
            Step::AwaitingConfirmation => {
                since(s.retry_at.unwrap_or(s.since), self.power_off_timeout)
            }
            Step::ConfirmingOff => since(after_off, self.confirm_timeout),
            Step::Tainting => since(after_off, self.defer_timeout),
            Step::Draining => since(s.since, self.drain_timeout),
            Step::PoweringOn => {
                let all = self.power_on_timeout.saturating_mul(self.power_off_tries);
                since(s.since, all.saturating_add(self.cooperative_grace))
            }
            Step::Restoring if s.attempt.end_reason == Some(Reason::BootTimeout) => {
                since(s.since, self.restore_timeout)
            }
            Step::Restoring if s.attempt.handover.unreported.is_some() => {
                (s.attempt.handover.unreported).and_then(|at| since(at, SILENT_OWNER))
            }
            // The update that runs decides.
            Step::Booting | Step::Restoring if s.attempt.update.is_some() => None,
            // Later if the workload cluster was out of reach for long.
            Step::Booting | Step::Restoring => {
                since(s.attempt.on.unwrap_or(s.since), self.boot_timeout).max(s.retry_at)
            }
            Step::Pending | Step::Retrying => s.node_back.and_then(|at| since(at, HEALTH_GRACE)),
            Step::Holding if s.attempt.evidence.is_none() && !self.evidence_timeout.is_zero() => {
                since(s.since, self.evidence_timeout)
            }
            Step::ShuttingDown => since(s.since, self.soft_off_timeout),
            Step::Evicting => (s.attempt.eviction.as_ref()).map(|eviction| eviction.until),
            Step::Holding
            | Step::Evicted
            | Step::Fenced
            | Step::Aborting
            | Step::Succeeded
            | Step::Escalated
            | Step::Blocked => None,
        }
    }
}

/// An error in a strategy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PolicyError {
    /// The spec has no strategy.
    #[error("spec.strategy is not set; set spec.strategy.type to Reboot")]
    NoStrategy,
    /// The kind has no such strategy.
    #[error("spec.strategy.type {0:?} is not known; use Reboot")]
    UnknownStrategy(String),
    /// A field cannot be parsed.
    #[error("{field}: {message}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong with the field.
        message: String,
    },
}
