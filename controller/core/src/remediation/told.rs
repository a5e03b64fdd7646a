//! Which of what a remediation reports becomes a Kubernetes Event, a copy of its state in its object, or an entry in the
//! history of its host.
//!
//! Each is a call of the API server, and hundreds of hosts may fail at once. People act on warnings, and look for what
//! was done to a host and its Node, and for how it ended. What they wait for is in the status; each step is in the log,
//! the metrics and the history as well.

use std::time::Duration;

use jiff::Timestamp;

use super::{Note, OffEvidence, Reason, State, Step};

/// Longest time for which a single remediation waits in a step that the copy in its object does not show.
const COPY_DELAY: Duration = Duration::from_secs(10);
/// By how much each further remediation prolongs it. With many hosts at once the API server is what a step waits for, and
/// the copies would be a part of that.
const COPY_DELAY_FOR_EACH: Duration = Duration::from_millis(40);
/// Longest time for any number of remediations.
const LONGEST_COPY_DELAY: Duration = Duration::from_secs(60);
/// Longest time for which a remediation that has begun nothing does not show its reason because others are created or
/// deleted.
const REASON_DELAY: Duration = Duration::from_secs(10);

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

/// Whether a state is recorded without its copy in the object, which follows with a later one, or as
/// [`copy_is_due_at`] says. A remediation usually passes such a step within a moment; what it rests on is neither the
/// object nor a person's word, so that nothing is lost if the object has changed meanwhile. The evidence of off is in
/// the object before the taint is set. `before`: what is recorded; `reason`: that of the decision; `goes_with_finalizer`:
/// the copy of the end is written with the removal of our finalizer, which is next.
#[must_use]
pub fn is_passed_at_once(
    before: Option<&State>,
    after: &State,
    reason: &Reason,
    goes_with_finalizer: bool,
) -> bool {
    let Some(before) = before.filter(|_| !reason.is_blocked()) else {
        return false;
    };
    // That the remediation is withdrawn, for example, is in the object.
    let is_as_begun = before.attempt.end_reason == after.attempt.end_reason;
    let is_off_by_reading = matches!(
        after.attempt.off,
        Some(OffEvidence::Bmc { .. } | OffEvidence::Outlets { .. })
    );
    match (before.step, after.step) {
        (Step::PoweringOff, Step::ConfirmingOff) => is_off_by_reading,
        (Step::Tainting, Step::Draining)
        | (Step::Draining, Step::PoweringOn)
        | (Step::PoweringOn, Step::Booting | Step::Restoring) => is_off_by_reading && is_as_begun,
        (Step::Booting | Step::Restoring, Step::Succeeded) => goes_with_finalizer,
        _ => false,
    }
}

/// When the copy of a state that was recorded without it is written, if the remediation still waits in its step then
/// for nobody; `None`: now. `waits_since`: the time of the first wait since the record; `begun`: how many
/// remediations have begun and not ended.
#[must_use]
pub fn copy_is_due_at(
    state: &State,
    reason: &Reason,
    begun: usize,
    waits_since: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    if reason.is_blocked() || state.step.is_terminal() {
        return None;
    }
    let due = waits_since.checked_add(copy_delay(begun)).ok()?;
    // A time ahead is from before the clock was set back.
    (waits_since <= now && now < due).then_some(due)
}

/// When the reason of a remediation that nothing is recorded of is written, while remediations are being created or
/// deleted; `None`: now. In a storm these reasons are as many as the creations, and of a recovered host nobody needs one.
/// `waits_since`: the time of the first wait with a reason that is not written.
#[must_use]
pub fn reason_is_due_at(
    state: Option<&State>,
    waits_since: Timestamp,
    now: Timestamp,
) -> Option<Timestamp> {
    let due = waits_since.checked_add(REASON_DELAY).ok()?;
    // A time ahead is from before the clock was set back.
    (state.is_none() && waits_since <= now && now < due).then_some(due)
}

