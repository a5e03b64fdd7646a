//! The next step of an uninstallation, as a pure function of what is installed.
//!
//! Invariant: nothing that a remediation needs is removed while a remediation is left, nor while a controller
//! leads, which would create it again.

use std::fmt::{self, Display, Formatter};

/// A remediation that Rackhand works on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FoundRemediation {
    /// Kind, namespace and name.
    pub(super) what: String,
    /// Whether it is being deleted.
    pub(super) is_withdrawn: bool,
    pub(super) step: String,
    pub(super) message: String,
}

/// The installed objects that decide the next step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Installation {
    /// Holders of the Leases of Rackhand that have not expired.
    pub(super) leaders: Vec<String>,
    pub(super) remediations: Vec<FoundRemediation>,
    /// Health checks that are not paused.
    pub(super) active_checks: Vec<String>,
}

/// The next step of an uninstallation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Pause these health checks, so that they create no remediations.
    Pause(Vec<String>),
    /// Withdraw these remediations: a host that was not switched off is released, a host that was is switched on.
    Withdraw(Vec<String>),
    /// Wait for these withdrawn remediations to end.
    Wait(Vec<FoundRemediation>),
    /// Only a controller can end these remediations, and none leads.
    NoController(Vec<FoundRemediation>),
    /// The operator has to remove the programs, which this command does not do.
    RemovePrograms(Vec<String>),
    /// Remove what the programs leave behind.
    RemoveRest,
}

/// Decides the next step.
pub(super) fn next_step(found: &Installation) -> NextStep {
    let leads = !found.leaders.is_empty();
    if !found.remediations.is_empty() && !leads {
        return NextStep::NoController(found.remediations.clone());
    }
    if leads && !found.active_checks.is_empty() {
        return NextStep::Pause(found.active_checks.clone());
    }
    let kept = found.remediations.iter().filter(|r| !r.is_withdrawn);
    let kept: Vec<String> = kept.map(|r| r.what.clone()).collect();
    if !kept.is_empty() {
        return NextStep::Withdraw(kept);
    }
    if !found.remediations.is_empty() {
        return NextStep::Wait(found.remediations.clone());
    }
    if leads {
        return NextStep::RemovePrograms(found.leaders.clone());
    }
    NextStep::RemoveRest
}

// === impl FoundRemediation ===

impl Display for FoundRemediation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let step = match self.step.as_str() {
            "" => "not begun",
            step => step,
        };
        write!(f, "{} ({step}): {}", self.what, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remediation(what: &str, is_withdrawn: bool) -> FoundRemediation {
        FoundRemediation {
            what: what.into(),
            is_withdrawn,
            step: "Draining".into(),
            message: "1 pod".into(),
        }
    }

    #[test]
    fn checks_are_paused_before_remediations_are_withdrawn_and_the_programs_removed_last() {
        let mut found = Installation {
            leaders: vec!["c-0".into()],
            remediations: vec![remediation("a", false), remediation("b", true)],
            active_checks: vec!["check".into()],
        };
        assert_eq!(next_step(&found), NextStep::Pause(vec!["check".into()]));
        found.active_checks.clear();
        assert_eq!(next_step(&found), NextStep::Withdraw(vec!["a".into()]));
        found.remediations[0].is_withdrawn = true;
        assert_eq!(
            next_step(&found),
            NextStep::Wait(found.remediations.clone())
        );
        found.remediations.clear();
        assert_eq!(
            next_step(&found),
            NextStep::RemovePrograms(vec!["c-0".into()])
        );
        found.leaders.clear();
        assert_eq!(next_step(&found), NextStep::RemoveRest);
    }

    #[test]
    fn f9_nothing_is_removed_while_a_remediation_is_left() {
        for is_withdrawn in [false, true] {
            for active_checks in [vec![], vec!["check".to_owned()]] {
                let found = Installation {
                    leaders: Vec::new(),
                    remediations: vec![remediation("a", is_withdrawn)],
                    active_checks,
                };
                let NextStep::NoController(left) = next_step(&found) else {
                    panic!("{:?}", next_step(&found));
                };
                assert_eq!(left[0].to_string(), "a (Draining): 1 pod");
            }
        }
    }

    #[test]
    fn without_a_controller_active_checks_make_nothing() {
        let found = Installation {
            active_checks: vec!["check".into()],
            ..Installation::default()
        };
        assert_eq!(next_step(&found), NextStep::RemoveRest);
    }
}
