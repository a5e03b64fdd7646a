//! Who may start what, decided in the transaction that writes it down.
//!
//! F7 lives here: an older term than the highest claimed one, a term that nobody claimed, and a
//! sequence that was seen already are refused, also after a restart.

use std::fmt;

use jiff::Timestamp;
use rackhand_proto::Refusal;

use super::{
    HoldRecord, JournalError, OperationRecord, SequenceRecord, TermRecord,
    changes::begin,
    holds::{self, Host, HostHolds},
    tables::{Lookup, OPERATIONS, SEQUENCES, TERMS, get, put},
    writer::Tx,
};

/// By what right somebody commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Authority {
    /// A leader's term, and the sequence of this command.
    Controller {
        election: String,
        term: u64,
        holder: String,
        sequence: u64,
    },
    /// An operator, by certificate or local socket.
    Operator { name: String },
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller {
                election,
                term,
                holder,
                ..
            } => write!(f, "controller {holder} (term {term} of {election})"),
            Self::Operator { name } => write!(f, "operator {name}"),
        }
    }
}

/// What shall happen to the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Off { hold: bool },
    On,
    SoftOff,
    Cycle,
    Reset,
    Nmi,
}

impl Action {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Off { .. } => "off",
            Self::On => "on",
            Self::SoftOff => "soft-off",
            Self::Cycle => "cycle",
            Self::Reset => "reset",
            Self::Nmi => "nmi",
        }
    }

    /// Whether it can switch on a host that is off.
    pub(crate) fn may_power_on(self) -> bool {
        matches!(self, Self::On | Self::Cycle | Self::Reset)
    }

    /// Whether a host that somebody holds off may be told so by anybody: it only ends where the
    /// hold wants it, and leaves the hold as it is.
    fn suits_a_hold(self) -> bool {
        matches!(self, Self::Off { hold: false } | Self::SoftOff)
    }
}

/// A wish to start an operation.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) host: String,
    /// The same host by its addresses.
    pub(crate) at: Host,
    pub(crate) action: Action,
    pub(crate) owner: String,
    pub(crate) authority: Authority,
    pub(crate) force: bool,
    pub(crate) now: i64,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// This id was admitted before; nothing is started.
    Known(Box<OperationRecord>),
    /// It is written down and shall start. A hold of somebody else was overridden by force.
    Started { overridden: Option<HoldRecord> },
    /// The request is refused.
    Refused(Refused),
}

/// The reason of a refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refused {
    StaleTerm {
        election: String,
        term: u64,
        known: TermRecord,
    },
    Unclaimed {
        election: String,
        term: u64,
        highest: Option<u64>,
    },
    StaleSequence {
        host: String,
        sent: SequenceRecord,
        known: SequenceRecord,
    },
    Standby {
        election: String,
        term: u64,
    },
    Held(HoldRecord),
    /// Whether the host is held is not known, because a name does not resolve.
    Unresolved {
        host: String,
        why: String,
    },
    /// The name of a host that is held does not resolve: it may be this host.
    MaybeHeld {
        host: String,
        hold: HoldRecord,
    },
    OtherOperation(Box<OperationRecord>),
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
            Self::Standby { election, term } => write!(
                f,
                "another agent of this rack serves term {term} of election {election}, and this one \
                 stands by; claim the term here without standby before beginning anything"
            ),
            Self::Held(hold) => {
                let since = Timestamp::from_nanosecond(hold.since.into()).unwrap_or_default();
                write!(
                    f,
                    "host {} is held off by {} (asked by {}, since {since:.0}); wait for it, or \
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
            Self::OtherOperation(record) => write!(
                f,
                "operation {} is already a power {} of host {}; choose a new operation id",
                record.id, record.action, record.host
            ),
        }
    }
}

impl Refused {
    pub(crate) fn status(&self) -> tonic::Status {
        let refusal = match self {
            Self::StaleTerm { .. } => Refusal::StaleTerm,
            Self::Unclaimed { .. } => Refusal::UnclaimedTerm,
            Self::StaleSequence { .. } => Refusal::StaleSequence,
            Self::Standby { .. } => Refusal::Standby,
            Self::Held(_) => Refusal::Held,
            // They pass as soon as the name resolves.
            Self::Unresolved { .. } | Self::MaybeHeld { .. } => {
                return tonic::Status::unavailable(self.to_string());
            }
            Self::OtherOperation(_) => return tonic::Status::invalid_argument(self.to_string()),
        };
        refusal.status(self.to_string())
    }
}

impl Admission {
    pub(super) fn run(self, tx: &Tx) -> Result<Admitted, JournalError> {
        if let Some(known) = get::<OperationRecord>(tx, OPERATIONS, &self.id)? {
            let same = self.at.keys.mean(&known.key) && known.action == self.action.word();
            return Ok(if same {
                Admitted::Known(Box::new(known))
            } else {
                Admitted::Refused(Refused::OtherOperation(Box::new(known)))
            });
        }
        let refused = match check_serves(tx, &self.authority)? {
            Err(refused) => Some(refused),
            Ok(()) => check_sequence(tx, &self.authority, &self.key, &self.host)?,
        };
        if let Some(refused) = refused {
            return Ok(Admitted::Refused(refused));
        }
        let holds = holds::find(tx, &self.at)?;
        let others = self.foreign(&holds.on_host).cloned();
        let others = others.filter(|_| !self.action.suits_a_hold());
        if !self.force {
            let refused = match &others {
                Some(hold) => Some(Refused::Held(hold.clone())),
                None => self.check_doubt(&holds),
            };
            if let Some(refused) = refused {
                return Ok(Admitted::Refused(refused));
            }
        }
        self.write(tx, &holds.on_host, others.as_ref())?;
        Ok(Admitted::Started { overridden: others })
    }

