//! The terms that were promised, and how a person sets one back (F7).

use std::collections::BTreeMap;

use redb::ReadableTable;

use super::{
    Journal, JournalError, SequenceRecord, TermRecord, TermSetBackRecord,
    store::ReadTx,
    tables::{SEQUENCES, SET_BACK, TERMS, decode, get, put},
    writer::Tx,
};

/// How many set-back terms are remembered.
const KEPT: usize = 256;

/// What is known of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownTerm {
    pub(crate) election: String,
    pub(crate) term: TermRecord,
    /// The oldest first.
    pub(crate) set_back: Vec<TermSetBackRecord>,
}

/// A person's request to set a term back.
#[derive(Debug, Clone)]
pub(crate) struct SetBack {
    pub(crate) election: String,
    /// The highest term that counts as used from then on.
    pub(crate) to: u64,
    pub(crate) by: String,
    pub(crate) reason: String,
    /// Nanoseconds of the Unix epoch.
    pub(crate) now: i64,
}

/// Why a term was not set back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSetBack {
    #[error(
        "no term of election {0:?} was ever claimed at this agent; `term list` shows those that were"
    )]
    UnknownElection(String),
    #[error(
        "the term of election {election} is {known}; it can only be set back, not to {to}. A leader \
         raises it by a claim"
    )]
    NotLower {
        election: String,
        known: u64,
        to: u64,
    },
}

impl Journal {
    /// All elections, with how their terms were set back.
    pub(crate) async fn terms(&self) -> Result<Vec<KnownTerm>, JournalError> {
        self.read(terms).await
    }

    /// Sets a term back and writes down who asked and why, in one step.
    pub(crate) async fn set_back_term(
        &self,
        asked: SetBack,
    ) -> Result<Result<KnownTerm, NotSetBack>, JournalError> {
        self.writer.write(move |tx| set_back(tx, asked)).await
    }
}

fn terms(tx: &ReadTx) -> Result<Vec<KnownTerm>, JournalError> {
    let mut set_back: BTreeMap<String, Vec<TermSetBackRecord>> = BTreeMap::new();
    let table = tx.open(SET_BACK)?;
    for entry in table.iter().map_err(JournalError::storage)? {
        let (_, value) = entry.map_err(JournalError::storage)?;
        let record: TermSetBackRecord = decode(value.value())?;
        set_back
            .entry(record.election.clone())
            .or_default()
            .push(record);
    }
    let mut known = Vec::new();
    let table = tx.open(TERMS)?;
    for entry in table.iter().map_err(JournalError::storage)? {
        let (election, value) = entry.map_err(JournalError::storage)?;
        let election = election.value().to_owned();
        known.push(KnownTerm {
            term: decode(value.value())?,
            set_back: set_back.remove(&election).unwrap_or_default(),
            election,
        });
    }
    Ok(known)
}

fn set_back(tx: &Tx, asked: SetBack) -> Result<Result<KnownTerm, NotSetBack>, JournalError> {
    let SetBack {
        election,
        to,
        by,
        reason,
        now,
    } = asked;
    let Some(known) = get::<TermRecord>(tx, TERMS, &election)? else {
        return Ok(Err(NotSetBack::UnknownElection(election)));
    };
    if to >= known.number {
        return Ok(Err(NotSetBack::NotLower {
            election,
            known: known.number,
            to,
        }));
    }
    // Nobody holds the term that it is set back to: the next leader must claim a higher one.
    let term = TermRecord {
        number: to,
        holder: String::new(),
        standby: false,
    };
    put(tx, TERMS, &election, &term)?;
    forget_sequences(tx, &election, to)?;
    let record = TermSetBackRecord {
        election: election.clone(),
        at: now,
        from: known.number,
        to,
        by,
        reason,
    };
    remember(tx, &record)?;
    Ok(Ok(KnownTerm {
        election,
        term,
        set_back: vec![record],
    }))
}

/// Sequences of terms that no longer count would refuse every command of a lower term.
fn forget_sequences(tx: &Tx, election: &str, to: u64) -> Result<(), JournalError> {
    let prefix = format!("{election}\n");
    let mut table = tx.open(SEQUENCES)?;
    let mut above = Vec::new();
    for entry in table
        .range(prefix.as_str()..)
        .map_err(JournalError::storage)?
    {
        let (key, value) = entry.map_err(JournalError::storage)?;
        if !key.value().starts_with(&prefix) {
            break;
        }
        if decode::<SequenceRecord>(value.value())?.term > to {
            above.push(key.value().to_owned());
        }
    }
    for key in above {
        table.remove(key.as_str()).map_err(JournalError::storage)?;
    }
    Ok(())
}

fn remember(tx: &Tx, record: &TermSetBackRecord) -> Result<(), JournalError> {
    use prost::Message;
    use redb::ReadableTableMetadata;
    let mut table = tx.open(SET_BACK)?;
    let key = (record.at, record.election.as_str());
    table
        .insert(key, record.encode_to_vec().as_slice())
        .map_err(JournalError::storage)?;
    while table.len().map_err(JournalError::storage)? > KEPT as u64 {
        table.pop_first().map_err(JournalError::storage)?;
    }
    Ok(())
}
