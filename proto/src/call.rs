//! What a failed call means for the caller.
//!
//! Owns: the one table from gRPC status to "again", "never" or "you are no longer the leader".
//! Must never: make a caller guess from the text of a message.

use std::fmt;

use tonic::{Code, Status, metadata::MetadataValue};

use crate::connect::{ConnectError, chain};

/// The metadata key that tells refusals of one code apart.
const REASON: &str = "rackhand-reason";

/// The metadata key of the journal that does not know what was asked for.
const JOURNAL: &str = "rackhand-journal";

/// Why an agent refused, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A newer term is known in this election: the caller is deposed.
    StaleTerm,
    /// The term must be claimed first.
    UnclaimedTerm,
    /// A command with this or a later sequence was taken for this host.
    StaleSequence,
    /// Somebody else holds the host off.
    Held,
    /// Neither the inventory nor the request tells where the host's BMC is.
    UnknownHost,
    /// No operation of this id is remembered.
    UnknownOperation,
    /// Another agent of the rack serves this term: this one stands by.
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

    /// The word on the wire and in metrics.
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

    /// The status that says so.
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

    /// The same, naming the instance of the journal that was searched.
    pub fn status_of_journal(self, message: impl Into<String>, instance: &str) -> Status {
        let mut status = self.status(message);
        if let Ok(instance) = MetadataValue::try_from(instance) {
            status.metadata_mut().insert(JOURNAL, instance);
        }
        status
    }

    /// The refusal that a status carries.
    pub fn of(status: &Status) -> Option<Self> {
        let label = status.metadata().get(REASON)?.to_str().ok()?;
        Self::ALL
            .into_iter()
            .find(|refusal| refusal.label() == label)
    }
}

/// The instance of the journal that a refusal names. `None`: it names none, as those of an agent
/// that does not report it.
pub fn journal_of(status: &Status) -> Option<&str> {
    status.metadata().get(JOURNAL)?.to_str().ok()
}

/// What to do about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallErrorKind {
    /// The agent or the way to it: the same call may work later. It may also have been carried
    /// out although no answer came; every call of the contract may be repeated.
    Retryable,
    /// The same call will be refused again until somebody changes something.
    Permanent,
    /// The agent refuses for a reason that the caller can act upon.
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
    /// What to do.
    pub kind: CallErrorKind,
    /// What happened, for people.
    pub message: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

/// Tells what a status means, whether the agent sent it or our own transport made it.
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
        // tonic says Cancelled "Timeout expired" where others say DeadlineExceeded.
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

/// No status of the agent: the call failed on the way.
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
    // With TLS 1.3 the client learns only after its handshake that it was refused.
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
