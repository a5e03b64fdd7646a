//! Which of what a remediation reports becomes a Kubernetes Event, a copy of its state in its object, or an entry in the
//! history of its host.
//!
//! Each is a call of the API server, and hundreds of hosts may fail at once. People act on warnings, and look for what
//! was done to a host and its Node, and for how it ended. What they wait for is in the status; each step is in the log,
//! the metrics and the history as well.

use super::{Note, OffEvidence, Reason, State, Step};

/// Whether this is an Event. What only tells of a step that nobody acts on is none.
#[must_use]
pub fn is_event(note: &Note) -> bool {
    note.warning || note.step.is_none_or(is_announced)
}

/// Whether a step has an Event of its own, when it begins.
const fn is_announced(step: Step) -> bool {
    match step {
        // The host is about to be switched off. That its Node was tainted, for which it was confirmed off, is reported
        // by what sets the taint.
        Step::Evicting | Step::Holding => true,
        Step::Pending
        | Step::ShuttingDown
        | Step::PoweringOff
        | Step::ConfirmingOff
        | Step::Tainting
        | Step::Draining
        | Step::PoweringOn
        | Step::Booting
        | Step::Restoring => false,
        Step::Retrying
        | Step::AwaitingConfirmation
        | Step::Aborting
        | Step::Evicted
        | Step::Fenced
        | Step::Succeeded
        | Step::Escalated
        | Step::Blocked => true,
    }
}

/// Whether a state is recorded without its copy in the object, which follows with the next one, or as soon as the
/// remediation waits. The remediation passes this step at once unless something holds it; what it rests on is neither
/// the object nor a person's word, so that nothing is lost if the object has changed meanwhile. The evidence is in the
/// object before the taint is set. `before`: what is recorded; `reason`: that of the decision.
#[must_use]
pub fn is_passed_at_once(before: Option<&State>, after: &State, reason: &Reason) -> bool {
    if reason.is_blocked() {
        return false;
    }
    let from = before.map(|s| s.step);
    let by_reading = matches!(
        after.attempt.off,
        Some(OffEvidence::Bmc { .. } | OffEvidence::Outlets { .. })
    );
    (from, after.step) == (Some(Step::PoweringOff), Step::ConfirmingOff) && by_reading
}

/// Whether the history of the host is written in a step; the end is always written. Another leader continues it, and
/// limits of attempts count power-offs by it, also of a remediation whose end nobody sees: so it is written once the
/// host is off, and where the remediation may stay for long.
#[must_use]
pub const fn is_kept(step: Step) -> bool {
    matches!(
        step,
        Step::AwaitingConfirmation
            | Step::ConfirmingOff
            | Step::Draining
            | Step::Evicted
            | Step::Fenced
            | Step::Retrying
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn told(warning: bool, step: Option<Step>) -> bool {
        is_event(&Note {
            warning,
            reason: "R",
            step,
            message: String::new(),
        })
    }

    #[test]
    fn effects_ends_and_warnings_are_events_and_mere_steps_are_not() {
        for step in [
            Step::Holding,
            Step::Succeeded,
            Step::Fenced,
            Step::Escalated,
            Step::Aborting,
        ] {
            assert!(told(false, Some(step)), "{step:?}");
        }
        for step in [Step::Pending, Step::Draining, Step::Booting] {
            assert!(!told(false, Some(step)), "{step:?}");
            assert!(told(true, Some(step)), "somebody acts on {step:?}");
        }
        assert!(told(false, None), "what is no step");
    }

    #[test]
    fn f8_copy_goes_with_what_rests_on_a_person_and_with_what_is_waited_for() {
        let mut before = State::new(Timestamp::UNIX_EPOCH);
        before.step = Step::PoweringOff;
        let mut after = before.clone();
        after.step = Step::ConfirmingOff;
        let at = Timestamp::UNIX_EPOCH;
        after.attempt.off = Some(OffEvidence::Bmc {
            at,
            readings: Vec::new(),
            taken: None,
        });
        let passed =
            |before: &State, after: &State, reason| is_passed_at_once(Some(before), after, &reason);
        assert!(passed(&before, &after, Reason::WaitingForQuietLease));
        let away = Reason::AgentUnreachable("a".into());
        assert!(!passed(&before, &after, away));
        let mut tainting = after.clone();
        tainting.step = Step::Tainting;
        assert!(!passed(&after, &tainting, Reason::Tainting));
        // The remediation waits there, and its reason is reported.
        assert!(!passed(&after, &after, Reason::WaitingForQuietLease));
        let mut draining = after.clone();
        draining.step = Step::Draining;
        assert!(!passed(&tainting, &draining, Reason::Tainting));
        after.attempt.off = Some(OffEvidence::Person { at });
        assert!(!passed(&before, &after, Reason::WaitingForQuietLease));
        assert!(!is_passed_at_once(None, &tainting, &Reason::Tainting));
    }
}
