//! Who may start what: terms, sequences, holds and operations, and every decision about them.
//!
//! A decision reads [`Records`] and returns its verdict with the [`Change`]s to persist. The agent's
//! journal implements [`Records`] by a transaction and writes the changes in the same one; [`Ledger`]
//! implements it in memory, for tests and for the model checker. Must never: answer before the caller
//! has persisted the changes, or keep a secret.

mod authority;
mod claims;
mod holds;
mod operations;
mod owed_power_on;
mod records;
mod refusal;
mod release;
mod shared_outlets;
mod start;
mod state;
mod terms;
mod version;

pub use authority::{Action, Authority};
pub use claims::{Arrival, Claims};
pub use holds::{Host, HostHolds, hold_on};
pub use operations::{
    Retention, cancelled, finish, interrupt_running, is_in_time, prune, sending, sending_shared_on,
    settle,
};
pub use owed_power_on::{OwedPowerOn, owed_power_on_id, owed_power_ons};
pub use records::{
    Device, Hold, Lifetime, Operation, RecordedOutcome, Sequence, Term, TermSetBack,
};
pub use refusal::Refused;
pub use release::{Release, ReleaseDecision};
pub use shared_outlets::{
    PowerCut, Reservation, ReservationDecision, Reserved, SharedOutletsRefused, Sibling,
    SiblingPower, check_siblings, release_reserved, release_siblings,
};
pub use start::{StartAnswer, StartDecision, StartRequest};
pub use state::Ledger;
pub use terms::{
    Claimed, KnownTerm, NotSetBack, SetBack, SetBackDecision, check_term, claim, disown_terms,
    known_terms,
};
pub use version::{Replaced, Version, newer_copy, replaced, starts_anew};

/// What a decision reads. Every method reads the same snapshot, with the changes of the decisions
/// before it in the same transaction.
pub trait Records {
    /// How an operation ended, as its runner reports it. No decision depends on it.
    type Report: Clone;
    /// Why something cannot be read.
    type Error;

    /// The highest term of an election.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn term(&self, election: &str) -> Result<Option<Term>, Self::Error>;

    /// All elections, with their highest terms.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn terms(&self) -> Result<Vec<(String, Term)>, Self::Error>;

    /// The last command that an election had for a host.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn sequence(&self, election: &str, host: &str) -> Result<Option<Sequence>, Self::Error>;

    /// The last commands of an election, by host.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn sequences(&self, election: &str) -> Result<Vec<(String, Sequence)>, Self::Error>;

    /// All holds, by host.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn holds(&self) -> Result<Vec<(String, Hold)>, Self::Error>;

    /// An operation.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn operation(&self, id: &str) -> Result<Option<Operation<Self::Report>>, Self::Error>;

    /// The ids of the operations without an outcome.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn running(&self) -> Result<Vec<String>, Self::Error>;

    /// The number of operations that have ended.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn ended(&self) -> Result<u64, Self::Error>;

    /// The operations that ended first, with the time of their end; at most `most`.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn first_ended(&self, most: usize) -> Result<Vec<(i64, String)>, Self::Error>;

    /// The terms that were set back by hand, the oldest first.
    ///
    /// # Errors
    /// The stored records cannot be read.
    fn set_back(&self) -> Result<Vec<TermSetBack>, Self::Error>;
}

/// What a decision changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Change<R> {
    /// The highest term of an election.
    Term {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// Its highest term from now on.
        term: Term,
    },
    /// The last command of an election for a host.
    Sequence {
        /// Name of the election: the leader Lease and its cluster.
        election: String,
        /// The key of the host.
        host: String,
        /// Its last command from now on; `None`: there was none.
        sequence: Option<Sequence>,
    },
    /// The hold under a key.
    Hold {
        /// The key of the host.
        key: String,
        /// The hold from now on; `None`: it is lifted.
        hold: Option<Hold>,
    },
    /// An operation. It runs while it has no outcome.
    Operation(Box<Operation<R>>),
    /// An operation is forgotten.
    Forget {
        /// When it ended.
        ended: i64,
        /// Id of the operation, chosen by the caller.
        id: String,
    },
    /// A term was set back by hand.
    SetBack(TermSetBack),
    /// A set-back term is forgotten.
    ForgetSetBack {
        /// When it was set back.
        at: i64,
        /// Name of the election: the leader Lease and its cluster.
        election: String,
    },
}

#[cfg(test)]
mod tests;
