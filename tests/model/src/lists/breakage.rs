//! Deliberate faults of shared lists, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A list that has begun answers a question that is asked while it runs.
    EarlierListCounts,
    /// A Node that a list was not asked about has no pod by it.
    UnaskedIsEmpty,
    /// A list that has failed counts as one that has found nothing.
    FailedIsEmpty,
    /// A question that comes while a list runs is forgotten with its end.
    QuestionForgotten,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::EarlierListCounts,
        Self::UnaskedIsEmpty,
        Self::FailedIsEmpty,
        Self::QuestionForgotten,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::EarlierListCounts => "a list that began before the question counts",
            Self::UnaskedIsEmpty => "a Node that a list was not asked about is drained",
            Self::FailedIsEmpty => "a list of pods that failed counts as empty",
            Self::QuestionForgotten => "a question during a list of pods is forgotten",
        }
    }

    fn faults(self) -> u8 {
        u8::from(self == Self::FailedIsEmpty)
    }
}
