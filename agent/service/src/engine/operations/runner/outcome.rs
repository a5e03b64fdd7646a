//! The outcome of an operation, as callers get it.

use rackhand_agent_core::ledger::Device;
use rackhand_bmc::{
    BmcError, ErrorKind, PowerState,
    operation::{Outcome, Report, state_word},
};
use rackhand_proto::v1;

use super::{Run, StopCause};
use crate::{
    convert::{
        detail, failure_to_proto, proof_to_proto, reading_to_proto, taken_to_proto, update_to_proto,
    },
    journal::interrupted,
};

impl Run {
    /// The outcome of a report.
    pub(super) fn outcome_of(&self, report: &Report, cause: Option<StopCause>) -> v1::Outcome {
        let host = &self.target.host;
        let failure = report.error.as_ref();
        let message = match self.device {
            Device::Bmc => format!("host {host}: {}", report.outcome),
            Device::Outlets => format!("host {host}, by its outlets: {}", words(&report.outcome)),
        };
        let mut outcome = v1::Outcome {
            code: code(&report.outcome).into(),
            message,
            commands_sent: report.commands,
            failure: failure.map(|error| failure_to_proto(host, error)),
            detail: detail(&report.outcome).into(),
            ..v1::Outcome::default()
        };
        match &report.outcome {
            done if done.is_done() => {
                outcome.failure = None;
                if report.was_abandoned {
                    outcome.message =
                        format!("{}; its caller was gone before that", outcome.message);
                }
            }
            Outcome::Stopped => match cause {
                Some(StopCause::Journal(error)) => {
                    outcome.message = format!(
                        "host {host}: the command was not sent, because it could not be written \
                         into the journal first: {error}"
                    );
                }
                Some(StopCause::Siblings(why)) => {
                    let why = match report.commands {
                        0 => why,
                        sent => format!("{why}. {} had been sent before", commands(sent)),
                    };
                    outcome.message.clone_from(&why);
                    outcome.failure = Some(v1::Failure {
                        kind: v1::FailureKind::Refused.into(),
                        message: why,
                    });
                }
                None => {
                    let sent = usize::try_from(report.commands).unwrap_or(usize::MAX);
                    let failure = outcome.failure.take();
                    outcome = v1::Outcome {
                        failure,
                        ..interrupted(sent)
                    };
                }
            },
            Outcome::IdentityMismatch(_) => {
                if report.commands > 0 {
                    outcome.message = format!(
                        "{}. {} had been sent before the BMC changed its answer",
                        outcome.message,
                        commands(report.commands)
                    );
                }
                outcome.failure = Some(v1::Failure {
                    kind: v1::FailureKind::Identity.into(),
                    message: outcome.message.clone(),
                });
            }
            Outcome::FirmwareUpdate { update, .. } => {
                outcome.update = Some(update_to_proto(update));
                outcome.failure = Some(v1::Failure {
                    kind: v1::FailureKind::Refused.into(),
                    message: outcome.message.clone(),
                });
            }
            Outcome::CallerGone { .. } => {
                outcome.message = format!(
                    "{}. {} had been sent",
                    outcome.message,
                    commands(report.commands)
                );
            }
            Outcome::Cancelled => {
                if let Some(by) = self.handle.overtaken_by() {
                    outcome.message =
                        format!("host {host}: replaced by operation {by}, a hard power off");
                }
            }
            _ => {
                if let Some(error) = failure {
                    outcome.message = format!("{} ({error})", outcome.message);
                }
                if let Some(sent) = report.after_failure() {
                    outcome.message = format!("{}; {sent}", outcome.message);
                }
                if let Some(why) = unclear_state(self.device, report) {
                    outcome.message = format!("{}; {why}", outcome.message);
                }
            }
        }
        if let Some(why) = &report.updates_unknown {
            outcome.message = format!(
                "{}; when a command was sent, it was not known whether firmware was being updated: {why}",
                outcome.message
            );
        }
        self.with_evidence(outcome, report)
    }

    /// The outcome with the readings and the command that prove it.
    fn with_evidence(&self, outcome: v1::Outcome, report: &Report) -> v1::Outcome {
        let clock = self.context.clock;
        let begun = clock
            .since_start()
            .saturating_sub(self.handle.begun.elapsed());
        let readings = report.readings.iter().zip(&report.reading_times);
        let taken = report.off_taken.as_ref();
        v1::Outcome {
            readings: readings
                .map(|(reading, at)| reading_to_proto(reading, begun.saturating_add(*at)))
                .collect(),
            power_off_taken: taken
                .map(|(taken, at)| taken_to_proto(taken, begun.saturating_add(*at))),
            off_proof: proof_to_proto(report.proof).into(),
            updates_unknown: report.updates_unknown.clone().unwrap_or_default(),
            ..outcome
        }
    }

