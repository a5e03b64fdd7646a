//! The limit on remediation (F10).
//!
//! Owns the counting of a fleet and the comparison with the limit. Must always count a machine whose
//! health is unknown, or whose remediation is not over, so that it makes no room for another one.

use super::{Limit, MachineRemediation, Verdict};

/// How many machines the message of an exceeded limit names; the others are only counted.
const NAMED: usize = 10;

/// Whether remediation is allowed, and the calculation behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LimitStatus {
    /// Whether the limit allows remediation.
    pub open: bool,
    /// Number of targets that the check selects.
    pub expected: u32,
    /// Number of machines that count against the limit.
    pub not_healthy: u32,
    /// How many more machines may fail before remediation stops; 0 if it is not allowed.
    pub remediations_allowed: u32,
    /// Why remediation is not allowed, with limit, counts and machines; empty if it is.
    pub message: String,
}

/// The machines of one check, counted. Additions and removals commute, so that an index can keep it
/// up to date machine by machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FleetCounts {
    /// Targets: machines that are not skipped.
    pub expected: u32,
    /// Machines that are healthy now, or counted as healthy ([`Verdict::NotEvaluated`]).
    pub healthy: u32,
    /// Machines that are unhealthy now.
    pub unhealthy: u32,
    /// Machines that count against the limit, see [`counts_against_limit`].
    pub not_healthy: u32,
}

/// How one machine is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Whether it counts as a target.
    pub expected: bool,
    /// Whether it counts as healthy.
    pub healthy: bool,
    /// Whether it counts as unhealthy.
    pub unhealthy: bool,
    /// Whether it counts against the limit.
    pub not_healthy: bool,
}

/// Whether a machine counts against the limit. Every target does, except for a machine that is healthy
/// (or not evaluated, which counts as healthy) and has no remediation. A machine under remediation counts
/// until its remediation is gone, not only until its Node is healthy, or each reboot would let the next one
/// start (F10).
///
/// Starting machines count, as in Cluster API (docs/reference/cluster-api.md, Q5): in a mass failure,
/// replacements that do not come up must exceed the limit. Machines whose health is unknown count too:
/// they are never remediated, and must not make room for others.
pub fn counts_against_limit(verdict: &Verdict, remediation: &MachineRemediation) -> bool {
    let under_remediation = matches!(
        remediation,
        MachineRemediation::Open | MachineRemediation::Deleting
    );
    match verdict {
        Verdict::Skipped(_) => false,
        Verdict::Healthy | Verdict::NotEvaluated(_) => under_remediation,
        Verdict::Suspect { .. } | Verdict::Unhealthy { .. } | Verdict::Unknown(_) => true,
    }
}

// === impl Counts ===

impl Counts {
    /// The counts of a machine by Cluster API's rules.
    pub fn of(verdict: &Verdict, remediation: &MachineRemediation) -> Self {
        Self {
            expected: verdict.is_target(),
            healthy: matches!(verdict, Verdict::Healthy | Verdict::NotEvaluated(_)),
            unhealthy: matches!(verdict, Verdict::Unhealthy { .. }),
            not_healthy: counts_against_limit(verdict, remediation),
        }
    }
}

// === impl FleetCounts ===

impl FleetCounts {
    /// Adds a machine.
    pub fn add(&mut self, counts: Counts) {
        self.each(counts, |counter| *counter = counter.saturating_add(1));
    }

    /// Removes a machine that was added with the same counts.
    pub fn remove(&mut self, counts: Counts) {
        self.each(counts, |counter| *counter = counter.saturating_sub(1));
    }

    fn each(&mut self, counts: Counts, change: fn(&mut u32)) {
        let counters = [
            (counts.expected, &mut self.expected),
            (counts.healthy, &mut self.healthy),
            (counts.unhealthy, &mut self.unhealthy),
            (counts.not_healthy, &mut self.not_healthy),
        ];
        for (counted, counter) in counters {
            if counted {
                change(counter);
            }
        }
    }
}

/// How many more machines may fail before remediation stops by Cluster API's limit
/// (docs/reference/cluster-api.md, The limit); `None`: it is exceeded.
///
/// The limit is a gate, not a budget: while it is not exceeded, every unhealthy machine may be remediated in one pass.
/// Unhealthy machines always count, so a limit of 0 or less is exceeded whenever there is one: such a check only
/// observes.
pub(super) fn allowance(limit: Limit, tally: &FleetCounts) -> Option<u32> {
    match tally.expected {
        0 => Some(0),
        expected => limit.allowance(expected, tally.not_healthy),
    }
}

/// Why Cluster API's limit is exceeded. `names` are the machines that count, in order; the first ones are named.
pub(super) fn refusal<'a>(
    limit: Limit,
    tally: &FleetCounts,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    let FleetCounts {
        expected,
        unhealthy,
        not_healthy,
        ..
    } = *tally;
    format!(
        "Remediation is not allowed: {not_healthy} of {expected} machines are not healthy, \
         {unhealthy} of them unhealthy; {}{}",
        limit.describe(expected),
        listed(names, not_healthy),
    )
}

/// The first few of `total` names and the number of the others.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>, total: u32) -> String {
    let first: Vec<_> = names.into_iter().take(NAMED).collect();
    let named = u32::try_from(first.len()).unwrap_or(u32::MAX);
    match (first.is_empty(), total.saturating_sub(named)) {
        (true, _) => String::new(),
        (false, 0) => format!("; not healthy: {}", first.join(", ")),
        (false, more) => format!("; not healthy: {} and {more} more", first.join(", ")),
    }
}