fn copy_delay(begun: usize) -> Duration {
    let others = u32::try_from(begun.saturating_sub(1)).unwrap_or(u32::MAX);
    let longer = COPY_DELAY_FOR_EACH.saturating_mul(others);
    COPY_DELAY.saturating_add(longer).min(LONGEST_COPY_DELAY)
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
    use super::*;
    use crate::remediation::{CommandTaken, OffProof};

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

    fn taken() -> CommandTaken {
        CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
            updates_unknown: None,
        }
    }

    fn mk_off(step: Step) -> State {
        let mut state = State::new(Timestamp::UNIX_EPOCH);
        state.step = step;
        state.attempt.off = Some(OffEvidence::Bmc {
            at: Timestamp::UNIX_EPOCH,
            readings: Vec::new(),
            taken: taken(),
        });
        state
    }

    #[test]
    fn f8_copy_goes_with_what_rests_on_a_person_and_with_what_is_waited_for() {
        let before = mk_off(Step::PoweringOff);
        let mut after = mk_off(Step::ConfirmingOff);
        let passed = |before: &State, after: &State, reason| {
            is_passed_at_once(Some(before), after, &reason, false)
        };
        assert!(passed(&before, &after, Reason::WaitingForQuietLease));
        let away = Reason::AgentUnreachable("a".into());
        assert!(!passed(&before, &after, away));
        let tainting = mk_off(Step::Tainting);
        assert!(!passed(&after, &tainting, Reason::Tainting));
        // The remediation waits there, and its reason is reported.
        assert!(!passed(&after, &after, Reason::WaitingForQuietLease));
        after.attempt.off = Some(OffEvidence::Person {
            at: Timestamp::UNIX_EPOCH,
        });
        assert!(!passed(&before, &after, Reason::WaitingForQuietLease));
        assert!(!is_passed_at_once(None, &tainting, &Reason::Tainting, true));
    }

    #[test]
    fn f11_steps_by_readings_pass_without_a_copy_unless_the_object_decides() {
        let steps = [
            (Step::Tainting, Step::Draining),
            (Step::Draining, Step::PoweringOn),
            (Step::PoweringOn, Step::Booting),
        ];
        for (from, to) in steps {
            let (before, mut after) = (mk_off(from), mk_off(to));
            let passed =
                |after: &State| is_passed_at_once(Some(&before), after, &Reason::Working, false);
            assert!(passed(&after), "{to:?}");
            after.attempt.end_reason = Some(Reason::WithdrawnAfterOff);
            assert!(!passed(&after), "withdrawn: {to:?}");
            after = mk_off(to);
            after.attempt.off = Some(OffEvidence::Person {
                at: Timestamp::UNIX_EPOCH,
            });
            assert!(!passed(&after), "by a person: {to:?}");
        }
        let (booting, end) = (mk_off(Step::Booting), mk_off(Step::Succeeded));
        for with_finalizer in [false, true] {
            let passed =
                is_passed_at_once(Some(&booting), &end, &Reason::Recovered, with_finalizer);
            assert_eq!(passed, with_finalizer);
        }
        // Where the host is kept off, people wait for it.
        let fenced = mk_off(Step::Fenced);
        let draining = mk_off(Step::Draining);
        assert!(!is_passed_at_once(
            Some(&draining),
            &fenced,
            &Reason::Fenced,
            true
        ));
    }

    #[test]
    fn l1_copy_follows_after_a_moment_and_at_once_where_somebody_has_to_act() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let draining = mk_off(Step::Draining);
        let due = |reason: &Reason, now| copy_is_due_at(&draining, reason, 1, at(10), at(now));
        let pods = Reason::Draining("pods".into());
        assert_eq!(due(&pods, 10), Some(at(20)));
        assert_eq!(due(&pods, 19), Some(at(20)));
        assert_eq!(due(&pods, 20), None);
        // The clock was set back.
        assert_eq!(due(&pods, 9), None);
        let blocked = Reason::DrainBlocked("pods".into());
        assert_eq!(due(&blocked, 10), None);
        let end = mk_off(Step::Succeeded);
        assert_eq!(
            copy_is_due_at(&end, &Reason::Recovered, 1, at(10), at(10)),
            None
        );
    }

    #[test]
    fn l1_reason_of_a_remediation_that_has_begun_nothing_waits_for_creations_but_not_for_long() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(reason_is_due_at(None, at(10), at(10)), Some(at(20)));
        assert_eq!(reason_is_due_at(None, at(10), at(20)), None);
        // The clock was set back.
        assert_eq!(reason_is_due_at(None, at(10), at(9)), None);
        let holding = mk_off(Step::Holding);
        assert_eq!(reason_is_due_at(Some(&holding), at(10), at(10)), None);
    }

    #[test]
    fn l1_copies_of_many_remediations_follow_later_and_within_a_minute() {
        for (begun, seconds) in [
            (0, 10),
            (1, 10),
            (26, 11),
            (1001, 50),
            (1251, 60),
            (usize::MAX, 60),
        ] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(copy_delay(begun), expected, "{begun}");
        }
    }
}
