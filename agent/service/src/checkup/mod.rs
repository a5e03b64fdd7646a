//! Diagnosis of a host: everything that power control needs.
//!
//! Pure: takes the observations of one BMC, and returns verdicts with findings and advice. Must
//! never: pass a check without an observation.

mod access;
mod connectivity;
mod outlets;
mod system;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;
use rackhand_bmc::{
    BmcError, ErrorKind, Facts, FirmwareUpdates, PowerReading, Protocol, SystemIdentity, Trust,
    operation::Expected,
};
use rackhand_proto::v1::{Check, Verdict};

use access::{cipher_suite, credentials, power, privilege};
use connectivity::{name, route, tls};
pub(crate) use outlets::outlets;
use system::{actions, clock, identity, off_proof, redfish, updates};

/// The observations of one BMC; `None` where an earlier step failed.
#[derive(Debug)]
pub(crate) struct Observations {
    /// The BMC's address without credentials.
    pub(crate) bmc: String,
    pub(crate) protocol: Protocol,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the BMC uses HTTPS; false for IPMI.
    pub(crate) is_tls: bool,
    pub(crate) trust: Trust,
    pub(crate) username: String,
    /// Whether it is read in the session that the agent uses for other calls too.
    pub(crate) is_shared: bool,
    /// Addresses of its name, or why there are none.
    pub(crate) name: Result<Vec<IpAddr>, String>,
    /// An address that the configuration does not allow, and the networks that it allows.
    pub(crate) forbidden: Option<(IpAddr, String)>,
    /// Duration of the TCP connect, or its error. Not for IPMI: UDP has no connection.
    pub(crate) tcp: Option<Result<Duration, String>>,
    pub(crate) power: Option<Result<PowerReading, BmcError>>,
    pub(crate) identity: Option<Result<SystemIdentity, BmcError>>,
    pub(crate) facts: Option<Result<Facts, BmcError>>,
    pub(crate) updates: Option<Result<FirmwareUpdates, BmcError>>,
    /// The identity that the inventory expects, and what earlier operations read.
    pub(crate) expected: Expected,
    /// Where the expectation comes from that is not the inventory's.
    pub(crate) origin: Option<String>,
    /// Whether that are earlier operations, which remember what Redfish has named only.
    pub(crate) is_remembered: bool,
    /// Whether the inventory marks the system UUID of this BMC as identifying nothing.
    pub(crate) no_system_uuid: bool,
    /// Time of the agent's clock when the facts were read.
    pub(crate) now: Timestamp,
}

/// All verdicts, in the order of the checks.
pub(crate) fn judge(seen: &Observations) -> Vec<Check> {
    let mut checks = vec![name(seen), route(seen)];
    if seen.protocol == Protocol::Redfish {
        checks.push(tls(seen));
    }
    checks.push(credentials(seen));
    checks.push(privilege(seen));
    checks.push(power(seen));
    if seen.protocol == Protocol::Ipmi {
        checks.push(cipher_suite(seen));
    }
    if seen.protocol == Protocol::Redfish {
        checks.push(redfish(seen));
        checks.push(actions(seen));
    }
    checks.push(identity(seen));
    checks.push(clock(seen));
    checks.push(off_proof(seen));
    checks.push(updates(seen));
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
        identity: None,
    }
}

fn skipped(name: &str, because: &str) -> Check {
    check(name, Verdict::Skipped, because, "")
}

fn is_silence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Configuration
    )
}

/// The facts, or a skipped or failed check.
fn facts<'a>(seen: &'a Observations, name: &str) -> Result<&'a Facts, Box<Check>> {
    let why = match (&seen.power, &seen.facts) {
        (_, Some(Ok(facts))) => return Ok(facts),
        (_, Some(Err(error))) => check(
            name,
            Verdict::Warning,
            format!("cannot be read: {}", error.message),
            "try again",
        ),
        (Some(Err(_)), None) => skipped(name, "the power state comes first"),
        (_, None) => skipped(name, "the route comes first"),
    };
    Err(Box::new(why))
}
