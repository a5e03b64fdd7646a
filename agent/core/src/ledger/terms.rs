//! Claimed terms, and setting a term back (F7).
//!
//! A term lower than the highest claimed one, an unclaimed term, and a sequence number that was
//! used already are rejected.

use std::collections::BTreeMap;

use super::{Authority, Change, Records, Refused, Sequence, Term, TermSetBack};

/// Maximum number of set-back records.
const KEPT: usize = 256;

/// The claimed term, or the known term that rejects the claim, with the changes.
pub type Claimed<R> = (Result<u64, Term>, Vec<Change<R>>);

/// Claims a term. `Err(known)`: a higher term is known, another holder has this one, or a later
/// claim of this one was accepted.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn claim<V: Records>(
    records: &V,
    election: &str,
    asked: Term,
) -> Result<Claimed<V::Report>, V::Error> {
    let number = asked.number;
    if let Some(known) = records.term(election)? {
        let is_same = known.number == number && known.holder == asked.holder;
        if known.number > number
            || (known.number == number && !is_same)
            || (is_same && is_late(asked.sequence, known.sequence))
        {
            return Ok((Err(known), Vec::new()));
        }
        // Keep the sequence number of the first claim in this state: commands before it are late.
        if is_same && known.standby == asked.standby {
            return Ok((Ok(number), Vec::new()));
        }
    }
    let change = Change::Term {
        election: election.to_owned(),
        term: asked,
    };
    Ok((Ok(number), vec![change]))
}

/// Rejects a controller whose term is not in force. An operator has no term.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn check_term<V: Records>(
    records: &V,
    authority: &Authority,
) -> Result<Result<(), Refused>, V::Error> {
    Ok(term_in_force(records, authority)?.map(|_| ()))
}

/// The term in which a controller commands; `None` for an operator.
fn term_in_force<V: Records>(
    records: &V,
    authority: &Authority,
) -> Result<Result<Option<Term>, Refused>, V::Error> {
    let Authority::Controller {
        election,
        term,
        holder,
        ..
    } = authority
    else {
        return Ok(Ok(None));
    };
    let unclaimed = |highest| Refused::Unclaimed {
        election: election.clone(),
        term: *term,
        highest,
    };
    let Some(known) = records.term(election)? else {
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
    Ok(Ok(Some(known)))
}

/// Rejects a term that is not in force or is served by another agent.
pub(super) fn check_serves<V: Records>(
    records: &V,
    authority: &Authority,
) -> Result<Result<(), Refused>, V::Error> {
    let known = match term_in_force(records, authority)? {
        Ok(known) => known,
        Err(refused) => return Ok(Err(refused)),
    };
    Ok(match authority {
        Authority::Controller { election, term, .. } if known.is_some_and(|t| t.standby) => {
            Err(Refused::Standby {
                election: election.clone(),
                term: *term,
            })
        }
        _ => Ok(()),
    })
}

/// Whether a call was sent before another one of the same controller. 0: the call has no number.
fn is_late(sequence: u64, other: u64) -> bool {
    sequence != 0 && sequence < other
}

/// Rejects a command whose sequence number is not higher than that of the last command of this
/// election for the host, and of the claim that made this agent serve the rack. Terms of two
/// elections cannot be compared, so each has its own sequences.
pub(super) fn check_sequence<V: Records>(
    records: &V,
    authority: &Authority,
    key: &str,
    host: &str,
) -> Result<Result<(), Refused>, V::Error> {
    let Some((election, sent)) = sent(authority) else {
        return Ok(Ok(()));
    };
    let claim = records.term(election)?;
    let claim = claim.filter(|claim| is_late(sent.sequence, claim.sequence));
    let known = match claim.filter(|claim| claim.number == sent.term) {
        Some(claim) => Some(Sequence {
            term: claim.number,
            sequence: claim.sequence,
        }),
        None => records.sequence(election, key)?,
    };
    Ok(match known.filter(|known| sent <= *known) {
        None => Ok(()),
        Some(known) => Err(Refused::StaleSequence {
            host: host.to_owned(),
            sent,
            known,
        }),
    })
}

/// Records the sequence number of a command as used.
pub(super) fn take_sequence<R>(authority: &Authority, key: &str) -> Option<Change<R>> {
    let (election, sent) = sent(authority)?;
    Some(Change::Sequence {
        election: election.to_owned(),
        host: key.to_owned(),
        sequence: Some(sent),
    })
}

fn sent(authority: &Authority) -> Option<(&str, Sequence)> {
    match authority {
        Authority::Controller {
            election,
            term,
            sequence,
            ..
        } => {
            let sent = Sequence {
                term: *term,
                sequence: *sequence,
            };
            Some((election, sent))
        }
        Authority::Operator { .. } => None,
    }
}

/// Removes the holder of every term: a journal that is an older copy lacks later claims, so each
/// leader must claim a higher term than the copy has. A command or claim of an earlier leader in
/// flight is rejected.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn disown_terms<V: Records>(records: &V) -> Result<Vec<Change<V::Report>>, V::Error> {
    let terms = records.terms()?.into_iter();
    let disowned = terms.map(|(election, term)| Change::Term {
        election,
        term: Term {
            number: term.number,
            ..Term::default()
        },
    });
    Ok(disowned.collect())
}

