//! Exit codes of commands. Pure.
//!
//! Must never: report success for a command that was not carried out.

use std::{fmt, process::ExitCode};

use rackhand_proto::v1;
use rackhand_transport::{CallErrorKind, Refusal, classify};
use tonic::{Code, Status};

/// The result of a command for one host.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExitStatus {
    /// Done as requested.
    Done,
    /// Failed, or unknown.
    #[default]
    Failed,
    /// Refused by the agent: another owner holds the host, or the permission is missing.
    Refused,
    /// The BMC or the agent did not answer.
    Unreachable,
}

impl ExitStatus {
    fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Unreachable => 4,
        }
    }

    /// Name of the result.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }

    /// The result for a failure kind of the BMC.
    pub(crate) fn of_failure(kind: v1::FailureKind) -> Self {
        match kind {
            v1::FailureKind::Unreachable | v1::FailureKind::Timeout => Self::Unreachable,
            _ => Self::Failed,
        }
    }

    /// The exit code of this result.
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// The combined result: done if all are; refused or unreachable if all others are; otherwise
    /// failed.
    pub(crate) fn of(all: impl IntoIterator<Item = Self>) -> Self {
        let mut rest = all.into_iter().filter(|end| *end != Self::Done);
        match rest.next() {
            None => Self::Done,
            Some(first) if rest.all(|end| end == first) => first,
            Some(_) => Self::Failed,
        }
    }
}

/// Reason why there is no result for one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) end: ExitStatus,
    /// The error, with the host and the next step.
    pub(crate) message: String,
}

impl Fault {
    /// The call itself failed.
    pub(crate) fn of_status(status: &Status) -> Self {
        let error = classify(status);
        let end = match error.kind {
            CallErrorKind::Refused(Refusal::Held) => ExitStatus::Refused,
            CallErrorKind::Retryable => ExitStatus::Unreachable,
            _ if status.code() == Code::PermissionDenied => ExitStatus::Refused,
            _ => ExitStatus::Failed,
        };
        Self {
            end,
            message: error.message,
        }
    }

    /// The BMC could not be reached, or rejected the request.
    pub(crate) fn of_failure(failure: v1::Failure) -> Self {
        Self {
            end: ExitStatus::of_failure(failure.kind()),
            message: failure.message,
        }
    }

    /// An empty response.
    pub(crate) fn empty() -> Self {
        Self {
            end: ExitStatus::Failed,
            message: "the response of the agent is empty; is it of another version?".to_owned(),
        }
    }
}

/// The agent cannot be reached.
#[derive(Debug)]
pub(crate) struct NoAgent(pub(crate) String);

impl fmt::Display for NoAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAgent {}

/// The arguments are invalid.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The command was refused because it would do harm.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// The exit code of an error.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    if error.is::<NoAgent>() {
        ExitStatus::Unreachable.code()
    } else if error.is::<Usage>() {
        ExitCode::from(2)
    } else if error.is::<Refused>() {
        ExitStatus::Refused.code()
    } else {
        ExitStatus::Failed.code()
    }
}

#[cfg(test)]
mod tests {
    use super::ExitStatus::{Done, Failed, Refused, Unreachable};
    use super::*;

    #[test]
    fn exit_code_of_several_hosts_is_the_worst() {
        for (all, whole, number) in [
            (vec![], Done, 0),
            (vec![Done, Done], Done, 0),
            (vec![Done, Failed], Failed, 1),
            (vec![Done, Refused, Refused], Refused, 3),
            (vec![Unreachable, Done], Unreachable, 4),
            (vec![Unreachable, Refused], Failed, 1),
        ] {
            assert_eq!(ExitStatus::of(all.clone()), whole, "{all:?}");
            assert_eq!(whole.number(), number);
        }
    }
}
