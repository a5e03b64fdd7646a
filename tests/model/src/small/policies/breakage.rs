//! Deliberate faults of power policies, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A new leader does not count what an earlier one has begun.
    EarlierForgotten,
    /// A new leader decides by what its watches have shown so far.
    NotListed,
    /// A beginning whose write had no answer is evaluated as if it had not begun.
    PlaceLost,
    /// A result is not kept before the next evaluation.
    ResultNotKept,
    /// Of what an earlier leader has begun, the rack is not known.
    EarlierWithoutRack,
    /// A new leader lets remediations begin before it has claimed the others.
    NotClaimed,
    /// A remediation begins by the policies that the watch has shown.
    PolicyNotRead,
    /// A remediation begins by the labels that the watch has shown.
    LabelNotRead,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::EarlierForgotten,
        Self::NotListed,
        Self::PlaceLost,
        Self::ResultNotKept,
        Self::EarlierWithoutRack,
        Self::NotClaimed,
        Self::PolicyNotRead,
        Self::LabelNotRead,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::EarlierForgotten => "a new leader forgets what an earlier one has begun",
            Self::NotListed => "a new leader does not list the remediations",
            Self::PlaceLost => "a beginning without an answer loses its place",
            Self::ResultNotKept => "a budget is evaluated before the last result is kept",
            Self::EarlierWithoutRack => "what an earlier leader has begun is in no rack",
            Self::NotClaimed => "a new leader does not claim what has not begun",
            Self::PolicyNotRead => "the policies are not read before a beginning",
            Self::LabelNotRead => {
                "the labels that policies select by are not read before a beginning"
            }
        }
    }

    fn faults(self) -> u8 {
        match self {
            Self::ResultNotKept | Self::PolicyNotRead | Self::LabelNotRead => 0,
            _ => 1,
        }
    }
}
