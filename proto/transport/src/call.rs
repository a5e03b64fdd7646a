//! Classification of failed calls.
//!
//! Owns: the table from gRPC statuses to retryable, permanent or rejected. Must never: require a
//! caller to parse the text of a message.

use std::fmt;

use tonic::{Code, Status, metadata::MetadataValue};

use crate::connect::{ConnectError, chain};

/// Metadata key of the reason of a rejection.
const REASON: &str = "rackhand-reason";

/// Metadata key of the journal that was searched without a result.
const JOURNAL: &str = "rackhand-journal";

/// Reason of a rejection by the agent, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A newer term is known in this election: the caller is no longer the leader.
    StaleTerm,
    /// The term must be claimed first.
    UnclaimedTerm,
    /// A command with this or a later sequence number was accepted for this host.
    StaleSequence,
    /// Another owner holds the host off.
    Held,
    /// Neither the inventory nor the request contains the address of the host's BMC.
    UnknownHost,
    /// No operation with this id is recorded.
    UnknownOperation,
    /// Another agent of the rack serves this term: this one is on standby.
    Standby,
}

impl Refusal {
    const ALL: [Self; 7] = [
        Self::StaleTerm,
        Self::UnclaimedTerm,
        Self::StaleSequence,
        Self::Held,
        Self::UnknownHost,
        Self::UnknownOperation,
        Self::Standby,
    ];

    /// Name on the wire and in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::StaleTerm => "stale-term",
            Self::UnclaimedTerm => "unclaimed-term",
            Self::StaleSequence => "stale-sequence",
            Self::Held => "held",
            Self::UnknownHost => "unknown-host",
            Self::UnknownOperation => "unknown-operation",
            Self::Standby => "standby",
        }
    }

    /// The status with this reason.
    pub fn status(self, message: impl Into<String>) -> Status {
        let code = match self {
            Self::UnknownHost | Self::UnknownOperation => Code::NotFound,
            _ => Code::FailedPrecondition,
        };
        let mut status = Status::new(code, message);
        status
            .metadata_mut()
            .insert(REASON, MetadataValue::from_static(self.label()));
        status
    }

    /// The status with this reason and the instance id of the journal that was searched.
    pub fn status_of_journal(self, message: impl Into<String>, instance: &str) -> Status {
        let mut status = self.status(message);
        if let Ok(instance) = MetadataValue::try_from(instance) {
            status.metadata_mut().insert(JOURNAL, instance);
        }
        status
    }

    /// The reason of a status, if it has one.
    pub fn of(status: &Status) -> Option<Self> {
        let label = status.metadata().get(REASON)?.to_str().ok()?;
        Self::ALL
            .into_iter()
            .find(|refusal| refusal.label() == label)
    }
}

/// The instance id of the journal in a status. `None`: it has none, as for agents that do not
/// report it.
pub fn journal_of(status: &Status) -> Option<&str> {
    status.metadata().get(JOURNAL)?.to_str().ok()
}

/// Kind of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The agent or the connection failed: the same call may succeed later. It may also have been
    /// executed without a response; every call of the service may be repeated.
    Retryable,
    /// The same call fails again until the configuration or the request changes.
    Permanent,
    /// The agent rejected the call for a reason that the caller can handle.
    Refused(Refusal),
}

impl CallErrorKind {
    /// A label for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Permanent => "permanent",
            Self::Refused(refusal) => refusal.label(),
        }
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// Kind of the failure, for decisions.
    pub kind: CallErrorKind,
    /// Error text for the user.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

/// Classifies a status, whether the agent sent it or the local transport created it.
pub fn classify(status: &Status) -> CallError {
    if let Some(refusal) = Refusal::of(status) {
        return CallError {
            kind: CallErrorKind::Refused(refusal),
            message: status.message().to_owned(),
        };
    }
    if let Some(error) = std::error::Error::source(status) {
        return of_transport(status, error);
    }
    let kind = match status.code() {
        // tonic returns Cancelled "Timeout expired" instead of DeadlineExceeded.
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Unknown => CallErrorKind::Retryable,
        _ => CallErrorKind::Permanent,
    };
    CallError {
        kind,
        message: match (kind, status.message()) {
            (_, "") => status.code().description().to_owned(),
            (CallErrorKind::Retryable, "Timeout expired") => {
                "the agent did not answer within the time of the call".to_owned()
            }
            (_, message) => message.to_owned(),
        },
    }
}

/// Classifies an error of the local transport, without a status of the agent.
fn of_transport(status: &Status, error: &(dyn std::error::Error + 'static)) -> CallError {
    if let Some(error) = ConnectError::behind(error) {
        return CallError {
            kind: if error.is_transient() {
                CallErrorKind::Retryable
            } else {
                CallErrorKind::Permanent
            },
            message: error.to_string(),
        };
    }
    let mut said: Vec<String> = vec![status.message().to_owned()];
    for cause in chain(error).map(ToString::to_string) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    let message = said.join(": ");
    // With TLS 1.3 the client learns only after its handshake that it was rejected.
    if message.contains("received fatal alert") {
        return CallError {
            kind: CallErrorKind::Permanent,
            message: format!("the agent does not take our certificate: {message}"),
        };
    }
    CallError {
        kind: CallErrorKind::Retryable,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_round_trip() {
        for refusal in Refusal::ALL {
            let sent = refusal.status("told so");
            let headers = sent.metadata().clone().into_headers();
            let mut received = Status::new(sent.code(), sent.message());
            *received.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
            let error = classify(&received);
            assert_eq!(error.kind, CallErrorKind::Refused(refusal));
            assert_eq!(error.message, "told so");
        }
    }

    #[test]
    fn unknown_operation_error_has_the_journal_instance() {
        let status = Refusal::UnknownOperation.status_of_journal("not known", "j-1");
        assert_eq!(Refusal::of(&status), Some(Refusal::UnknownOperation));
        assert_eq!(journal_of(&status), Some("j-1"));
        assert_eq!(
            journal_of(&Refusal::UnknownOperation.status("not known")),
            None
        );
    }

    #[test]
    fn status_codes_map_to_error_kinds() {
        use CallErrorKind::{Permanent, Retryable};
        for (code, kind) in [
            (Code::Cancelled, Retryable),
            (Code::Unknown, Retryable),
            (Code::DeadlineExceeded, Retryable),
            (Code::Unavailable, Retryable),
            (Code::ResourceExhausted, Retryable),
            (Code::Aborted, Retryable),
            (Code::InvalidArgument, Permanent),
            (Code::NotFound, Permanent),
            (Code::PermissionDenied, Permanent),
            (Code::Unauthenticated, Permanent),
            (Code::FailedPrecondition, Permanent),
            (Code::Unimplemented, Permanent),
            (Code::Internal, Permanent),
        ] {
            assert_eq!(classify(&Status::new(code, "x")).kind, kind, "{code:?}");
        }
    }

    #[test]
    fn call_timeout_has_a_plain_message() {
        let error = classify(&Status::cancelled("Timeout expired"));
        assert_eq!(
            error.message,
            "the agent did not answer within the time of the call"
        );
        assert_eq!(error.kind, CallErrorKind::Retryable);
    }
}
