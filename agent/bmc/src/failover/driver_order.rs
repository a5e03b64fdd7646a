//! The order in which drivers are tried, and the combined error when all have failed.
//!
//! Pure. Must never: let a second driver send a non-idempotent command that the first may have sent.

use std::time::Duration;

use crate::{BmcError, ErrorKind, PowerCommand};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallSafety {
    /// A read.
    Read,
    /// A setting, which may be made twice.
    Idempotent,
    /// A power-on or power-off, which the operation may send again.
    Power,
    /// A command that must not be repeated.
    Once,
}

impl CallSafety {
    pub(super) fn of(command: PowerCommand) -> Self {
        if command.is_idempotent() {
            Self::Power
        } else {
            Self::Once
        }
    }
}

/// What follows a failure of one driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The next driver is tried in the same call.
    Next,
    /// The next call begins with the next driver: a command that has reached a BMC is sent again only after a look at
    /// what may have changed meanwhile, such as an update of firmware that has begun.
    NextInAnotherCall,
    /// No other driver is tried.
    Ends,
}

/// For how long the reading before a command that is sent once is new enough for a second driver.
const SOON: Duration = Duration::from_secs(5);

/// Within which time the next command is asked for, however short a driver stays the first choice otherwise.
const NEXT_CALL: Duration = Duration::from_secs(60);

/// What follows this failure, `took` after the call began.
pub(super) fn then(ask: CallSafety, error: &BmcError, took: Duration) -> Then {
    if !may_try_next(ask, error.kind, error.maybe_sent) {
        return Then::Ends;
    }
    match ask {
        CallSafety::Read | CallSafety::Idempotent => Then::Next,
        // Nothing has reached the BMC, so that this is still the first command.
        CallSafety::Power | CallSafety::Once if error.not_sent => Then::Next,
        CallSafety::Power => Then::NextInAnotherCall,
        // The first driver has surely not carried it out, and nobody sends it again.
        CallSafety::Once if took <= SOON => Then::Next,
        CallSafety::Once => Then::Ends,
    }
}

/// Whether another driver may be tried at all after this failure.
///
/// A rejected password is not tried by another driver: it is usually the same account, and each
/// attempt counts towards locking it. A missing system and a wrong configuration must be corrected;
/// a second driver that works would hide them.
fn may_try_next(ask: CallSafety, kind: ErrorKind, maybe_sent: bool) -> bool {
    if ask == CallSafety::Once && maybe_sent {
        return false;
    }
    match kind {
        ErrorKind::Authentication | ErrorKind::System | ErrorKind::Configuration => false,
        ErrorKind::Unreachable
        | ErrorKind::Timeout
        | ErrorKind::Tls
        | ErrorKind::Privilege
        | ErrorKind::Busy
        | ErrorKind::Unsupported
        | ErrorKind::ButtonOnly
        | ErrorKind::Precondition => true,
        // The BMC rejected the command itself, or its response is unknown: a command that must not
        // be repeated ends here.
        ErrorKind::Protocol | ErrorKind::Refused => ask != CallSafety::Once,
    }
}

/// The driver that answered where an earlier one had failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Preference {
    stay: Duration,
    /// Index of the driver, and the time at which the preference ends.
    first: Option<(usize, Duration)>,
}

impl Preference {
    pub(super) fn new(stay: Duration) -> Self {
        Self { stay, first: None }
    }

    /// All drivers, the preferred one first and the others in their order.
    pub(super) fn order(&self, count: usize, now: Duration) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        if let Some((first, until)) = self.first
            && now < until
            && first < count
        {
            order.retain(|index| *index != first);
            order.insert(0, first);
        }
        order
    }

    /// Begins the next calls with the driver after this one.
    pub(super) fn moves_on(&mut self, index: usize, count: usize, now: Duration) {
        let next = (index + 1) % count.max(1);
        let until = now.saturating_add(self.stay.max(NEXT_CALL));
        self.first = (next > 0).then_some((next, until));
    }

    /// Records that a driver answered after others had failed in the same call. A driver is not preferred merely
    /// because it supports a call that the others do not.
    pub(super) fn answered(&mut self, index: usize, before: &[&BmcError], now: Duration) {
        let better = before
            .iter()
            .any(|error| !matches!(error.kind, ErrorKind::Unsupported | ErrorKind::ButtonOnly));
        if better {
            // Further successes do not extend it; otherwise the first would never be tried again.
            self.first = (index > 0).then(|| (index, now.saturating_add(self.stay)));
        }
    }
}

