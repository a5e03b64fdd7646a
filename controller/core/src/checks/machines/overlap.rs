//! The acting check of a machine that several checks select.
//!
//! Must never let two checks act, nor let a check that cannot act prevent another one (unlike upstream,
//! where each overwrites what the other wrote: docs/reference/cluster-api.md, Q12).

use jiff::Timestamp;

/// A check that selects a machine, with what the choice of the acting check depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// `metadata.creationTimestamp` of the check.
    pub created: Option<Timestamp>,
    /// `metadata.name` of the check; claims are of one namespace.
    pub name: String,
    /// Whether the check can act: it is neither paused nor a dry run. A check that is not ours, or that
    /// is being deleted, makes no claim.
    pub able: bool,
    /// Whether the machine has a remediation of the kind that this check makes.
    pub has_remediation: bool,
}

/// The index of the claim that acts; `None`: none can.
///
/// A check with an open remediation of the machine comes first, so that a later check never makes a second
/// remediation of another kind; then the older check, then the first by name.
pub fn acting(claims: &[Claim]) -> Option<usize> {
    let able = claims.iter().enumerate().filter(|(_, claim)| claim.able);
    let first = able.min_by_key(|(_, claim)| {
        let created = claim.created.unwrap_or(Timestamp::MAX);
        (!claim.has_remediation, created, &claim.name)
    });
    first.map(|(place, _)| place)
}
