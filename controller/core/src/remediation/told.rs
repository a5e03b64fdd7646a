//! Which of what a remediation reports becomes a Kubernetes Event.
//!
//! Each Event is a call of the API server, and hundreds of hosts may fail at once. People act on warnings, and look for
//! what was done to a host and its Node; each step is in the status, the history and the log as well.

/// Whether this is an Event. `reason`: its reason, in CamelCase. Whatever is not known to stand elsewhere is one.
#[must_use]
pub fn is_event(warning: bool, reason: &str) -> bool {
    let is_only_progress = matches!(
        reason,
        // Steps that nobody acts on and that change nothing by themselves.
        "Pending" | "PoweringOff" | "Tainting" | "Draining" | "PoweringOn" | "Restoring"
            // The confirmed off and on follow, the outcome follows.
            | "CommandSent" | "Untainted"
    );
    warning || !is_only_progress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_and_warnings_are_events_and_mere_steps_are_not() {
        let effects = ["Holding", "ConfirmingOff", "Tainted", "Drained", "Booting"];
        let ends = [
            "Succeeded",
            "Fenced",
            "Escalated",
            "Aborting",
            "PodsDeleted",
        ];
        for reason in effects.into_iter().chain(ends) {
            assert!(is_event(false, reason), "{reason}");
        }
        for reason in ["Pending", "Draining", "Restoring", "CommandSent"] {
            assert!(!is_event(false, reason), "{reason}");
            assert!(is_event(true, reason), "somebody acts on {reason}");
        }
        assert!(is_event(false, "OfALaterVersion"));
    }
}
