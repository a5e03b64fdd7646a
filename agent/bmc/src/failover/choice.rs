//! Whom to ask first, whom next, and what to say when nobody could do it.
//!
//! Owns: these three rules, as pure functions and plain data. Must never: let a command that is
//! not idempotent go out by a second driver while the first may have sent it.

use std::time::Duration;

use crate::{BmcError, ErrorKind, PowerCommand};

/// What a call asks of a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// To tell something.
    Read,
    /// To do something that may be done twice.
    Idempotent,
    /// To do something that must not be done twice.
    Once,
}

impl Ask {
    pub(super) fn of(command: PowerCommand) -> Self {
        if command.is_idempotent() {
            Self::Idempotent
        } else {
            Self::Once
        }
    }
}

/// Whether the next driver may be asked after one that failed like this.
///
/// A refused password is not tried by another driver: it is mostly the same account, and each try
/// counts towards locking it. A missing system and a wrong configuration are for people to mend;
/// a driver that happens to work would hide them until it is needed most.
pub(super) fn may_ask_next(ask: Ask, kind: ErrorKind, maybe_sent: bool) -> bool {
    if ask == Ask::Once && maybe_sent {
        return false;
    }
    match kind {
        ErrorKind::Authentication | ErrorKind::System | ErrorKind::Configuration => false,
        ErrorKind::Unreachable
        | ErrorKind::Timeout
        | ErrorKind::Tls
        | ErrorKind::Privilege
        | ErrorKind::Busy
        | ErrorKind::Unsupported => true,
        // The BMC said no to the thing itself, or nobody knows what it said: for a thing that must
        // not be done twice that is an end.
        ErrorKind::Protocol | ErrorKind::Refused => ask != Ask::Once,
    }
}

/// Which driver has proven itself where an earlier one failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Preference {
    stay: Duration,
    /// The driver, and until when.
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

    /// A driver has answered, after others had failed in the same call. One that only could do
    /// what the others cannot is not better for that.
    pub(super) fn answered(&mut self, index: usize, before: &[&BmcError], now: Duration) {
        let better = before
            .iter()
            .any(|error| error.kind != ErrorKind::Unsupported);
        if better {
            // Not made longer by further successes, or the first would never be tried again.
            self.first = (index > 0).then(|| (index, now.saturating_add(self.stay)));
        }
    }
}

/// What the drivers said, in one error; the errors are in the order of the drivers.
///
/// A refused password wins, because who hears of it must stop trying. Else what may pass by
/// itself wins over what will not: then trying again makes sense.
pub(super) fn one_error(bmc: &str, mut errors: Vec<BmcError>) -> BmcError {
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
        message: format!("by no driver: {}", said.join("; ")),
        // Where one of them asks for no patience, it may be asked again at once.
        retry_after: waits.and_then(|waits| waits.into_iter().min()),
        maybe_sent: errors.iter().any(|error| error.maybe_sent),
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
        }
    }

    #[test]
    fn the_table_of_falling_back() {
        // kind: read, idempotent, once but not sent; once and maybe sent is never.
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
                assert_eq!(may_ask_next(Ask::Read, kind, maybe_sent), read, "{kind:?}");
                let asked = may_ask_next(Ask::Idempotent, kind, maybe_sent);
                assert_eq!(asked, idempotent, "{kind:?}");
                let asked = may_ask_next(Ask::Once, kind, maybe_sent);
                assert_eq!(asked, once && !maybe_sent, "{kind:?}");
            }
        }
    }

    #[test]
    fn commands_are_what_they_say_of_themselves() {
        for command in PowerCommand::ALL {
            let once = Ask::of(command) == Ask::Once;
            assert_eq!(once, !command.is_idempotent(), "{command:?}");
        }
    }

    #[test]
    fn who_worked_last_is_asked_first_for_a_while() {
        let s = Duration::from_secs;
        let mut preference = Preference::new(s(300));
        assert_eq!(preference.order(3, s(0)), [0, 1, 2]);
        let failed = error("a", Timeout, None);
        preference.answered(2, &[&failed], s(10));
        assert_eq!(preference.order(3, s(10)), [2, 0, 1]);
        preference.answered(2, &[], s(200));
        assert_eq!(preference.order(3, s(309)), [2, 0, 1]);
        assert_eq!(preference.order(3, s(310)), [0, 1, 2], "and no longer");
        preference.answered(1, &[&failed], s(310));
        preference.answered(0, &[&failed], s(311));
        assert_eq!(preference.order(3, s(312)), [0, 1, 2]);
    }

    #[test]
    fn who_only_can_do_more_is_not_preferred() {
        let mut preference = Preference::new(Duration::from_secs(300));
        let cannot = error("a", Unsupported, None);
        preference.answered(1, &[&cannot], Duration::ZERO);
        assert_eq!(preference.order(2, Duration::ZERO), [0, 1]);
    }

    #[test]
    fn one_driver_speaks_for_itself() {
        let only = error("a", Refused, Some(3));
        assert_eq!(one_error("a", vec![only.clone()]), only);
    }

    #[test]
    fn several_are_all_named_in_one_message() {
        let said = one_error(
            "redfish://a",
            vec![
                error("redfish://a", Timeout, Some(4)),
                error("ipmi://a", Privilege, Some(2)),
            ],
        );
        assert_eq!(
            said.to_string(),
            "BMC redfish://a: by no driver: redfish://a: timeout; ipmi://a: privilege"
        );
        assert_eq!(said.kind, Timeout, "it may pass");
        assert_eq!(said.retry_after, Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_kind_tells_what_to_do_next() {
        for (kinds, expected) in [
            (vec![Timeout, Authentication], Authentication),
            (vec![Unsupported, Unreachable], Unreachable),
            (vec![Privilege, Busy], Busy),
            (vec![Tls, Privilege], Tls),
            (vec![Unsupported, Privilege], Privilege),
            (vec![Unsupported, Unsupported], Unsupported),
        ] {
            let errors = kinds.iter().map(|kind| error("a", *kind, None)).collect();
            let said = one_error("a", errors);
            assert_eq!(said.kind, expected, "{kinds:?}");
            assert_eq!(said.retry_after, None);
        }
    }
}
