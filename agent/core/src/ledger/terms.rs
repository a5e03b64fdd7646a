//! The terms that were claimed, and how a person sets one back (F7).
//!
//! An older term than the highest claimed one, a term that nobody claimed, and a sequence that was seen
//! already are refused.

use std::collections::BTreeMap;

use super::{Authority, Change, Records, Refused, Sequence, Term, TermSetBack};

/// Number of set-back terms that are remembered.
const KEPT: usize = 256;

/// A term as claimed, or the known one that refuses it, with the changes.
pub type Claimed<R> = (Result<u64, Term>, Vec<Change<R>>);

/// Makes a term known. `Err(known)` where a newer one is, another holder has this one, or a later claim
/// of this one was taken.
///
/// # Errors
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
        // The first claim that said so is the one before which commands are late.
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

/// Refuses a controller whose term is not the one in force. An operator has none.
///
/// # Errors
/// The stored records cannot be read.
pub fn check_term<V: Records>(
    records: &V,
    authority: &Authority,
) -> Result<Result<(), Refused>, V::Error> {
    Ok(term_in_force(records, authority)?.map(|_| ()))
}

/// The term in force in which a controller commands; `None` for an operator.
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

/// The term is in force, and this agent serves the rack in it.
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

/// Whether a call was sent before another one of the same controller. 0: it has no number.
fn is_late(sequence: u64, other: u64) -> bool {
    sequence != 0 && sequence < other
}

/// Refuses a command that is not newer than the last one that this election had for the host, or than
/// the claim by which this agent serves the rack. Terms of two elections cannot be compared: each has
/// its own sequences.
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

/// Uses up the sequence of a command.
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

/// Takes every term from its holder: a journal that is an older copy does not know which later terms were
/// claimed, so each leader must claim a higher one than the copy has. A command or claim of an earlier
/// leader that is still on its way finds no term.
///
/// # Errors
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

/// What is known of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTerm {
    /// Name of the election.
    pub election: String,
    /// Its highest term.
    pub term: Term,
    /// How it was set back, the oldest first.
    pub set_back: Vec<TermSetBack>,
}

/// All elections, with how their terms were set back.
///
/// # Errors
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

/// A person's request to set a term back.
#[derive(Debug, Clone)]
pub struct SetBack {
    /// Name of the election: the leader Lease and its cluster.
    pub election: String,
    /// The highest term that counts as used from then on.
    pub to: u64,
    /// Who asks.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// Why a term was not set back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSetBack {
    /// Nobody claimed a term of it.
    #[error(
        "no term of election {0:?} was ever claimed at this agent; `term list` shows those that were"
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

/// The election after its term was set back, or why it was not, with the changes.
pub type SetBackDecision<R> = (Result<KnownTerm, NotSetBack>, Vec<Change<R>>);

impl SetBack {
    /// Sets the term back and records who asked and why.
    ///
    /// # Errors
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
        // Nobody holds the term that it is set back to: the next leader must claim a higher one.
        let term = Term {
            number: to,
            ..Term::default()
        };
        let mut changes = vec![Change::Term {
            election: election.clone(),
            term: term.clone(),
        }];
        // Sequences of terms that no longer count would refuse every command of a lower term.
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
