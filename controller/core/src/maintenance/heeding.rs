//! What health checks do about the host of a maintenance, for people.

use super::{MaintenancePhase, MaintenanceReason, Mark};

/// What health checks do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksDo {
    /// They act as if there were no maintenance.
    Act,
    /// They act until the work begins.
    ActUntilItBegins,
    /// They leave the host alone.
    LeaveAlone,
    /// They leave the host alone although nobody works on it: a mark is not taken back yet.
    LeaveAloneStill,
    /// One may act although somebody works on the host, or it comes back: a mark is missing.
    MayAct,
}

/// What health checks do, by what the status says.
#[must_use]
pub fn checks_do(
    phase: MaintenancePhase,
    reason: Option<&str>,
    marked: bool,
    in_place: &[Mark],
) -> ChecksDo {
    let is_heeded = in_place.iter().any(|mark| mark.is_heeded())
        && reason != Some(MaintenanceReason::AnnotationLeft.label());
    match phase {
        _ if marked => ChecksDo::LeaveAlone,
        MaintenancePhase::Evicting | MaintenancePhase::PoweringOff | MaintenancePhase::Parked => {
            ChecksDo::MayAct
        }
        MaintenancePhase::Ending if in_place.contains(&Mark::Remediation) => ChecksDo::MayAct,
        _ if is_heeded => ChecksDo::LeaveAloneStill,
        MaintenancePhase::Pending => ChecksDo::ActUntilItBegins,
        MaintenancePhase::Ending | MaintenancePhase::Ended | MaintenancePhase::Failed => {
            ChecksDo::Act
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_said_to_act_where_they_do() {
        use MaintenancePhase as P;
        let skip = [Mark::SkipRemediation];
        for (phase, marked, in_place, expected) in [
            (P::Pending, false, &[][..], ChecksDo::ActUntilItBegins),
            (P::Pending, true, &skip, ChecksDo::LeaveAlone),
            (P::Pending, false, &skip, ChecksDo::LeaveAloneStill),
            (P::Parked, true, &skip, ChecksDo::LeaveAlone),
            (P::Parked, false, &skip, ChecksDo::MayAct),
            (P::Ending, false, &[Mark::Remediation], ChecksDo::MayAct),
            (P::Ending, false, &[Mark::Lease], ChecksDo::LeaveAloneStill),
            (P::Ending, false, &[Mark::LocatorLED], ChecksDo::Act),
            (P::Ended, false, &[], ChecksDo::Act),
        ] {
            let seen = checks_do(phase, Some("R"), marked, in_place);
            assert_eq!(seen, expected, "{phase:?} {marked} {in_place:?}");
        }
        let unheeded = checks_do(P::Ending, Some("AnnotationLeft"), false, &skip);
        assert_eq!(unheeded, ChecksDo::Act);
    }
}
