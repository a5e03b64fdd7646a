//! Checks of the Redfish service and its actions, the identity of the system, and the clock.

use std::time::Duration;

use rackhand_bmc::{
    ErrorKind, Facts, IdentityMatch, PowerSource, Protocol, SystemIdentity, operation::Expected,
};
use rackhand_proto::v1::{Check, Verdict};

use super::{Observations, check, facts, skipped};
use crate::convert::identity_to_proto;

/// Clock skew above which the event log of a BMC is misleading.
const CLOCK: Duration = Duration::from_secs(60);

pub(super) fn redfish(seen: &Observations) -> Check {
    const NAME: &str = "redfish";
    match (&seen.power, facts(seen, NAME)) {
        (Some(Err(error)), _)
            if matches!(
                error.kind,
                ErrorKind::System | ErrorKind::Unsupported | ErrorKind::Protocol
            ) =>
        {
            check(
                NAME,
                Verdict::Failed,
                error.message.clone(),
                "write the path of the system into the address (redfish://HOST/redfish/v1/Systems/ID), mend it \
                 there, or update the BMC",
            )
        }
        (_, Err(check)) => *check,
        (_, Ok(facts)) => {
            let service = facts.service.as_deref().unwrap_or("Redfish");
            let firmware = facts.firmware.as_ref();
            let firmware = firmware.map(|version| format!(", firmware {version}"));
            let found = format!("{service}{}", firmware.unwrap_or_default());
            check(NAME, Verdict::Ok, found, "")
        }
    }
}

pub(super) fn actions(seen: &Observations) -> Check {
    const NAME: &str = "actions";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return *check,
    };
    let Some(actions) = &facts.actions else {
        return check(
            NAME,
            Verdict::Warning,
            "the BMC does not report which reset types it accepts",
            "the standard ones are tried",
        );
    };
    let has = |word: &str| actions.iter().any(|action| action == word);
    let list = actions.join(", ");
    if !has("ForceOff") || !(has("On") || has("ForceOn") || has("PushPowerButton")) {
        let list = if list.is_empty() { "none" } else { &list };
        return check(
            NAME,
            Verdict::Failed,
            format!("offered: {list}"),
            "hard off and on are needed: mend the path of the system, update the BMC, or use IPMI",
        );
    }
    let missing: Vec<&str> = [
        ("GracefulShutdown", "soft-off"),
        ("ForceRestart", "reset"),
        ("Nmi", "nmi"),
    ]
    .into_iter()
    .filter(|(word, _)| !has(word))
    .map(|(_, command)| command)
    .collect();
    let advice = if missing.is_empty() {
        String::new()
    } else {
        format!("not possible here: power {}", missing.join(", power "))
    };
    check(NAME, Verdict::Ok, list, advice)
}

/// Checks for evidence that can prove an off which the BMC reported before the command (F1). An off after readings
/// of on needs none.
pub(super) fn off_proof(seen: &Observations) -> Check {
    const NAME: &str = "off-proof";
    const WITHOUT: &str = "a host that is already off before its fencing is proven off only by its outlets \
                           (outlets, standby_watts) or by a person";
    match facts(seen, NAME) {
        Err(check) => *check,
        Ok(Facts {
            uptime: Some(uptime),
            ..
        }) => {
            let hours = uptime.as_secs() / 3600;
            let found = format!("the manager reports its uptime ({hours} h)");
            check(NAME, Verdict::Ok, found, "")
        }
        Ok(_) => {
            let found = match seen.protocol {
                Protocol::Redfish => "readings of on only: the manager reports no LastResetTime",
                Protocol::Ipmi => "readings of on only: IPMI reports no uptime",
            };
            check(NAME, Verdict::Ok, found, WITHOUT)
        }
    }
}

/// Whether a power-off can be kept from a host whose firmware is being updated.
pub(super) fn updates(seen: &Observations) -> Check {
    const NAME: &str = "updates";
    const UNSEEN: &str =
        "a power-off is sent without knowing; look at the BMC before a planned one";
    let found = match (&seen.power, &seen.updates) {
        (_, Some(Ok(found))) => found,
        (_, Some(Err(error))) if error.kind == ErrorKind::Unsupported => {
            let found = "the BMC does not report updates of firmware";
            return check(NAME, Verdict::Ok, found, UNSEEN);
        }
        (_, Some(Err(error))) => {
            let found = format!("cannot be read: {}", error.message);
            return check(NAME, Verdict::Warning, found, UNSEEN);
        }
        (Some(Err(_)), None) => return skipped(NAME, "the power state comes first"),
        (_, None) => return skipped(NAME, "the route comes first"),
    };
    if let Some(update) = found.running() {
        let found = format!("firmware is being updated: {update}");
        return check(
            NAME,
            Verdict::Warning,
            found,
            "power commands are refused until it has ended",
        );
    }
    if !found.unread.is_empty() {
        let found = format!("cannot be read: {}", found.unread.join("; "));
        return check(NAME, Verdict::Warning, found, UNSEEN);
    }
    let seen = found.read.join(", ");
    check(NAME, Verdict::Ok, format!("none runs; seen at: {seen}"), "")
}

