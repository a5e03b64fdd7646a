//! Whether a host could be switched: everything that must be right before, judged.
//!
//! Pure: takes what was seen of one BMC and gives verdicts, what was found and what to do next.
//! Must never: call anything good that was not looked at.

#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;
use rackhand_bmc::{
    BmcError, ErrorKind, Facts, PowerReading, Protocol, SystemIdentity, Trust, operation::Expected,
};
use rackhand_proto::v1::{Check, Verdict};

/// A BMC's clock that is off by more than this makes its event log misleading.
const CLOCK: Duration = Duration::from_secs(60);

/// What was seen of one BMC. What was not looked at, because something before it failed, is
/// `None`.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The BMC's address without credentials.
    pub(crate) bmc: String,
    pub(crate) protocol: Protocol,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// HTTPS; of IPMI false.
    pub(crate) is_tls: bool,
    pub(crate) trust: Trust,
    pub(crate) username: String,
    /// Addresses of its name, or why there are none.
    pub(crate) name: Result<Vec<IpAddr>, String>,
    /// An address that the configuration does not allow, and what it allows.
    pub(crate) forbidden: Option<(IpAddr, String)>,
    /// How long TCP took, or why it does not come about. Of IPMI nothing: UDP has no connection.
    pub(crate) tcp: Option<Result<Duration, String>>,
    pub(crate) power: Option<Result<PowerReading, BmcError>>,
    pub(crate) identity: Option<Result<SystemIdentity, BmcError>>,
    pub(crate) facts: Option<Result<Facts, BmcError>>,
    /// Whom the inventory expects.
    pub(crate) expected: Expected,
    /// Our own clock when the facts were read.
    pub(crate) now: Timestamp,
}

/// Every verdict, in the order of looking.
pub(crate) fn judge(seen: &Seen) -> Vec<Check> {
    let mut checks = vec![name(seen), route(seen)];
    if seen.protocol == Protocol::Redfish {
        checks.push(tls(seen));
    }
    checks.push(credentials(seen));
    checks.push(privilege(seen));
    if seen.protocol == Protocol::Ipmi {
        checks.push(cipher_suite(seen));
    }
    if seen.protocol == Protocol::Redfish {
        checks.push(redfish(seen));
        checks.push(actions(seen));
    }
    checks.push(identity(seen));
    checks.push(clock(seen));
    for check in &mut checks {
        check.bmc.clone_from(&seen.bmc);
    }
    checks
}

fn check(
    name: &str,
    verdict: Verdict,
    found: impl Into<String>,
    advice: impl Into<String>,
) -> Check {
    Check {
        check: name.to_owned(),
        verdict: verdict.into(),
        found: found.into(),
        advice: advice.into(),
        bmc: String::new(),
    }
}

fn skipped(name: &str, because: &str) -> Check {
    check(name, Verdict::Skipped, because, "")
}

fn name(seen: &Seen) -> Check {
    const NAME: &str = "name";
    let host = &seen.host;
    match (&seen.name, &seen.forbidden) {
        (Err(why), _) => check(
            NAME,
            Verdict::Failed,
            format!("{host} cannot be resolved: {why}"),
            "mend the address of the BMC in the inventory, or the DNS of this machine",
        ),
        (Ok(_), Some((ip, allowed))) => check(
            NAME,
            Verdict::Failed,
            format!("{ip} is not in allowed_bmc_networks ({allowed})"),
            "add its network to allowed_bmc_networks, or mend the address",
        ),
        (Ok(ips), None) if ips.iter().any(|ip| ip.to_string() == *host) => {
            check(NAME, Verdict::Ok, format!("{host}, an address"), "")
        }
        (Ok(ips), None) => {
            let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
            check(
                NAME,
                Verdict::Ok,
                format!("{host} is {}", ips.join(", ")),
                "",
            )
        }
    }
}

fn route(seen: &Seen) -> Check {
    const NAME: &str = "route";
    let port = seen.port;
    let silent = |kind| matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout);
    match (&seen.tcp, &seen.power) {
        (Some(Err(why)), _) => check(
            NAME,
            Verdict::Failed,
            format!("no connection to TCP port {port}: {why}"),
            "ping the BMC; look at its cable, at the port in the address and at firewalls between",
        ),
        (Some(Ok(took)), _) => check(
            NAME,
            Verdict::Ok,
            format!(
                "TCP port {port} answers in {:.0} ms",
                took.as_secs_f64() * 1e3
            ),
            "",
        ),
        (None, Some(Err(error))) if seen.protocol == Protocol::Ipmi && silent(error.kind) => check(
            NAME,
            Verdict::Failed,
            format!("nobody answers on UDP port {port}: {}", error.message),
            "ping the BMC; see that IPMI over LAN is enabled in it, and that UDP passes",
        ),
        (None, Some(Err(error))) if error.kind == ErrorKind::Configuration => {
            skipped(NAME, "the credentials come first")
        }
        (None, Some(_)) => check(NAME, Verdict::Ok, format!("UDP port {port} answers"), ""),
        (None, None) => skipped(NAME, "the name comes first"),
    }
}

