//! The agent of a host, and the operations at agents.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{CommandTaken, FirmwareUpdate, PowerReading};

/// The agent that serves the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AgentView {
    /// The agent is connected, and our term is claimed.
    Ready,
    /// The agent cannot be used now.
    Unreachable {
        /// The reason, as a clause for messages.
        why: String,
    },
}

/// Whether address and credentials of the BMC are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BmcAccess {
    /// Both are in the inventory, or in the parts of the BareMetalHost and its Secret that were read.
    Known,
    /// The BareMetalHost, and with it the address, is gone by a live read.
    HostGone {
        /// `namespace/name`.
        name: String,
    },
    /// The address or the credentials are missing by a live read.
    Missing {
        /// What is missing.
        why: String,
    },
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperationOutcome {
    /// The requested state was confirmed by readings.
    Confirmed {
        /// The readings that prove it.
        readings: Vec<PowerReading>,
        /// For a power-off, the command that the BMC took before them.
        taken: Option<CommandTaken>,
    },
    /// The deadline passed before the power state was confirmed.
    Unconfirmed {
        /// The last failure, as a clause for messages.
        why: String,
    },
    /// The operation cannot succeed without a change.
    Failed {
        /// The reason, as a clause for messages.
        why: String,
    },
    /// The BMC manages another system (F5).
    IdentityMismatch {
        /// The identity that was found, for messages.
        why: String,
    },
    /// The BMC reports an update of firmware that runs, so nothing was sent.
    FirmwareUpdate {
        /// The update for which the agent sent no command.
        update: FirmwareUpdate,
        /// The outcome, as a clause for messages.
        why: String,
    },
    /// The BMC reports an update of firmware that runs, after commands of this operation were sent: the host may still
    /// go off by them, and nothing more was sent.
    UpdateAfterCommand {
        /// The update that began after a command was sent.
        update: FirmwareUpdate,
        /// The outcome, as a clause for messages.
        why: String,
    },
    /// The operation was cancelled.
    Cancelled,
    /// The agent was restarted during the operation.
    Interrupted,
}

/// The operation of the current step and try.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OperationView {
    /// The operation has begun and has no outcome yet.
    Running,
    /// A running power-on that waits for its turn at the power supply of the host, or has waited.
    /// The wait does not count against its deadline, at the agent either.
    Staged {
        /// What it waits for, as reported by the agent.
        why: String,
        /// When its turn is due, by the agent's clock.
        due: Timestamp,
    },
    /// The operation has ended.
    Finished {
        /// How the operation ended.
        outcome: OperationOutcome,
        /// Number of power commands that were sent.
        commands_sent: u32,
    },
    /// The agent refused to begin the operation.
    Rejected {
        /// The reason, as a clause for messages.
        why: String,
    },
}

/// State of the operation that is pinned in the stored state, by the agent that it is pinned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PinnedOperation {
    /// That agent was not queried, or did not answer.
    Unknown,
    /// The operation may still command the BMC.
    Running,
    /// The operation has ended, or was never begun.
    Ended,
}

/// Upper bound of the wait for a staggered power-on (L1): a thousand hosts on one power supply, a
/// minute apart.
pub(in crate::remediation) const LONGEST_POWER_ON_DELAY: Duration = Duration::from_secs(17 * 3600);
