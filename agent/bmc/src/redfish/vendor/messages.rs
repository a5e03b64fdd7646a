//! Meaning of BMC messages, independent of the HTTP status.

use std::time::Duration;

use crate::{PowerState, redfish::protocol::extended_info::Message};

/// Meaning of a BMC message for a power command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::redfish) enum Meaning {
    /// Success, whatever the status.
    Success,
    /// The system is in the requested state, or in one that does not allow the command.
    State,
    /// The previous power change is not complete.
    Settling,
    /// The host is in POST, during which settings cannot be changed.
    Post,
    /// The action, property or value is unknown or read-only.
    Unsupported,
    /// The BMC itself is not ready; the same request succeeds later.
    NotReady,
    /// The session table is full.
    SessionLimit,
    /// The password must be changed first.
    PasswordChange,
    /// The account lacks the privilege.
    Privilege,
    /// User name or password is wrong, or the session has expired.
    Credentials,
    Other,
}

struct Fact {
    /// The last part of a MessageId; registry and version before it differ between releases.
    message: &'static str,
    meaning: Meaning,
}

const fn fact(message: &'static str, meaning: Meaning) -> Fact {
    Fact { message, meaning }
}

const MESSAGES: &[Fact] = &[
    // DMTF Base registry (DSP8011).
    fact("Success", Meaning::Success),
    fact("Created", Meaning::Success),
    fact("ServiceTemporarilyUnavailable", Meaning::NotReady),
    fact("ServiceInUnknownState", Meaning::NotReady),
    fact("ServiceShuttingDown", Meaning::NotReady),
    fact("ResourceInStandby", Meaning::NotReady),
    fact("ResourceInUse", Meaning::NotReady),
    fact("SessionLimitExceeded", Meaning::SessionLimit),
    fact("PasswordChangeRequired", Meaning::PasswordChange),
    fact("InsufficientPrivilege", Meaning::Privilege),
    fact("AccessDenied", Meaning::Privilege),
    fact("NoValidSession", Meaning::Credentials),
    fact("ResourceAtUriUnauthorized", Meaning::Credentials),
    fact("AuthenticationTokenRequired", Meaning::Credentials),
    fact("ActionNotSupported", Meaning::Unsupported),
    fact("ActionParameterNotSupported", Meaning::Unsupported),
    fact("ActionParameterUnknown", Meaning::Unsupported),
    fact("ActionParameterValueNotInList", Meaning::Unsupported),
    fact("PropertyNotWritable", Meaning::Unsupported),
    fact("PropertyUnknown", Meaning::Unsupported),
    fact("PropertyValueNotInList", Meaning::Unsupported),
    // Dell: iDRAC10 rejects On with this message for a while after Off.
    fact("ActionParameterValueConflict", Meaning::Settling),
    // Dell: Lifecycle Controller or iDRAC starting, or busy after a previous action.
    fact("SYS518", Meaning::NotReady),
    fact("SYS446", Meaning::NotReady),
    fact("SWC0700", Meaning::NotReady),
    fact("RAC0218", Meaning::SessionLimit),
    // HPE: success with an `error` object.
    fact("SystemResetRequired", Meaning::Success),
    fact("ResetInProgress", Meaning::NotReady),
    // HPE: "Power is off", and changes of settings while the host is in POST.
    fact("InvalidOperationForSystemState", Meaning::State),
    fact("UnableToModifyDuringSystemPOST", Meaning::Post),
];

/// A message with which a make refuses a power command because the host is in the requested state already.
struct AlreadyFact {
    /// The registry of the MessageId, without its version.
    registry: &'static str,
    message: &'static str,
    /// The state that it reports; `None`: the requested one.
    state: Option<PowerState>,
}

const ALREADY: &[AlreadyFact] = &[
    // HPE: "The operation was not successful due to the current power state (for instance, attempting to turn the
    // power off when it is already off)"; its argument names the state.
    AlreadyFact {
        registry: "iLO",
        message: "InvalidOperationForSystemState",
        state: None,
    },
    // Dell: "Server is already powered ON." and "Server is already powered OFF."
    AlreadyFact {
        registry: "IDRAC",
        message: "PSU501",
        state: Some(PowerState::On),
    },
    AlreadyFact {
        registry: "IDRAC",
        message: "PSU502",
        state: Some(PowerState::Off),
    },
    // DMTF Base registry (DSP8011): there was nothing to act upon.
    AlreadyFact {
        registry: "Base",
        message: "NoOperation",
        state: None,
    },
];