fn tls(seen: &Seen) -> Check {
    const NAME: &str = "tls";
    if !seen.is_tls {
        return check(
            NAME,
            Verdict::Warning,
            "HTTP without TLS: anyone on the way reads the password",
            "enable HTTPS in the BMC and use redfish:// (not redfish+http://)",
        );
    }
    match &seen.power {
        None => skipped(NAME, "the route comes first"),
        Some(Err(error)) if error.kind == ErrorKind::Tls => check(
            NAME,
            Verdict::Failed,
            error.message.clone(),
            "trust the CA of the BMC (trust: ca_file), or pin its certificate (trust: sha256) once you have seen \
             that it is the right one",
        ),
        Some(Err(error)) if is_silence(error.kind) => skipped(NAME, "no answer"),
        Some(_) => match &seen.trust {
            Trust::Insecure => check(
                NAME,
                Verdict::Warning,
                "the certificate is not verified",
                "trust the CA of the BMC (trust: ca_file), or pin its certificate (trust: sha256)",
            ),
            Trust::System => check(NAME, Verdict::Ok, "verified by the system's CAs", ""),
            Trust::CaBundle(_) => check(NAME, Verdict::Ok, "verified by the CA bundle", ""),
            Trust::Sha256Pin(_) => check(NAME, Verdict::Ok, "the pinned certificate", ""),
        },
    }
}

fn is_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Configuration
    )
}

fn credentials(seen: &Seen) -> Check {
    const NAME: &str = "credentials";
    let user = &seen.username;
    match &seen.power {
        None => skipped(NAME, "the route comes first"),
        Some(Ok(_)) => check(NAME, Verdict::Ok, format!("user {user} is let in"), ""),
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
            ErrorKind::Privilege => check(NAME, Verdict::Ok, format!("user {user} is let in"), ""),
            kind if is_silence(kind) => skipped(NAME, "no answer"),
            _ => check(
                NAME,
                Verdict::Warning,
                error.message.clone(),
                "the BMC answers, but not with a power state: try again, then restart the BMC",
            ),
        },
    }
}

/// The facts, or why there are none.
fn facts<'a>(seen: &'a Seen, name: &str) -> Result<&'a Facts, Check> {
    match (&seen.power, &seen.facts) {
        (_, Some(Ok(facts))) => Ok(facts),
        (_, Some(Err(error))) => Err(check(
            name,
            Verdict::Warning,
            format!("cannot be read: {}", error.message),
            "try again",
        )),
        (Some(Err(_)), None) => Err(skipped(name, "the power state comes first")),
        (_, None) => Err(skipped(name, "the route comes first")),
    }
}

fn privilege(seen: &Seen) -> Check {
    const NAME: &str = "privilege";
    if let Some(Err(error)) = &seen.power
        && error.kind == ErrorKind::Privilege
    {
        let advice = "give the account OPERATOR (IPMI) or the role Operator (Redfish)";
        return check(NAME, Verdict::Failed, error.message.clone(), advice);
    }
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return check,
    };
    let word = facts.privilege.as_deref().unwrap_or("not said");
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
            format!("{word}: whether it may switch power is not known"),
            "switch a host that nobody needs, once",
        ),
    }
}

fn cipher_suite(seen: &Seen) -> Check {
    const NAME: &str = "cipher-suite";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return check,
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
            format!("suite 0, which asks for no password, is enabled{offered}"),
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

fn redfish(seen: &Seen) -> Check {
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
                "mend the path of the system in the address, or update the BMC",
            )
        }
        (_, Err(check)) => check,
        (_, Ok(facts)) => {
            let service = facts.service.as_deref().unwrap_or("Redfish");
            let firmware = facts.firmware.as_ref();
            let firmware = firmware.map(|version| format!(", firmware {version}"));
            let found = format!("{service}{}", firmware.unwrap_or_default());
            check(NAME, Verdict::Ok, found, "")
        }
    }
}

fn actions(seen: &Seen) -> Check {
    const NAME: &str = "actions";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return check,
    };
    let Some(actions) = &facts.actions else {
        return check(
            NAME,
            Verdict::Warning,
            "the BMC does not say which reset types it takes",
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

fn identity(seen: &Seen) -> Check {
    const NAME: &str = "identity";
    let found = match (&seen.identity, &seen.power) {
        (Some(Ok(found)), _) => found,
        (_, Some(Ok(reading))) => &reading.identity,
        (_, Some(Err(_))) => return skipped(NAME, "the power state comes first"),
        (_, None) => return skipped(NAME, "the route comes first"),
    };
    let says = match (&found.system_uuid, &found.serial) {
        (Some(uuid), Some(serial)) => format!("UUID {uuid}, serial {serial}"),
        (Some(uuid), None) => format!("UUID {uuid}"),
        (None, Some(serial)) => format!("serial {serial}"),
        (None, None) => {
            return check(
                NAME,
                Verdict::Warning,
                "the BMC does not say which system is behind it",
                "make sure by hand (identify LED) that the address is that of this host",
            );
        }
    };
    if let Some(mismatch) = seen.expected.mismatch(found) {
        return check(
            NAME,
            Verdict::Failed,
            format!(
                "the BMC says {} {}, the inventory {}",
                mismatch.what, mismatch.found, mismatch.expected
            ),
            "this may be the BMC of another host: nothing is switched until inventory or cabling \
             is mended",
        );
    }
    let is_known =
        |ours: &Option<String>, theirs: &Option<String>| ours.is_some() && theirs.is_some();
    if is_known(&seen.expected.system_uuid, &found.system_uuid)
        || is_known(&seen.expected.serial, &found.serial)
    {
        return check(
            NAME,
            Verdict::Ok,
            format!("{says}, as in the inventory"),
            "",
        );
    }
    check(
        NAME,
        Verdict::Warning,
        format!("{says}; the inventory knows nothing to compare"),
        "write system_uuid or serial into the inventory, so that a wrong BMC is noticed",
    )
}

fn clock(seen: &Seen) -> Check {
    const NAME: &str = "clock";
    let facts = match facts(seen, NAME) {
        Ok(facts) => facts,
        Err(check) => return check,
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

/// In the largest unit that it fills twice.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
