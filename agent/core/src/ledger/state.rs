//! The state of a ledger: the records of an agent in ordered maps, and how a change alters them.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

use super::{Change, Hold, Operation, Records, Sequence, Term, TermSetBack};

/// The records of an agent, in ordered maps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger<R> {
    /// The highest terms, by election.
    pub terms: BTreeMap<String, Term>,
    /// The last commands, by election and host.
    pub sequences: BTreeMap<(String, String), Sequence>,
    /// The holds, by host.
    pub holds: BTreeMap<String, Hold>,
    /// The operations, by id.
    pub operations: BTreeMap<String, Operation<R>>,
    /// Ids of operations without an outcome.
    pub running: BTreeSet<String>,
    /// Ids of finished operations, by the time of their end.
    pub ended: BTreeSet<(i64, String)>,
    /// Terms that were set back, by time and election.
    pub set_back: BTreeMap<(i64, String), TermSetBack>,
}

impl<R> Default for Ledger<R> {
    fn default() -> Self {
        Self {
            terms: BTreeMap::new(),
            sequences: BTreeMap::new(),
            holds: BTreeMap::new(),
            operations: BTreeMap::new(),
            running: BTreeSet::new(),
            ended: BTreeSet::new(),
            set_back: BTreeMap::new(),
        }
    }
}

impl<R> Ledger<R> {
    /// Applies the changes of a decision.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = Change<R>>) {
        for change in changes {
            self.apply_one(change);
        }
    }

    fn apply_one(&mut self, change: Change<R>) {
        match change {
            Change::Term { election, term } => {
                self.terms.insert(election, term);
            }
            Change::Sequence {
                election,
                host,
                sequence,
            } => {
                put(&mut self.sequences, (election, host), sequence);
            }
            Change::Hold { key, hold } => put(&mut self.holds, key, hold),
            Change::Operation(operation) => {
                let id = operation.id.clone();
                if operation.outcome.is_none() {
                    self.running.insert(id.clone());
                } else {
                    self.running.remove(&id);
                    self.ended.insert((operation.ended, id.clone()));
                }
                self.operations.insert(id, *operation);
            }
            Change::Forget { ended, id } => {
                self.operations.remove(&id);
                self.ended.remove(&(ended, id));
            }
            Change::SetBack(record) => {
                let key = (record.at, record.election.clone());
                self.set_back.insert(key, record);
            }
            Change::ForgetSetBack { at, election } => {
                self.set_back.remove(&(at, election));
            }
        }
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn entries<V: Clone>(map: &BTreeMap<String, V>) -> Vec<(String, V)> {
    let entries = map.iter();
    entries.map(|(key, v)| (key.clone(), v.clone())).collect()
}

impl<R: Clone> Records for Ledger<R> {
    type Report = R;
    type Error = Infallible;

    fn term(&self, election: &str) -> Result<Option<Term>, Infallible> {
        Ok(self.terms.get(election).cloned())
    }

    fn terms(&self) -> Result<Vec<(String, Term)>, Infallible> {
        Ok(entries(&self.terms))
    }

    fn sequence(&self, election: &str, host: &str) -> Result<Option<Sequence>, Infallible> {
        let key = (election.to_owned(), host.to_owned());
        Ok(self.sequences.get(&key).copied())
    }

    fn sequences(&self, election: &str) -> Result<Vec<(String, Sequence)>, Infallible> {
        let of_election = self.sequences.iter().filter(|((e, _), _)| e == election);
        let by_host = of_election.map(|((_, host), sequence)| (host.clone(), *sequence));
        Ok(by_host.collect())
    }

    fn holds(&self) -> Result<Vec<(String, Hold)>, Infallible> {
        Ok(entries(&self.holds))
    }

    fn operation(&self, id: &str) -> Result<Option<Operation<R>>, Infallible> {
        Ok(self.operations.get(id).cloned())
    }

    fn running(&self) -> Result<Vec<String>, Infallible> {
        Ok(self.running.iter().cloned().collect())
    }

    fn ended(&self) -> Result<u64, Infallible> {
        Ok(u64::try_from(self.ended.len()).unwrap_or(u64::MAX))
    }

    fn first_ended(&self, most: usize) -> Result<Vec<(i64, String)>, Infallible> {
        Ok(self.ended.iter().take(most).cloned().collect())
    }

    fn set_back(&self) -> Result<Vec<TermSetBack>, Infallible> {
        Ok(self.set_back.values().cloned().collect())
    }
}
