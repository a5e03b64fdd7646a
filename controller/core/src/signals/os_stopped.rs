//! `rackhand.dev/OSStopped`: the log of the BMC says that the operating system has stopped, and the Node is silent.

use jiff::{SignedDuration, Timestamp};

use super::{
    ConditionStatus::{self, False, True},
    ObservedLease, OtherLeases, SignalCondition, bounded,
};

/// An entry of the log of a BMC since the last boot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OsStop {
    /// The entry as the BMC wrote it.
    pub entry: String,
    /// When the agent read the log, by the clock of the controller.
    pub read: Timestamp,
    /// When it was written, as far as the clock of the BMC is right; `None` if it has no time.
    pub written: Option<Timestamp>,
    /// Whether the log has a start of the host before it, so that an entry without a time is known to be of this boot.
    pub has_start: bool,
}

/// How much older than the last renewal of the Lease an entry may be: clocks of BMCs are minutes wrong.
const OLDER: SignedDuration = SignedDuration::from_mins(10);

impl OsStop {
    /// Whether it may be why this Lease is silent. What stopped long before its last renewal is not.
    fn explains(&self, lease: &ObservedLease) -> bool {
        match self.written {
            Some(written) => lease.facts.unchanged_since.duration_since(written) <= OLDER,
            None => self.has_start,
        }
    }
}

/// What is known of a host at the time of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OsStoppedFacts<'a> {
    /// The host, as `rack/host`.
    pub host: &'a str,
    /// Whether its BMC reports exactly on.
    pub is_on: bool,
    /// The latest entry since its last boot that says so; `None` if there is none, or the log was not read.
    pub stop: Option<&'a OsStop>,
    /// The Lease of its Node.
    pub lease: Option<&'a ObservedLease>,
    /// The Leases of the other Nodes of its cluster.
    pub others: OtherLeases,
    /// Whether Rackhand, or an operator at the agent, switches the host.
    pub is_switched: bool,
    /// The status that the Node shows.
    pub published: Option<ConditionStatus>,
}

/// The condition to publish; `None` leaves what is published.
///
/// An entry alone proves nothing: a watchdog may have expired while the host was booted by a person, and logs keep
/// entries for years. The Lease has to be silent when the log is read.
#[must_use]
pub fn os_stopped(facts: &OsStoppedFacts<'_>) -> Option<SignalCondition> {
    let (host, lease) = (facts.host, facts.lease?);
    if facts.published == Some(True) {
        let is_silent = lease.silent_from() <= lease.read;
        let message = format!("the Lease of the Node of host {host} is renewed again");
        return (!is_silent).then(|| SignalCondition::new(False, "LeaseRenewed", message));
    }
    let stop = facts.stop.filter(|_| facts.is_on && !facts.is_switched)?;
    if !stop.explains(lease) || !lease.is_silent_at(stop.read) || !facts.others.are_renewed() {
        return None;
    }
    let message = format!(
        "the operating system of host {host} has stopped: the log of its BMC has \"{}\" since the last boot, and the \
         Lease of its Node is not renewed; see its console, or let a health check fence it",
        bounded(&stop.entry)
    );
    Some(SignalCondition::new(
        True,
        "OperatingSystemStopped",
        message,
    ))
}
