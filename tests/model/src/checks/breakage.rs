//! Breakages of the health-check engine: faults that are put around its cores on purpose.

use super::{Fault, Setting};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the description says it")]
pub enum Breakage {
    LimitOfOwnHandovers,
    ViewNotRead,
    ListsNotAwaited,
    RemediationsNotRead,
    SettlingSkipped,
    OverlapIgnored,
    OrphansKept,
    RecoveredKeepsRemediation,
    AbsentCheckTrusted,
    OtherChecksByView,
    ClosedKeepsCleared,
    ChangeMissed,
}

impl Breakage {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::LimitOfOwnHandovers,
        Self::ViewNotRead,
        Self::ListsNotAwaited,
        Self::RemediationsNotRead,
        Self::SettlingSkipped,
        Self::OverlapIgnored,
        Self::OrphansKept,
        Self::RecoveredKeepsRemediation,
        Self::AbsentCheckTrusted,
        Self::OtherChecksByView,
        Self::ClosedKeepsCleared,
        Self::ChangeMissed,
    ];

    /// What is done wrong.
    pub fn description(self) -> &'static str {
        match self {
            Self::LimitOfOwnHandovers => "the limit counts what this process handed over",
            Self::ViewNotRead => "a machine is handed over without a live read",
            Self::ListsNotAwaited => "a view that is behind its live read is acted on",
            Self::RemediationsNotRead => "a new leader forgets the remediations of the former one",
            Self::SettlingSkipped => "the rest of a burst is not waited for",
            Self::OverlapIgnored => "two checks that overlap act both",
            Self::OrphansKept => "the remediations of a deleted check are kept",
            Self::RecoveredKeepsRemediation => "a recovered machine keeps its remediation",
            Self::AbsentCheckTrusted => "a check that the view lacks counts as deleted",
            Self::OtherChecksByView => "another check that the view lacks covers nothing",
            Self::ClosedKeepsCleared => "a live read from before the limit closed counts",
            Self::ChangeMissed => "a change during a live read is not applied to the fleet",
        }
    }

    /// The smallest world in which it can be found.
    pub fn setting(self) -> Setting {
        let setting = match self {
            Self::LimitOfOwnHandovers
            | Self::SettlingSkipped
            | Self::RecoveredKeepsRemediation
            | Self::ChangeMissed
            | Self::ViewNotRead => Setting::checks(0),
            Self::ListsNotAwaited | Self::RemediationsNotRead => Setting {
                faults: vec![Fault::TakeoverBehind],
                ..Setting::checks(1)
            },
            Self::OverlapIgnored => Setting::overlap(0),
            Self::OrphansKept => Setting {
                faults: vec![Fault::CheckDeleted(0)],
                ..Setting::checks(1)
            },
            Self::AbsentCheckTrusted => Setting {
                checks: Vec::new(),
                faults: vec![Fault::CheckCreated, Fault::TakeoverBehind],
                ..Setting::covered(2)
            },
            Self::OtherChecksByView => Setting {
                faults: vec![Fault::CheckCreated, Fault::CheckDeleted(0)],
                ..Setting::covered(2)
            },
            Self::ClosedKeepsCleared => Setting {
                faults: vec![Fault::TakeoverBehind, Fault::NodeDeleted],
                ..Setting::checks(3)
            },
        };
        Setting {
            breakage: Some(self),
            ..setting
        }
    }
}