/// Combines the errors of the drivers, in their order.
///
/// A rejected password takes precedence, because retries must stop; then a driver that has the power button,
/// because the button can carry out the command. Otherwise a transient error takes precedence over a permanent
/// one, because a retry makes sense.
pub(super) fn combined_error(bmc: &str, mut errors: Vec<BmcError>) -> BmcError {
    if errors.len() == 1
        && let Some(only) = errors.pop()
    {
        return only;
    }
    let find = |wanted: &dyn Fn(ErrorKind) -> bool| {
        let mut kinds = errors.iter().map(|error| error.kind);
        kinds.find(|kind| wanted(*kind))
    };
    let kind = find(&|kind| kind == ErrorKind::Authentication)
        .or_else(|| find(&|kind| kind == ErrorKind::ButtonOnly))
        .or_else(|| find(&ErrorKind::is_transient))
        .or_else(|| find(&|kind| kind != ErrorKind::Unsupported))
        .unwrap_or(ErrorKind::Unsupported);
    let said: Vec<String> = errors
        .iter()
        .map(|error| format!("{}: {}", error.bmc, error.message))
        .collect();
    let waits: Option<Vec<Duration>> = errors.iter().map(|error| error.retry_after).collect();
    BmcError {
        kind,
        bmc: bmc.to_owned(),
        message: format!("all drivers failed: {}", said.join("; ")),
        // A driver without a retry-after may be tried again at once.
        retry_after: waits.and_then(|waits| waits.into_iter().min()),
        maybe_sent: errors.iter().any(|error| error.maybe_sent),
        not_sent: errors.iter().all(|error| error.not_sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorKind::{
        Authentication, Busy, Configuration, Privilege, Protocol, Refused, System, Timeout, Tls,
        Unreachable, Unsupported,
    };

    fn error(bmc: &str, kind: ErrorKind, wait: Option<u64>) -> BmcError {
        BmcError {
            kind,
            bmc: bmc.into(),
            message: kind.label().into(),
            retry_after: wait.map(Duration::from_secs),
            maybe_sent: false,
            not_sent: false,
        }
    }

    #[test]
    fn failover_depends_on_call_safety_and_error_kind() {
        // kind: read, idempotent, once but not sent. A command that may have been sent once never
        // fails over.
        for (kind, read, idempotent, once) in [
            (Unreachable, true, true, true),
            (Timeout, true, true, true),
            (Tls, true, true, true),
            (Authentication, false, false, false),
            (Privilege, true, true, true),
            (Protocol, true, true, false),
            (System, false, false, false),
            (Busy, true, true, true),
            (Unsupported, true, true, true),
            (Refused, true, true, false),
            (Configuration, false, false, false),
        ] {
            for maybe_sent in [false, true] {
                assert_eq!(
                    may_try_next(CallSafety::Read, kind, maybe_sent),
                    read,
                    "{kind:?}"
                );
                for ask in [CallSafety::Idempotent, CallSafety::Power] {
                    let asked = may_try_next(ask, kind, maybe_sent);
                    assert_eq!(asked, idempotent, "{kind:?}");
                }
                let asked = may_try_next(CallSafety::Once, kind, maybe_sent);
                assert_eq!(asked, once && !maybe_sent, "{kind:?}");
            }
        }
    }

    #[test]
    fn power_command_that_has_reached_a_bmc_is_not_sent_by_another_driver_in_the_same_call() {
        let s = Duration::from_secs;
        for kind in [Timeout, Busy, Privilege, Refused, Protocol, Unsupported] {
            let reached = error("a", kind, None);
            let mut unsent = reached.clone();
            unsent.not_sent = true;
            for (ask, error, took, expected) in [
                (CallSafety::Power, &reached, s(0), Then::NextInAnotherCall),
                (CallSafety::Power, &unsent, s(20), Then::Next),
                (CallSafety::Idempotent, &reached, s(20), Then::Next),
                (CallSafety::Read, &reached, s(20), Then::Next),
            ] {
                assert_eq!(then(ask, error, took), expected, "{kind:?} {ask:?}");
            }
        }
        let busy = error("a", Busy, None);
        assert_eq!(then(CallSafety::Once, &busy, s(5)), Then::Next);
        assert_eq!(then(CallSafety::Once, &busy, s(6)), Then::Ends);
        let unsent = BmcError {
            not_sent: true,
            ..error("a", Unreachable, None)
        };
        assert_eq!(then(CallSafety::Once, &unsent, s(20)), Then::Next);
        let rejected = error("a", Authentication, None);
        assert_eq!(then(CallSafety::Power, &rejected, s(0)), Then::Ends);
    }

    #[test]
    fn next_call_begins_with_the_driver_after_the_one_that_failed() {
        let now = Duration::from_secs(10);
        for stay in [0, 300] {
            let mut preference = Preference::new(Duration::from_secs(stay));
            preference.moves_on(0, 2, now);
            assert_eq!(preference.order(2, now * 2), [1, 0]);
            preference.moves_on(1, 2, now);
            assert_eq!(preference.order(2, now), [0, 1]);
        }
    }

    #[test]
    fn non_idempotent_commands_are_sent_once() {
        for command in PowerCommand::ALL {
            let once = CallSafety::of(command) == CallSafety::Once;
            assert_eq!(once, !command.is_idempotent(), "{command:?}");
        }
    }

    #[test]
    fn last_working_driver_is_tried_first_until_the_preference_expires() {
        let s = Duration::from_secs;
        let mut preference = Preference::new(s(300));
        assert_eq!(preference.order(3, s(0)), [0, 1, 2]);
        let failed = error("a", Timeout, None);
        preference.answered(2, &[&failed], s(10));
        assert_eq!(preference.order(3, s(10)), [2, 0, 1]);
        preference.answered(2, &[], s(200));
        assert_eq!(preference.order(3, s(309)), [2, 0, 1]);
        assert_eq!(
            preference.order(3, s(310)),
            [0, 1, 2],
            "the preference has expired"
        );
        preference.answered(1, &[&failed], s(310));
        preference.answered(0, &[&failed], s(311));
        assert_eq!(preference.order(3, s(312)), [0, 1, 2]);
    }

    #[test]
    fn unsupported_call_does_not_change_the_preferred_driver() {
        let mut preference = Preference::new(Duration::from_secs(300));
        let cannot = error("a", Unsupported, None);
        preference.answered(1, &[&cannot], Duration::ZERO);
        assert_eq!(preference.order(2, Duration::ZERO), [0, 1]);
    }

    #[test]
    fn error_of_a_single_driver_is_returned_unchanged() {
        let only = error("a", Refused, Some(3));
        assert_eq!(combined_error("a", vec![only.clone()]), only);
    }

    #[test]
    fn error_of_several_drivers_lists_each_driver() {
        let said = combined_error(
            "redfish://a",
            vec![
                error("redfish://a", Timeout, Some(4)),
                error("ipmi://a", Privilege, Some(2)),
            ],
        );
        assert_eq!(
            said.to_string(),
            "BMC redfish://a: all drivers failed: redfish://a: timeout; ipmi://a: privilege"
        );
        assert_eq!(said.kind, Timeout, "transient error takes precedence");
        assert_eq!(said.retry_after, Some(Duration::from_secs(2)));
    }

    #[test]
    fn combined_error_has_the_most_useful_kind() {
        for (kinds, expected) in [
            (vec![Timeout, Authentication], Authentication),
            (vec![Unsupported, Unreachable], Unreachable),
            (vec![Privilege, Busy], Busy),
            (vec![Tls, Privilege], Tls),
            (vec![Unsupported, Privilege], Privilege),
            (vec![Unsupported, Unsupported], Unsupported),
        ] {
            let errors = kinds.iter().map(|kind| error("a", *kind, None)).collect();
            let said = combined_error("a", errors);
            assert_eq!(said.kind, expected, "{kinds:?}");
            assert_eq!(said.retry_after, None);
        }
    }
}