/// Whether a message reports that the host is in this state already. `args`: its `MessageArgs`.
pub(in crate::redfish) fn is_already(message_id: &str, args: &[String], state: PowerState) -> bool {
    let mut parts = message_id.split('.');
    let (Some(registry), Some(message)) = (parts.next(), parts.next_back()) else {
        return false;
    };
    let is_known = ALREADY.iter().any(|fact| {
        fact.registry.eq_ignore_ascii_case(registry)
            && fact.message.eq_ignore_ascii_case(message)
            && fact.state.is_none_or(|known| known == state)
    });
    // iLO: "Power is off", "Power is on".
    let names = |word: &str| {
        args.iter()
            .any(|arg| arg.eq_ignore_ascii_case(&format!("power is {word}")))
    };
    let contradicts = match state {
        PowerState::On => names("off"),
        PowerState::Off => names("on"),
        _ => true,
    };
    is_known && !contradicts
}

/// The meaning of a MessageId such as `Base.1.8.InsufficientPrivilege` or `IDRAC.2.8.SYS518`.
pub(in crate::redfish) fn meaning(message_id: &str) -> Meaning {
    let last = message_id.rsplit('.').next().unwrap_or_default();
    MESSAGES
        .iter()
        .find(|fact| fact.message.eq_ignore_ascii_case(last))
        .map_or(Meaning::Other, |fact| fact.meaning)
}

/// Whether a message denies access without a reason.
pub(in crate::redfish) fn is_bare_denial(message: &Message) -> bool {
    let last = message.id.rsplit('.').next().unwrap_or_default();
    ["AccessDenied", "GeneralError", ""]
        .iter()
        .any(|bare| last.eq_ignore_ascii_case(bare))
}

/// Pause for a BMC that is not ready and sends no Retry-After: Dell's message says 30 s.
pub(in crate::redfish) const NOT_READY_WAIT: Duration = Duration::from_secs(30);

/// Pause for a power change that is not complete; most complete within this time.
pub(in crate::redfish) const SETTLING_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_only_exact_messages_of_a_make_mean_already() {
        let none: &[String] = &[];
        let args = ["Power is on".to_owned()];
        for (id, args, off, on) in [
            ("iLO.2.14.InvalidOperationForSystemState", none, true, true),
            (
                "iLO.2.14.InvalidOperationForSystemState",
                &args[..],
                false,
                true,
            ),
            ("IDRAC.2.8.PSU502", none, true, false),
            ("IDRAC.2.8.PSU501", none, false, true),
            ("Base.1.18.NoOperation", none, true, true),
            ("IDRAC.2.8.PSU", none, false, false),
            (
                "Base.1.8.InvalidOperationForSystemState",
                none,
                false,
                false,
            ),
            ("InvalidOperationForSystemState", none, false, false),
            ("Base.1.8.ActionParameterValueConflict", none, false, false),
            ("Base.1.8.InternalError", none, false, false),
            ("", none, false, false),
        ] {
            assert_eq!(is_already(id, args, PowerState::Off), off, "{id} off");
            assert_eq!(is_already(id, args, PowerState::On), on, "{id} on");
            assert!(!is_already(id, args, PowerState::Unknown), "{id}");
        }
    }

    #[test]
    fn message_cause_ignores_registry_and_version() {
        for (id, expected) in [
            ("Base.1.8.Success", Meaning::Success),
            ("Base.0.10.Success", Meaning::Success),
            ("Success", Meaning::Success),
            ("iLO.2.14.InvalidOperationForSystemState", Meaning::State),
            ("IDRAC.2.8.SYS518", Meaning::NotReady),
            ("IDRAC.1.6.RAC0218", Meaning::SessionLimit),
            ("Base.1.18.ActionParameterValueConflict", Meaning::Settling),
            ("iLO.2.14.UnableToModifyDuringSystemPOST", Meaning::Post),
            ("Base.1.12.PropertyNotWritable", Meaning::Unsupported),
            ("Base.1.8.GeneralError", Meaning::Other),
            ("Base.1.8.Successful.Not", Meaning::Other),
            ("", Meaning::Other),
        ] {
            assert_eq!(meaning(id), expected, "{id}");
        }
    }
}
