//! Reasons for rejecting a request.

use std::fmt;

use jiff::Timestamp;

use super::{Device, Hold, Sequence, Term};

/// Reason of a rejection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refused {
    /// The term has ended.
    StaleTerm {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// The term that was sent.
        term: u64,
        /// The highest known term.
        known: Term,
    },
    /// The term was not claimed at this agent.
    Unclaimed {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// The term that was sent.
        term: u64,
        /// The highest claimed term.
        highest: Option<u64>,
    },
    /// A command with this or a higher sequence number was accepted already.
    StaleSequence {
        /// Name of the host that the refusal concerns.
        host: String,
        /// The sequence number that was sent.
        sent: Sequence,
        /// The last accepted one.
        known: Sequence,
    },
    /// The request arrived after its latest time.
    TooLate {
        /// Name of the host that the refusal concerns.
        host: String,
    },
    /// Another agent of the rack serves the term.
    Standby {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// The term that was sent.
        term: u64,
    },
    /// Another owner holds the host off.
    Held(Hold),
    /// Whether the host is held is unknown, because a name does not resolve.
    Unresolved {
        /// Name of the host that the refusal concerns.
        host: String,
        /// The error of the name resolution.
        why: String,
    },
    /// The name of a held host does not resolve, so it may be this host.
    MaybeHeld {
        /// Name of the host that the refusal concerns.
        host: String,
        /// The hold.
        hold: Hold,
    },
    /// The id belongs to another operation.
    OtherOperation {
        /// Id under which another operation is already known.
        id: String,
        /// Action of that operation.
        action: String,
        /// What that operation switches.
        device: Device,
        /// Host of that operation.
        host: String,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleTerm {
                election,
                term,
                known,
            } => write!(
                f,
                "term {term} of election {election} is over: term {} was claimed by {}",
                known.number, known.holder
            ),
            Self::Unclaimed {
                election,
                term,
                highest,
            } => {
                write!(
                    f,
                    "term {term} of election {election} has not been claimed at this agent "
                )?;
                match highest {
                    Some(highest) => write!(f, "(highest: {highest}); claim it first"),
                    None => f.write_str("(none has); claim it first"),
                }
            }
            Self::StaleSequence { host, sent, known } => write!(
                f,
                "host {host}: sequence {} of term {} is not newer than {} of term {}, which was \
                 taken already",
                sent.sequence, sent.term, known.sequence, known.term
            ),
            Self::TooLate { host } => write!(
                f,
                "host {host}: the request was on its way for too long; nothing was begun, ask again"
            ),
            Self::Standby { election, term } => write!(
                f,
                "another agent of this rack serves term {term} of election {election}, and this one \
                 stands by; claim the term here without standby before beginning anything"
            ),
            Self::Held(hold) => {
                let since = Timestamp::from_nanosecond(hold.since.into()).unwrap_or_default();
                let why = match hold.outlets_host.as_str() {
                    "" => String::new(),
                    other => format!(
                        ", because outlets that feed it are, or may be, switched off for host {other}: \
                         rackhand-agent pdu on {other} switches them on"
                    ),
                };
                write!(
                    f,
                    "host {} is held off by {} (asked by {}, since {since:.0}){why}; wait for it, or \
                     use force (--force) to act all the same",
                    hold.host, hold.owner, hold.by
                )
            }
            Self::Unresolved { host, why } => write!(
                f,
                "host {host}: it is not switched on while its BMC's name cannot be resolved, \
                 because somebody may hold it off by its IP address ({why}); try again, name the BMC \
                 by its IP address, or use force (--force) to act all the same"
            ),
            Self::MaybeHeld { host, hold } => write!(
                f,
                "host {host}: it is not switched on, because host {} is held off by {} (asked by {}) \
                 and the name of its BMC cannot be resolved: it may be this host; try again, or use \
                 force (--force) to act all the same",
                hold.host, hold.owner, hold.by
            ),
            Self::OtherOperation {
                id,
                action,
                device,
                host,
            } => {
                let by = match device {
                    Device::Bmc => "",
                    Device::Outlets => " by its outlets",
                };
                write!(
                    f,
                    "operation {id} is already a power {action} of host {host}{by}; choose a new \
                     operation id"
                )
            }
        }
    }
}
