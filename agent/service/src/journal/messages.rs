//! gRPC statuses and outcomes for results of the ledger.

use rackhand_agent_core::ledger::{RecordedOutcome, Refused};
use rackhand_proto::v1;
use rackhand_transport::Refusal;

/// The status of a refusal.
pub(crate) fn refused_status(refused: &Refused) -> tonic::Status {
    let refusal = match refused {
        Refused::StaleTerm { .. } => Refusal::StaleTerm,
        Refused::Unclaimed { .. } => Refusal::UnclaimedTerm,
        Refused::StaleSequence { .. } => Refusal::StaleSequence,
        Refused::Standby { .. } => Refusal::Standby,
        Refused::Held(_) => Refusal::Held,
        // Transient: another request or a working name resolution succeeds.
        Refused::TooLate { .. } | Refused::Unresolved { .. } | Refused::MaybeHeld { .. } => {
            return tonic::Status::unavailable(refused.to_string());
        }
        Refused::OtherOperation { .. } => {
            return tonic::Status::invalid_argument(refused.to_string());
        }
    };
    refusal.status(refused.to_string())
}

/// The message of an outcome.
pub(crate) fn outcome_to_proto(outcome: RecordedOutcome<v1::Outcome>) -> v1::Outcome {
    match outcome {
        RecordedOutcome::Reported(outcome) => outcome,
        RecordedOutcome::Interrupted { commands_sent } => interrupted(commands_sent),
        RecordedOutcome::Released { host, owner } => v1::Outcome {
            code: v1::OutcomeCode::Confirmed.into(),
            message: format!("host {host}: the hold of {owner} was lifted"),
            ..v1::Outcome::default()
        },
    }
}

/// The outcome of an operation that the agent itself did not survive.
pub(crate) fn interrupted(commands_sent: usize) -> v1::Outcome {
    let sent = match commands_sent {
        0 => "no command had been sent".to_owned(),
        1 => "one command may have reached the BMC".to_owned(),
        n => format!("{n} commands may have reached the BMC"),
    };
    v1::Outcome {
        code: v1::OutcomeCode::Interrupted.into(),
        message: format!(
            "the agent was stopped during the operation; {sent}. Read the power state and repeat the request"
        ),
        commands_sent: u32::try_from(commands_sent).unwrap_or(u32::MAX),
        ..v1::Outcome::default()
    }
}