/// The state of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTerm {
    /// Name of the election.
    pub election: String,
    /// Its highest term.
    pub term: Term,
    /// Records of setting it back, oldest first.
    pub set_back: Vec<TermSetBack>,
}

/// The state of all elections.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn known_terms<V: Records>(records: &V) -> Result<Vec<KnownTerm>, V::Error> {
    let mut set_back: BTreeMap<String, Vec<TermSetBack>> = BTreeMap::new();
    for record in records.set_back()? {
        let of_election = set_back.entry(record.election.clone()).or_default();
        of_election.push(record);
    }
    let known = records
        .terms()?
        .into_iter()
        .map(|(election, term)| KnownTerm {
            term,
            set_back: set_back.remove(&election).unwrap_or_default(),
            election,
        });
    Ok(known.collect())
}

/// An operator's request to set a term back.
#[derive(Debug, Clone)]
pub struct SetBack {
    /// Name of the election: the leader Lease and its cluster.
    pub election: String,
    /// The highest term that counts as used from then on.
    pub to: u64,
    /// Who set the term back, as authenticated by the agent.
    pub by: String,
    /// The reason, for the record.
    pub reason: String,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// Reason why a term was not set back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSetBack {
    /// No term of the election was claimed.
    #[error(
        "no term of election {0:?} was ever claimed at this agent; `term list` shows the claimed ones"
    )]
    UnknownElection(String),
    /// The term is not above the requested one.
    #[error(
        "the term of election {election} is {known}; it can only be set back, not to {to}. A leader \
         raises it by a claim"
    )]
    NotLower {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// Its term.
        known: u64,
        /// The requested one.
        to: u64,
    },
}

/// The election after setting its term back, or the reason of a rejection, with the changes.
pub type SetBackDecision<R> = (Result<KnownTerm, NotSetBack>, Vec<Change<R>>);

impl SetBack {
    /// Sets the term back and records caller and reason.
    ///
    /// # Errors
    ///
    /// The stored records cannot be read.
    pub fn decide<V: Records>(self, records: &V) -> Result<SetBackDecision<V::Report>, V::Error> {
        let Self {
            election,
            to,
            by,
            reason,
            now,
        } = self;
        let Some(known) = records.term(&election)? else {
            return Ok((Err(NotSetBack::UnknownElection(election)), Vec::new()));
        };
        if to >= known.number {
            let refused = NotSetBack::NotLower {
                election,
                known: known.number,
                to,
            };
            return Ok((Err(refused), Vec::new()));
        }
        // The term has no holder: the next leader must claim a higher one.
        let term = Term {
            number: to,
            ..Term::default()
        };
        let mut changes = vec![Change::Term {
            election: election.clone(),
            term: term.clone(),
        }];
        // Sequence numbers of higher terms would reject every command of a lower term.
        let above = records.sequences(&election)?.into_iter();
        let above = above.filter(|(_, sequence)| sequence.term > to);
        changes.extend(above.map(|(host, _)| Change::Sequence {
            election: election.clone(),
            host,
            sequence: None,
        }));
        let record = TermSetBack {
            election: election.clone(),
            at: now,
            from: known.number,
            to,
            by,
            reason,
        };
        let before = records.set_back()?;
        let surplus = (before.len() + 1).saturating_sub(KEPT);
        let surplus = before.into_iter().take(surplus);
        changes.extend(surplus.map(|old| Change::ForgetSetBack {
            at: old.at,
            election: old.election,
        }));
        changes.push(Change::SetBack(record.clone()));
        let known = KnownTerm {
            election,
            term,
            set_back: vec![record],
        };
        Ok((Ok(known), changes))
    }
}
