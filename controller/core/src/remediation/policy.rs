//! What the user asked for, validated, and the waits that bound every step.
//!
//! Owns defaults and their reasons. Must never hold a time that is not a duration.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Because, Mode, State, Step};

/// What is done with the host's power.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// Off, tainted, drained, on.
    #[default]
    Reboot,
    /// Off, tainted, drained; it stays off until the request is withdrawn.
    PowerOff,
    /// The first attempt is off and on, without taint and drain; the others are a Reboot.
    PowerCycleFirst,
}

/// What happens when a drain takes longer than its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrainBlocked {
    /// Stay off, say what blocks, go on when it is gone (F4).
    KeepOff,
    /// Switch on although pods or volumes remain: the user's explicit choice (F4).
    PowerOn,
    /// No further attempt: the host stays off, tainted, until the request is withdrawn.
    GiveUp,
}

/// What happens when the workload cluster cannot be asked for long after the confirmed off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadDown {
    /// Stay off and go on asking.
    KeepOff,
    /// Switch on without a taint: nothing was moved, so nothing can run twice.
    PowerOn,
}

/// What happens when a Machine's Node is gone before anything was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeGone {
    /// The host is taken off and on: its kubelet registers the Node anew.
    PowerCycle,
    /// No attempt is made; it is as if all had failed.
    Replace,
}

/// What happens when no attempt is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnExhausted {
    /// The Machine's owner takes over.
    Escalate,
    /// The same, and the BareMetalHost is marked unhealthy.
    Retire,
    /// Switched off once more, and kept off until the request is withdrawn.
    StayOff,
    /// It is said, and nothing else.
    Notify,
}

/// How a confirmed off is told to the workload cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NodeAction {
    /// By the out-of-service taint.
    Taint,
    /// By deleting the Node: what clusters older than Kubernetes 1.28 understand.
    Delete,
}

/// Everything that a remediation obeys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// What is done with the power.
    pub strategy: Strategy,
    /// What happens when no attempt is left.
    pub on_exhausted: OnExhausted,
    /// What happens when the Node is gone before anything was done.
    pub node_gone: NodeGone,
    /// Attempts after the first one (CAPM3: cycles = retryLimit + 1).
    pub retry_limit: u32,
    /// How long a host may take from the confirmed power-on until its Node is Ready. CAPM3 starts
    /// this clock at the power-off, so that a slow drain eats the boot; here it starts at the
    /// confirmed power-on.
    pub boot_timeout: Duration,
    /// Readings of exactly off that confirm it (F1).
    pub confirmations: u32,
    /// Least time between the first and the last of them (F1).
    pub confirm_interval: Duration,
    /// How long baremetal-operator may act before the agent does (cooperative mode, A3).
    pub cooperative_grace: Duration,
    /// How long one power-off operation may take.
    pub power_off_timeout: Duration,
    /// Power-off operations that may fail before a person is asked (F8).
    pub power_off_tries: u32,
    /// How long one power-on operation may take.
    pub power_on_timeout: Duration,
    /// Wait between failed operations.
    pub retry_interval: Duration,
    /// Wait between retries once a person has been asked.
    pub unconfirmed_interval: Duration,
    /// A reading of off older than this is no longer proof while the taint stands (F3).
    pub hold_watch: Duration,
    /// Time between two looks at pods and volumes.
    pub drain_poll: Duration,
    /// When a drain is called blocked.
    pub drain_timeout: Duration,
    /// And what then.
    pub drain_blocked: DrainBlocked,
    /// How long a plain power cycle keeps the host off after it was confirmed.
    pub cycle_hold: Duration,
    /// How long after the confirmed off the workload cluster may be out of reach.
    pub defer_timeout: Duration,
    /// And what then.
    pub workload_down: WorkloadDown,
    /// When making sure that the kubelet is silent is called overdue.
    pub confirm_timeout: Duration,
    /// When cleaning up is called overdue.
    pub restore_timeout: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            strategy: Strategy::Reboot,
            // What CAPM3 does.
            on_exhausted: OnExhausted::Retire,
            node_gone: NodeGone::PowerCycle,
            retry_limit: 1,
            boot_timeout: Duration::from_secs(600),
            confirmations: 2,
            confirm_interval: Duration::from_secs(2),
            cooperative_grace: Duration::from_secs(20),
            // Ironic allows 120 s for a change of power; slow chassis took 46 s to switch on.
            power_off_timeout: Duration::from_secs(180),
            power_off_tries: 3,
            power_on_timeout: Duration::from_secs(180),
            retry_interval: Duration::from_secs(5),
            unconfirmed_interval: Duration::from_secs(60),
            hold_watch: Duration::from_secs(5),
            drain_poll: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(600),
            drain_blocked: DrainBlocked::KeepOff,
            // Long enough for a power supply to let go of what it holds.
            cycle_hold: Duration::from_secs(5),
            defer_timeout: Duration::from_secs(600),
            workload_down: WorkloadDown::KeepOff,
            // A Lease stands still for less than a minute before that is believed.
            confirm_timeout: Duration::from_secs(120),
            restore_timeout: Duration::from_secs(120),
        }
    }
}

/// How long a health check has to evaluate a Node that is Ready again, before a request that waited is
/// begun all the same.
pub(super) const HEALTH_GRACE: Duration = Duration::from_secs(15);

impl Policy {
    /// When the time of the present step is over; `None`: it has none. What follows is the step's to
    /// say; where nothing else may follow, it is called overdue and goes on.
    pub fn step_until(&self, s: &State) -> Option<Timestamp> {
        let since = |t: Timestamp, d: Duration| Some(t.checked_add(d).unwrap_or(Timestamp::MAX));
        let after_off = s.off.as_ref().map_or(s.since, super::OffEvidence::at);
        match s.step {
            Step::PoweringOff => {
                let grace = match s.mode {
                    Mode::Cooperative => self.cooperative_grace,
                    Mode::Direct => Duration::ZERO,
                };
                let all = self.power_off_timeout.saturating_mul(self.power_off_tries);
                since(s.since, all.saturating_add(grace))
            }
            // By then the next try, or the one that runs, has come to something.
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
            Step::Restoring if s.ending == Some(Because::BootTimeout) => {
                since(s.since, self.restore_timeout)
            }
            // Later where the workload cluster was out of reach for long.
            Step::Booting | Step::Restoring => {
                since(s.on.unwrap_or(s.since), self.boot_timeout).max(s.retry_at)
            }
            Step::Pending => s.node_back.and_then(|at| since(at, HEALTH_GRACE)),
            Step::Holding
            | Step::Fenced
            | Step::Retrying
            | Step::Aborting
            | Step::Succeeded
            | Step::Escalated
            | Step::Blocked => None,
        }
    }
}

/// What is wrong with a strategy as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PolicyError {
    /// Nothing was asked for.
    #[error("spec.strategy is not set; set spec.strategy.type to Reboot")]
    NoStrategy,
    /// Not a strategy of this kind.
    #[error("spec.strategy.type {0:?} is not known; use Reboot")]
    UnknownStrategy(String),
    /// A field does not read.
    #[error("{field}: {message}")]
    Field {
        /// Its path.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}
