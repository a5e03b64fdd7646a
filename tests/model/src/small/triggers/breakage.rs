//! Deliberate faults of triggers, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The name of a remediation differs each time.
    NameIsRandom,
    /// A failure is answered as a success.
    FailureRemovesLabel,
    /// The remediation is deleted, and the label stays.
    LabelNotAnswered,
    /// The remediation goes as soon as its label is answered.
    NoCooldown,
    /// The label is not read live before a remediation is made.
    NoLiveRead,
    /// A remediation that somebody has deleted is forgotten.
    AbortForgotten,
    /// The remediation of a Node that is gone is taken for that of the Node that has its name.
    NodeConfused,
    /// The remediation of a trigger that is gone stays.
    OrphanLeft,
    /// A second trigger acts on the same Node.
    TwoAct,
    /// A Node that must be left alone gets a remediation.
    NotLeftAlone,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::NameIsRandom,
        Self::FailureRemovesLabel,
        Self::LabelNotAnswered,
        Self::NoCooldown,
        Self::NoLiveRead,
        Self::AbortForgotten,
        Self::NodeConfused,
        Self::OrphanLeft,
        Self::TwoAct,
        Self::NotLeftAlone,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::NameIsRandom => "a remediation of a label has another name each time",
            Self::FailureRemovesLabel => "a failure is answered as a success",
            Self::LabelNotAnswered => "a label is not answered",
            Self::NoCooldown => "a remediation goes once its label is answered",
            Self::NoLiveRead => "a label is not read again before a remediation is made",
            Self::AbortForgotten => "a remediation that somebody has deleted is forgotten",
            Self::NodeConfused => "a Node that is gone counts as the one of its name",
            Self::OrphanLeft => "the remediation of a trigger that is gone stays",
            Self::TwoAct => "two triggers act on one Node",
            Self::NotLeftAlone => "a label counts although the Node must be left alone",
        }
    }

    fn faults(self) -> u8 {
        match self {
            Self::FailureRemovesLabel | Self::LabelNotAnswered | Self::TwoAct => 0,
            _ => 1,
        }
    }
}