pub(super) fn identity(seen: &Observations) -> Check {
    const NAME: &str = "identity";
    let found = match (&seen.identity, &seen.power) {
        (Some(Ok(found)), _) => found,
        (_, Some(Ok(reading))) => &reading.identity,
        (_, Some(Err(_))) => return skipped(NAME, "the power state comes first"),
        (_, None) => return skipped(NAME, "the route comes first"),
    };
    let (verdict, found_words, advice) = compare(seen, found);
    Check {
        identity: Some(identity_to_proto(found)),
        ..check(NAME, verdict, found_words, advice)
    }
}

/// The verdict, the finding and the advice for the identity that the BMC reports.
fn compare(seen: &Observations, found: &SystemIdentity) -> (Verdict, String, &'static str) {
    if let Some(differs) = difference(seen, found) {
        return differs;
    }
    let says = match (&found.system_uuid, &found.serial) {
        (Some(uuid), Some(serial)) => format!("UUID {uuid}, serial {serial}"),
        (Some(uuid), None) => format!("UUID {uuid}"),
        (None, Some(serial)) => format!("serial {serial}"),
        (None, None) if seen.no_system_uuid => {
            return (
                Verdict::Warning,
                "the inventory says that its UUID identifies nothing, and it reports no serial number"
                    .to_owned(),
                "make sure by hand (identify LED) that the address is that of this host: a wrong one is \
                 noticed only when the Node goes on renewing its Lease",
            );
        }
        (None, None) => {
            return (
                Verdict::Warning,
                "the BMC does not report the identity of its system".to_owned(),
                "make sure by hand (identify LED) that the address is that of this host",
            );
        }
    };
    match stated(seen).compare(found) {
        IdentityMatch::Same => (Verdict::Ok, format!("{says}, as in the inventory"), ""),
        _ if seen.no_system_uuid => (
            Verdict::Warning,
            format!("{says}; the inventory says that its UUID identifies nothing"),
            "write serial into the inventory, so that a wrong BMC is noticed",
        ),
        _ => (
            Verdict::Warning,
            format!(
                "{says}; the inventory has nothing to compare it with, and the agent does not know the Node"
            ),
            "write system_uuid or serial into the inventory, so that a wrong BMC is noticed; \
             `rackhand-controller preflight` compares it with the Node",
        ),
    }
}

/// The identity that the inventory expects.
fn stated(seen: &Observations) -> Expected {
    Expected {
        earlier: None,
        ..seen.expected.clone()
    }
}

/// What is said if the system is another one than the inventory or earlier operations say: no command is sent then,
/// also where the BMC names no host.
fn difference(
    seen: &Observations,
    found: &SystemIdentity,
) -> Option<(Verdict, String, &'static str)> {
    if let Some(mismatch) = stated(seen).mismatch(found) {
        return Some((
            Verdict::Failed,
            format!(
                "the BMC reports {} {}, the inventory has {}",
                mismatch.what, mismatch.found, mismatch.expected
            ),
            "this may be the BMC of another host: nothing is switched until inventory or cabling \
             is mended; if the UUID of this BMC is never that of its host, set system_uuid = \"none\"",
        ));
    }
    let mismatch = match seen.protocol {
        Protocol::Redfish if seen.is_remembered => {
            seen.expected.mismatch_at(PowerSource::Redfish, found)?
        }
        Protocol::Redfish | Protocol::Ipmi => seen.expected.mismatch(found)?,
    };
    let origin = seen.origin.as_deref().unwrap_or_default();
    Some((
        Verdict::Failed,
        format!("the BMC reports {mismatch}; {origin}"),
        "this may be the BMC of another host: nothing is switched until inventory or cabling is mended",
    ))
}

pub(super) fn clock(seen: &Observations) -> Check {
    const NAME: &str = "clock";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return *check,
    };
    let Some(clock) = facts.clock else {
        return check(NAME, Verdict::Ok, "the BMC shows no time", "");
    };
    let ahead = clock.duration_since(seen.now);
    let off = ahead.unsigned_abs();
    if off <= CLOCK {
        return check(NAME, Verdict::Ok, format!("{clock}"), "");
    }
    let which = if ahead.is_positive() {
        "ahead"
    } else {
        "behind"
    };
    check(
        NAME,
        Verdict::Warning,
        format!("{clock}, {} {which}", span(off)),
        "set NTP in the BMC: the times in its event log are wrong",
    )
}

/// Formats a duration in the largest unit that fits into it at least twice.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
