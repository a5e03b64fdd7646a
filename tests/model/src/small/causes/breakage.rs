//! Deliberate faults of shared causes, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A failure is acted on without waiting for others.
    NotSettled,
    /// Causes are judged and hold nothing.
    CauseIgnored,
    /// A new leader does not go on from the causes in the status of the policy.
    CausesForgotten,
    /// Each judgement begins the time of a hold anew.
    HoldBeginsAnew,
    /// What a cause has released takes no place in a budget.
    ReleasedBeyondBudget,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::NotSettled,
        Self::CauseIgnored,
        Self::CausesForgotten,
        Self::HoldBeginsAnew,
        Self::ReleasedBeyondBudget,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::NotSettled => "a failure is acted on before others are seen",
            Self::CauseIgnored => "a shared cause holds nothing",
            Self::CausesForgotten => "a new leader forgets since when a cause holds",
            Self::HoldBeginsAnew => "each judgement begins the time of a hold anew",
            Self::ReleasedBeyondBudget => "what a cause releases takes no place in a budget",
        }
    }

    fn faults(self) -> u8 {
        u8::from(self == Self::CausesForgotten)
    }
}