    /// The outcome of an operation whose device cannot be used.
    pub(super) fn unusable(&self, error: &BmcError) -> v1::Outcome {
        let failure = failure_to_proto(&self.target.host, error);
        v1::Outcome {
            code: v1::OutcomeCode::Failed.into(),
            message: failure.message.clone(),
            failure: Some(failure),
            ..v1::Outcome::default()
        }
    }

    /// The outcome of an operation that was never started at the host.
    pub(super) fn no_turn(&self) -> v1::Outcome {
        v1::Outcome {
            code: v1::OutcomeCode::Unconfirmed.into(),
            message: format!(
                "host {}: another operation on it went on until the deadline; nothing was sent",
                self.target.host
            ),
            detail: v1::OutcomeDetail::NotSent.into(),
            ..v1::Outcome::default()
        }
    }
}

/// What the BMC reports, and advice, if the last reading does not tell whether the host is on.
fn unclear_state(device: Device, report: &Report) -> Option<String> {
    let last = report.readings.last()?;
    match last.state {
        PowerState::On if last.raw.contains(", but chassis") => Some(format!(
            "the BMC reports {:?}: the chassis is off, and probably only the state of the system is out of date; \
             restart the BMC (bmc reset) and try again, or switch its outlets off (pdu off)",
            last.raw
        )),
        PowerState::Unknown if device == Device::Bmc => Some(format!(
            "the BMC reports {:?}, which is neither on nor off; restart the BMC (bmc reset) and try again, or look at \
             the host itself",
            last.raw
        )),
        _ => None,
    }
}

/// A number of commands, in words.
fn commands(sent: u32) -> String {
    match sent {
        0 => "no command".to_owned(),
        1 => "1 command".to_owned(),
        sent => format!("{sent} commands"),
    }
}

/// An outcome at the outlets of a host, in a sentence.
fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NotTaken => {
            "off is not confirmed: the outlets are off, but a PDU took no command of \
                              this operation"
                .to_owned()
        }
        Outcome::Unconfirmed {
            wanted,
            last: None,
            after,
        } => format!(
            "not confirmed {} within {after:?}: not all outlets could be read",
            state_word(*wanted)
        ),
        Outcome::NotSent {
            command,
            last: None,
            after,
        } => format!(
            "the {} was not sent within {after:?}: not all outlets could be read",
            command.words()
        ),
        Outcome::Failed(ErrorKind::System) => {
            "a PDU does not have an outlet of this host; mend its \
                                               outlets in the inventory"
                .to_owned()
        }
        Outcome::Failed(_) => "not all outlets can be read and switched".to_owned(),
        other => other.to_string(),
    }
}

fn code(outcome: &Outcome) -> v1::OutcomeCode {
    match outcome {
        Outcome::Confirmed { .. }
        | Outcome::Forced { .. }
        | Outcome::Cycled { .. }
        | Outcome::Taken { .. } => v1::OutcomeCode::Confirmed,
        Outcome::Unconfirmed { .. }
        | Outcome::Unknown { .. }
        | Outcome::NotShutDown { .. }
        | Outcome::NotTaken
        | Outcome::Unproven { .. }
        | Outcome::NotSent { .. } => v1::OutcomeCode::Unconfirmed,
        // Stopped by the journal; a shutdown of the agent is reported as an interruption.
        Outcome::Failed(_)
        | Outcome::NeedsPower { .. }
        | Outcome::FirmwareUpdate { .. }
        | Outcome::Stopped => v1::OutcomeCode::Failed,
        Outcome::IdentityMismatch(_) => v1::OutcomeCode::IdentityMismatch,
        Outcome::Cancelled | Outcome::CallerGone { .. } => v1::OutcomeCode::Cancelled,
    }
}

/// The label of an outcome in metrics.
pub(super) fn outcome_word(code: v1::OutcomeCode) -> &'static str {
    match code {
        v1::OutcomeCode::Unspecified => "unspecified",
        v1::OutcomeCode::Confirmed => "confirmed",
        v1::OutcomeCode::Unconfirmed => "unconfirmed",
        v1::OutcomeCode::Failed => "failed",
        v1::OutcomeCode::IdentityMismatch => "identity-mismatch",
        v1::OutcomeCode::Cancelled => "cancelled",
        v1::OutcomeCode::Interrupted => "interrupted",
    }
}
