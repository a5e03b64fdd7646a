//! Several checks that select one machine: which one acts.
//!
//! Owns that choice. Must never let two act, nor let a check that cannot act keep another from it
//! (unlike upstream, where each overwrites what the other wrote: docs/reference/cluster-api.md, Q12).

use jiff::Timestamp;

/// A check that selects a machine, as far as it matters which one acts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// `metadata.creationTimestamp` of the check.
    pub created: Option<Timestamp>,
    /// `metadata.name` of the check; claims are of one namespace.
    pub name: String,
    /// It acts: it is neither paused nor a dry run. One that is not ours, or that is being deleted,
    /// makes no claim.
    pub able: bool,
    /// The machine has a request of the kind that this check makes.
    pub requested: bool,
}

/// The place of the claim that acts; `None`: none can.
///
/// Whoever has a request of the machine open goes first, so that a check that comes later never makes a
/// second one of another kind; then the older check, then the name.
pub fn acting(claims: &[Claim]) -> Option<usize> {
    let able = claims.iter().enumerate().filter(|(_, claim)| claim.able);
    let first = able.min_by_key(|(_, claim)| {
        let created = claim.created.unwrap_or(Timestamp::MAX);
        (!claim.requested, created, &claim.name)
    });
    first.map(|(place, _)| place)
}
