//! Limits that follow from earlier remediations of the same host.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Hold, PowerPolicy, Rule};
use crate::values::duration::whole_units;

/// Remediations of a host that count, the latest ones: as many as its HostHistory lists.
pub const REMEMBERED_REMEDIATIONS: usize = 10;

/// A finished attempt that switched the host off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PastAttempt {
    /// When the attempt began.
    pub begun: Timestamp,
    /// When the attempt ended.
    pub ended: Timestamp,
    /// Whether the Node was healthy again at its end.
    pub succeeded: bool,
}

/// A limit of the attempts on one host within a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptLimit {
    /// Attempts that are allowed.
    pub max: u32,
    /// The time, counted back from now.
    pub within: Duration,
    /// What happens when another attempt would exceed it.
    pub then: WhenExceeded,
}

/// What happens when a host was remediated too often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WhenExceeded {
    /// The remediation is held until earlier attempts are old enough or a person approves it.
    #[default]
    Stop,
    /// No attempt is made, as if all attempts had failed.
    Escalate,
    /// The remediation goes on, and a Warning Event reports the limit.
    Notify,
}

impl AttemptLimit {
    /// The hold, if the next attempt would exceed the limit.
    pub(super) fn exceeded(
        &self,
        policy: &PowerPolicy,
        past: &[PastAttempt],
        now: Timestamp,
    ) -> Option<Hold> {
        let counted_until =
            |p: &PastAttempt| p.begun.checked_add(self.within).unwrap_or(Timestamp::MAX);
        let mut ends: Vec<Timestamp> = past.iter().map(counted_until).collect();
        ends.retain(|end| *end > now);
        let made = ends.len();
        let max = usize::try_from(self.max).unwrap_or(usize::MAX);
        if made < max {
            return None;
        }
        // Once so many are out of the period that one more is allowed; with none allowed, never.
        ends.sort_unstable();
        let until = ends.get(made - max).copied().filter(|_| max > 0);
        let detail = format!(
            "{made} attempts on this host within {}, at most {} are allowed; to continue: kubectl rackhand approve",
            whole_units(self.within),
            self.max
        );
        Some(policy.hold(Rule::Attempts, detail, until))
    }
}

/// The hold after a successful remediation, if it lasts.
pub(super) fn cooldown(policy: &PowerPolicy, past: &[PastAttempt], now: Timestamp) -> Option<Hold> {
    let cooldown = policy.cooldown?;
    let last = past.iter().filter(|p| p.succeeded).map(|p| p.ended).max()?;
    let until = last.checked_add(cooldown).unwrap_or(Timestamp::MAX);
    let detail = format!(
        "the host was remediated successfully at {last:.0}, and its cooldown is {}",
        whole_units(cooldown)
    );
    (now < until).then(|| policy.hold(Rule::Cooldown, detail, Some(until)))
}