    /// A hold of somebody else.
    fn foreign<'a>(&self, holds: &'a [(String, HoldRecord)]) -> Option<&'a HoldRecord> {
        let mut holds = holds.iter().map(|(_, hold)| hold);
        holds.find(|hold| hold.owner != self.owner)
    }

    /// Refuses to switch on what somebody may hold off. Whoever holds the host himself has told it
    /// from all others when he was given the hold.
    fn check_doubt(&self, holds: &HostHolds) -> Option<Refused> {
        if !self.action.may_power_on() || !holds.on_host.is_empty() {
            return None;
        }
        let host = self.host.clone();
        if let Some(why) = self.at.unresolved.clone() {
            return Some(Refused::Unresolved { host, why });
        }
        let hold = self.foreign(&holds.doubtful)?.clone();
        Some(Refused::MaybeHeld { host, hold })
    }

    fn write(
        &self,
        tx: &Tx,
        holds: &[(String, HoldRecord)],
        overridden: Option<&HoldRecord>,
    ) -> Result<(), JournalError> {
        take_sequence(tx, &self.authority, &self.key)?;
        let election = match &self.authority {
            Authority::Controller { election, .. } => election.clone(),
            Authority::Operator { .. } => String::new(),
        };
        match self.action {
            Action::Off { hold: true } => {
                let hold = HoldRecord {
                    host: self.host.clone(),
                    owner: self.owner.clone(),
                    by: self.authority.to_string(),
                    since: self.now,
                    addresses: Vec::new(),
                    election: election.clone(),
                };
                holds::replace(tx, holds, &self.key, &self.at, hold)?;
            }
            Action::On | Action::Cycle => holds::remove(tx, holds)?,
            Action::Off { hold: false } | Action::SoftOff | Action::Reset | Action::Nmi => {}
        }
        let record = OperationRecord {
            id: self.id.clone(),
            key: self.key.clone(),
            host: self.host.clone(),
            action: self.action.word().to_owned(),
            owner: self.owner.clone(),
            by: self.authority.to_string(),
            election,
            begun: self.now,
            force: self.force,
            overrode: overridden
                .map(|hold| hold.owner.clone())
                .unwrap_or_default(),
            ..OperationRecord::default()
        };
        begin(tx, &record)
    }
}

pub(super) fn check_term(
    tx: &impl Lookup,
    authority: &Authority,
) -> Result<Result<(), Refused>, JournalError> {
    let Authority::Controller {
        election,
        term,
        holder,
        ..
    } = authority
    else {
        return Ok(Ok(()));
    };
    let unclaimed = |highest| Refused::Unclaimed {
        election: election.clone(),
        term: *term,
        highest,
    };
    let Some(known) = get::<TermRecord>(tx, TERMS, election)? else {
        return Ok(Err(unclaimed(None)));
    };
    if known.number < *term {
        return Ok(Err(unclaimed(Some(known.number))));
    }
    if known.number > *term || known.holder != *holder {
        return Ok(Err(Refused::StaleTerm {
            election: election.clone(),
            term: *term,
            known,
        }));
    }
    Ok(Ok(()))
}

/// The term is in force, and this agent serves the rack in it.
fn check_serves(tx: &Tx, authority: &Authority) -> Result<Result<(), Refused>, JournalError> {
    if let Err(refused) = check_term(tx, authority)? {
        return Ok(Err(refused));
    }
    let Authority::Controller { election, term, .. } = authority else {
        return Ok(Ok(()));
    };
    let standby = get::<TermRecord>(tx, TERMS, election)?.is_some_and(|known| known.standby);
    Ok(if standby {
        Err(Refused::Standby {
            election: election.clone(),
            term: *term,
        })
    } else {
        Ok(())
    })
}

/// Terms of two elections cannot be compared: each has its own sequences.
fn sequence_key(election: &str, key: &str) -> String {
    format!("{election}\n{key}")
}

pub(super) fn check_sequence(
    tx: &Tx,
    authority: &Authority,
    key: &str,
    host: &str,
) -> Result<Option<Refused>, JournalError> {
    let Authority::Controller {
        election,
        term,
        sequence,
        ..
    } = authority
    else {
        return Ok(None);
    };
    let sent = SequenceRecord {
        term: *term,
        sequence: *sequence,
    };
    let known: Option<SequenceRecord> = get(tx, SEQUENCES, &sequence_key(election, key))?;
    Ok(known
        .filter(|known| sent <= *known)
        .map(|known| Refused::StaleSequence {
            host: host.to_owned(),
            sent,
            known,
        }))
}

pub(super) fn take_sequence(tx: &Tx, authority: &Authority, key: &str) -> Result<(), JournalError> {
    let Authority::Controller {
        election,
        term,
        sequence,
        ..
    } = authority
    else {
        return Ok(());
    };
    let record = SequenceRecord {
        term: *term,
        sequence: *sequence,
    };
    put(tx, SEQUENCES, &sequence_key(election, key), &record)
}
