//! Checks of credentials, privilege and cipher suite.

use rackhand_bmc::{ErrorKind, PowerState, Protocol, operation::state_word};
use rackhand_proto::v1::{Check, Verdict};

use super::{Observations, check, facts, is_silence, skipped};

pub(super) fn credentials(seen: &Observations) -> Check {
    const NAME: &str = "credentials";
    let user = &seen.username;
    let found = match seen.is_shared {
        true => format!("authenticated as {user}, in the session of the agent"),
        false => format!("authenticated as {user}"),
    };
    match &seen.power {
        None => skipped(NAME, "the route comes first"),
        Some(Ok(_)) => check(NAME, Verdict::Ok, found, ""),
        Some(Err(error)) => match error.kind {
            ErrorKind::Authentication => check(
                NAME,
                Verdict::Failed,
                error.message.clone(),
                format!("mend user or password of {user} in the inventory, or unlock the account"),
            ),
            ErrorKind::Configuration => check(
                NAME,
                Verdict::Failed,
                error.message.clone(),
                "mend the inventory",
            ),
            ErrorKind::Tls => skipped(NAME, "TLS comes first"),
            ErrorKind::Privilege => check(NAME, Verdict::Ok, found, ""),
            kind if is_silence(kind) => skipped(NAME, "no answer"),
            _ => skipped(NAME, "the power state comes first"),
        },
    }
}

/// Whether the BMC reports a power state; without one no command can be confirmed. A failure that another check
/// reports is skipped.
pub(super) fn power(seen: &Observations) -> Check {
    const NAME: &str = "power";
    const AGAIN: &str = "try again, then restart the BMC";
    let error = match &seen.power {
        None => return skipped(NAME, "the route comes first"),
        Some(Ok(reading)) if reading.state == PowerState::Unknown => {
            let found = format!("the BMC reports no power state, but {:?}", reading.raw);
            let advice =
                "no command can be confirmed: restart the BMC, update it, or use another driver";
            return check(NAME, Verdict::Failed, found, advice);
        }
        Some(Ok(reading)) => return check(NAME, Verdict::Ok, state_word(reading.state), ""),
        Some(Err(error)) => error,
    };
    let is_redfish = seen.protocol == Protocol::Redfish;
    match error.kind {
        ErrorKind::Authentication | ErrorKind::Configuration => {
            skipped(NAME, "the credentials come first")
        }
        ErrorKind::Privilege => skipped(NAME, "the privilege comes first"),
        ErrorKind::Tls if is_redfish => skipped(NAME, "TLS comes first"),
        ErrorKind::System | ErrorKind::Unsupported | ErrorKind::Protocol if is_redfish => {
            skipped(NAME, "the Redfish service comes first")
        }
        ErrorKind::Unreachable | ErrorKind::Timeout if !is_redfish => {
            skipped(NAME, "the route comes first")
        }
        _ => check(NAME, Verdict::Failed, error.message.clone(), AGAIN),
    }
}

pub(super) fn privilege(seen: &Observations) -> Check {
    const NAME: &str = "privilege";
    if let Some(Err(error)) = &seen.power
        && error.kind == ErrorKind::Privilege
    {
        let advice = "give the account OPERATOR (IPMI) or the role Operator (Redfish)";
        return check(NAME, Verdict::Failed, error.message.clone(), advice);
    }
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return *check,
    };
    let word = facts.privilege.as_deref().unwrap_or("not reported");
    match facts.may_switch {
        Some(true) => check(NAME, Verdict::Ok, word, ""),
        Some(false) => check(
            NAME,
            Verdict::Failed,
            format!("{word}, which may read but not switch"),
            "give the account OPERATOR (IPMI) or the role Operator (Redfish)",
        ),
        None => check(
            NAME,
            Verdict::Warning,
            format!("{word}: it is unknown whether it may switch power"),
            "try a power cycle on a host that is not in use",
        ),
    }
}

pub(super) fn cipher_suite(seen: &Observations) -> Check {
    const NAME: &str = "cipher-suite";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return *check,
    };
    let offered = facts.suites.as_ref().map(|suites| {
        let suites: Vec<String> = suites.iter().map(ToString::to_string).collect();
        format!("; offered: {}", suites.join(", "))
    });
    let offered = offered.unwrap_or_default();
    let weak = facts.suites.iter().flatten().any(|suite| *suite == 0);
    match facts.suite {
        _ if weak => check(
            NAME,
            Verdict::Warning,
            format!("suite 0, which requires no password, is enabled{offered}"),
            "disable cipher suite 0 in the BMC: anyone can switch this host",
        ),
        Some(17) => check(NAME, Verdict::Ok, format!("17 (SHA-256, AES){offered}"), ""),
        Some(suite) => check(
            NAME,
            Verdict::Warning,
            format!("{suite} (SHA-1, AES){offered}"),
            "update the BMC, or enable cipher suite 17 in it",
        ),
        None => check(
            NAME,
            Verdict::Warning,
            format!("not known{offered}"),
            "try again",
        ),
    }
}
