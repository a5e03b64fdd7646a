//! Deliberate faults of planned work, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// The annotation on the Machine is not removed.
    MarkLeft,
    /// The Lease is not released.
    LeaseLeft,
    /// The locator LED is not put out, and does not go out by itself.
    LedLeft,
    /// It ends while its remediation is still there.
    EndedWithoutPowerOn,
    /// The annotation of somebody else is taken for its own.
    ForeignMarkTaken,
    /// That it had begun is not recorded, so that it begins again after its end.
    BeginsAgain,
    /// The checks are told while it only waits.
    MarkedTooEarly,
    /// Its remediation begins although a mark is missing.
    BegunUnmarked,
    /// What a maintenance has left that is gone is not looked for.
    OrphanIgnored,
    /// Maintenances are of one host only if they name it in the same way.
    OrderByName,
    /// One that has begun is overtaken by one that was created before.
    BegunOvertaken,
    /// The mark of another maintenance is taken for one that stays.
    MarkOfAnotherUsed,
    /// That a mark could not be taken back is not remembered.
    FailureForgotten,
    /// What health checks do is told without the marks that are left.
    MarksUnsaid,
    /// The cordon of a remediation that is gone is not looked at.
    CordonIgnored,
    /// While the Nodes of the controller's own cluster are not read, no Lease counts.
    UnreadUnused,
    /// What is not recorded yet is set as if it were only renewed.
    SetUnrecorded,
    /// That a remediation waits again which had begun is not seen.
    AgainUnseen,
    /// The Machine alone owns the remediation.
    OwnedByMachine,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::MarkLeft,
        Self::LeaseLeft,
        Self::LedLeft,
        Self::EndedWithoutPowerOn,
        Self::ForeignMarkTaken,
        Self::BeginsAgain,
        Self::MarkedTooEarly,
        Self::BegunUnmarked,
        Self::OrphanIgnored,
        Self::OrderByName,
        Self::BegunOvertaken,
        Self::MarkOfAnotherUsed,
        Self::FailureForgotten,
        Self::MarksUnsaid,
        Self::CordonIgnored,
        Self::UnreadUnused,
        Self::SetUnrecorded,
        Self::AgainUnseen,
        Self::OwnedByMachine,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::MarkLeft => "the annotation on the Machine is left",
            Self::LeaseLeft => "the Lease of the Node is left",
            Self::LedLeft => "the locator LED stays lit",
            Self::EndedWithoutPowerOn => "a maintenance ends without a power-on",
            Self::ForeignMarkTaken => "the annotation of somebody else is removed",
            Self::BeginsAgain => "a maintenance begins again after its end",
            Self::MarkedTooEarly => "checks leave a host alone whose maintenance only waits",
            Self::BegunUnmarked => "a maintenance begins before its marks are set",
            Self::OrphanIgnored => "a maintenance that is gone is forgotten",
            Self::OrderByName => "two maintenances that name one host differently both begin",
            Self::BegunOvertaken => "a maintenance that has begun is overtaken by an older one",
            Self::MarkOfAnotherUsed => "a maintenance relies on the mark of another one",
            Self::FailureForgotten => "a mark cannot be taken back, and nothing says so",
            Self::MarksUnsaid => "checks are said to act as ever while a mark is left",
            Self::CordonIgnored => "a maintenance is over while its cordon stands",
            Self::UnreadUnused => "a maintenance begins without a Lease while no Node is read",
            Self::SetUnrecorded => "a mark is set before the status lists it",
            Self::AgainUnseen => "checks leave a host alone whose maintenance waits again",
            Self::OwnedByMachine => "a host is switched on because its Machine is deleted",
        }
    }

    fn faults(self) -> u8 {
        1
    }
}
