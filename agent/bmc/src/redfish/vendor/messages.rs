//! What the messages of BMCs mean, whatever status they come with.

use std::time::Duration;

/// What a message of a BMC means to a power command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::redfish) enum Cause {
    /// It worked, whatever it looks like.
    Success,
    /// The system is in the wanted state, or in one that does not allow the command.
    State,
    /// The last change of power is not through yet.
    Settling,
    /// The host is in POST, and its settings cannot be changed meanwhile.
    Post,
    /// The BMC does not know the action, property or value, or lets nobody change it.
    Unsupported,
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
    fact("ActionNotSupported", Cause::Unsupported),
    fact("ActionParameterNotSupported", Cause::Unsupported),
    fact("ActionParameterUnknown", Cause::Unsupported),
    fact("ActionParameterValueNotInList", Cause::Unsupported),
    fact("PropertyNotWritable", Cause::Unsupported),
    fact("PropertyUnknown", Cause::Unsupported),
    fact("PropertyValueNotInList", Cause::Unsupported),
    // Dell: iDRAC10 refuses On with this for a while after Off.
    fact("ActionParameterValueConflict", Cause::Settling),
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
    fact("UnableToModifyDuringSystemPOST", Cause::Post),
];

/// What a MessageId such as `Base.1.8.InsufficientPrivilege` or `IDRAC.2.8.SYS518` means.
pub(in crate::redfish) fn cause(message_id: &str) -> Cause {
    let last = message_id.rsplit('.').next().unwrap_or_default();
    MESSAGES
        .iter()
        .find(|fact| fact.message.eq_ignore_ascii_case(last))
        .map_or(Cause::Other, |fact| fact.cause)
}

/// How long to wait where a BMC that is not ready does not say: Dell's own text says 30 s.
pub(in crate::redfish) const NOT_READY_WAIT: Duration = Duration::from_secs(30);

/// The same for a change of power that is not through: most are within this.
pub(in crate::redfish) const SETTLING_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_cause_ignores_registry_and_version() {
        for (id, expected) in [
            ("Base.1.8.Success", Cause::Success),
            ("Base.0.10.Success", Cause::Success),
            ("Success", Cause::Success),
            ("iLO.2.14.InvalidOperationForSystemState", Cause::State),
            ("IDRAC.2.8.SYS518", Cause::NotReady),
            ("IDRAC.1.6.RAC0218", Cause::SessionLimit),
            ("Base.1.18.ActionParameterValueConflict", Cause::Settling),
            ("iLO.2.14.UnableToModifyDuringSystemPOST", Cause::Post),
            ("Base.1.12.PropertyNotWritable", Cause::Unsupported),
            ("Base.1.8.GeneralError", Cause::Other),
            ("Base.1.8.Successful.Not", Cause::Other),
            ("", Cause::Other),
        ] {
            assert_eq!(cause(id), expected, "{id}");
        }
    }
}
