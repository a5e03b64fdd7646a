//! Deliberate faults of shared lists, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A list that has begun answers a question that is asked while it runs.
    EarlierListCounts,
    /// A Node that a list was not asked about has nothing by it.
    UnaskedIsEmpty,
    /// A list that has failed before its first page counts as one that has found nothing.
    FailedIsEmpty,
    /// What the pages before a failure lack counts as absent.
    IncompleteIsAbsent,
    /// A question that comes while a list runs is forgotten with its end.
    QuestionForgotten,
    /// What the list before has lacked counts as absent.
    AbsenceRemembered,
    /// A Lease counts as it was in the list before.
    LeaseRemembered,
    /// A Node that a list by label lacks counts as absent.
    UnselectedIsAbsent,
    /// A Node answers for the one whose label it has.
    LabelIsName,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::EarlierListCounts,
        Self::UnaskedIsEmpty,
        Self::FailedIsEmpty,
        Self::IncompleteIsAbsent,
        Self::QuestionForgotten,
        Self::AbsenceRemembered,
        Self::LeaseRemembered,
        Self::UnselectedIsAbsent,
        Self::LabelIsName,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::EarlierListCounts => "a list that began before the question counts",
            Self::UnaskedIsEmpty => "a Node that a list was not asked about is drained",
            Self::FailedIsEmpty => "a list of pods that failed counts as empty",
            Self::IncompleteIsAbsent => "a Node that an incomplete list lacks is absent",
            Self::QuestionForgotten => "a question during a list of pods is forgotten",
            Self::AbsenceRemembered => "a Node that the list before lacked is absent",
            Self::LeaseRemembered => "a Lease is not renewed since the list before",
            Self::UnselectedIsAbsent => "a Node that a list by label lacks is absent",
            Self::LabelIsName => "a Node answers for the one whose label it has",
        }
    }

    fn faults(self) -> u8 {
        u8::from(matches!(
            self,
            Self::FailedIsEmpty | Self::IncompleteIsAbsent
        ))
    }
}
