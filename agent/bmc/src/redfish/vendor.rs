//! What vendors do their own way, where it matters for power: one table of facts.
//!
//! Owns: message identifiers and names that stand in no specification. Must never: do anything;
//! the rest of the client reads it and has no vendor's name anywhere else.

use std::time::Duration;

/// What a message of a BMC means to a power command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// It worked, whatever it looks like.
    Success,
    /// The system is in the wanted state, or in one that does not allow the command.
    State,
    /// The BMC itself is not ready; the same request works later.
    NotReady,
    /// All sessions are taken.
    SessionLimit,
    /// The password must be changed before anything else.
    PasswordChange,
    /// The user may not do this.
    Privilege,
    /// User or password is wrong, or the session is over.
    Credentials,
    /// Anything else.
    Other,
}

struct Fact {
    /// The last part of a MessageId; its registry and version in front differ between releases.
    message: &'static str,
    cause: Cause,
}

const fn fact(message: &'static str, cause: Cause) -> Fact {
    Fact { message, cause }
}

const MESSAGES: &[Fact] = &[
    // DMTF Base registry (DSP8011).
    fact("Success", Cause::Success),
    fact("Created", Cause::Success),
    fact("ServiceTemporarilyUnavailable", Cause::NotReady),
    fact("ServiceInUnknownState", Cause::NotReady),
    fact("ServiceShuttingDown", Cause::NotReady),
    fact("ResourceInStandby", Cause::NotReady),
    fact("ResourceInUse", Cause::NotReady),
    fact("SessionLimitExceeded", Cause::SessionLimit),
    fact("PasswordChangeRequired", Cause::PasswordChange),
    fact("InsufficientPrivilege", Cause::Privilege),
    fact("AccessDenied", Cause::Privilege),
    fact("NoValidSession", Cause::Credentials),
    fact("ResourceAtUriUnauthorized", Cause::Credentials),
    fact("AuthenticationTokenRequired", Cause::Credentials),
    // Dell: iDRAC10 refuses On with this for a while after Off.
    fact("ActionParameterValueConflict", Cause::State),
    // Dell: Lifecycle Controller or iDRAC starting, or busy after an action of its own.
    fact("SYS518", Cause::NotReady),
    fact("SYS446", Cause::NotReady),
    fact("SWC0700", Cause::NotReady),
    fact("RAC0218", Cause::SessionLimit),
    // HPE: success that carries an `error` object.
    fact("SystemResetRequired", Cause::Success),
    fact("ResetInProgress", Cause::NotReady),
    // HPE: "Power is off", and settings while the host is in POST.
    fact("InvalidOperationForSystemState", Cause::State),
    fact("UnableToModifyDuringSystemPOST", Cause::State),
];

/// What a MessageId such as `Base.1.8.InsufficientPrivilege` or `IDRAC.2.8.SYS518` means.
pub(super) fn cause(message_id: &str) -> Cause {
    let last = message_id.rsplit('.').next().unwrap_or_default();
    MESSAGES
        .iter()
        .find(|fact| fact.message.eq_ignore_ascii_case(last))
        .map_or(Cause::Other, |fact| fact.cause)
}

/// How long to wait where a BMC that is not ready does not say: Dell's own text says 30 s.
pub(super) const NOT_READY_WAIT: Duration = Duration::from_secs(30);

/// Systems that are no hosts: boards that a BMC lists beside the host, without a Reset of their
/// own. NVIDIA's cannot even be read while the host is off.
const BOARDS: &[&str] = &["HGX_Baseboard_"];

/// Whether a member of the Systems collection is a board by its name.
pub(super) fn is_board(uri: &str) -> bool {
    let name = uri
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    BOARDS.iter().any(|board| name.starts_with(board))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_and_version_of_a_message_do_not_matter() {
        for (id, expected) in [
            ("Base.1.8.Success", Cause::Success),
            ("Base.0.10.Success", Cause::Success),
            ("Success", Cause::Success),
            ("iLO.2.14.InvalidOperationForSystemState", Cause::State),
            ("IDRAC.2.8.SYS518", Cause::NotReady),
            ("IDRAC.1.6.RAC0218", Cause::SessionLimit),
            ("Base.1.8.GeneralError", Cause::Other),
            ("Base.1.8.Successful.Not", Cause::Other),
            ("", Cause::Other),
        ] {
            assert_eq!(cause(id), expected, "{id}");
        }
    }

    #[test]
    fn a_board_is_known_by_its_name() {
        assert!(is_board("/redfish/v1/Systems/HGX_Baseboard_0"));
        assert!(is_board("/redfish/v1/Systems/HGX_Baseboard_0/"));
        assert!(!is_board("/redfish/v1/Systems/DGX"));
    }
}
