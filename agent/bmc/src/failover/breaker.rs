//! The circuit breaker of one driver, which pauses calls to a BMC that does not answer.
//!
//! Plain data; `now` is the time since the driver was created. Must never: pause calls to a BMC that
//! has answered, pause for longer than the longest pause, or let two calls probe at once.

use std::time::Duration;

use crate::{BmcError, ErrorKind};

/// Limits and pauses of the circuit breaker of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Number of consecutive calls without an answer that open the breaker.
    pub failures: u32,
    /// The first pause; each further one is twice as long.
    pub first: Duration,
    /// A call that its caller drops after this long counts as unanswered. Otherwise a BMC that
    /// accepts connections and never responds would never open the breaker.
    pub patience: Duration,
    /// The longest pause, and so the longest delay of a fencing operation at a BMC that is back.
    pub longest: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 3,
            first: Duration::from_secs(1),
            patience: Duration::from_secs(5),
            longest: Duration::from_secs(15),
        }
    }
}

/// Reachability of the BMC, as a call has shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallVerdict {
    /// The BMC answered, successfully or not.
    Answered,
    /// The BMC did not answer.
    Unanswered(BmcError),
    /// Nothing: the call was not sent, or was dropped early.
    Nothing,
}

impl CallVerdict {
    /// A certificate that is not trusted is an answer; a call that is unsupported or misconfigured
    /// was not sent.
    pub(super) fn of(error: &BmcError) -> Self {
        match error.kind {
            ErrorKind::Unreachable | ErrorKind::Timeout => Self::Unanswered(error.clone()),
            ErrorKind::Unsupported | ErrorKind::Configuration => Self::Nothing,
            // The BMC answered: the driver read the reset types first.
            ErrorKind::ButtonOnly
            | ErrorKind::Tls
            | ErrorKind::Authentication
            | ErrorKind::Privilege
            | ErrorKind::Protocol
            | ErrorKind::System
            | ErrorKind::Busy
            | ErrorKind::Precondition
            | ErrorKind::Refused => Self::Answered,
        }
    }

    /// The verdict on a call that was dropped after this time.
    pub(super) fn timed_out(settings: BreakerSettings, bmc: &str, after: Duration) -> Self {
        if after < settings.patience {
            return Self::Nothing;
        }
        Self::Unanswered(BmcError {
            kind: ErrorKind::Timeout,
            bmc: bmc.to_owned(),
            // Without the elapsed time, so that the message does not change.
            message: format!("no response within {:?}", settings.patience),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })
    }
}

/// The breaker of one driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    /// Unanswered calls since the last answer.
    failures: u32,
    /// Set while the breaker is open: number of pauses, end of this one, whether a probe is in
    /// flight, and the last error.
    open: Option<Open>,
    jitter: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    pauses: u32,
    until: Duration,
    probing: bool,
    last: BmcError,
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings, seed: u64) -> Self {
        Self {
            settings,
            failures: 0,
            open: None,
            jitter: seed,
        }
    }

    /// Requests permission for a call; every `Ok` is followed by one [`Breaker::record`]. The error is
    /// the last error unchanged, with the time to wait.
    pub(super) fn admit(&mut self, now: Duration) -> Result<(), BmcError> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if now >= open.until && !open.probing {
            open.probing = true;
            return Ok(());
        }
        let pause = if open.probing {
            self.settings.first.min(self.settings.longest)
        } else {
            open.until.saturating_sub(now)
        };
        Err(BmcError {
            retry_after: Some(pause),
            // This call sent nothing.
            maybe_sent: false,
            not_sent: true,
            ..open.last.clone()
        })
    }

    /// Records the result of a permitted call.
    pub(super) fn record(&mut self, now: Duration, outcome: CallVerdict) {
        match outcome {
            CallVerdict::Answered => {
                self.failures = 0;
                self.open = None;
            }
            CallVerdict::Nothing => {
                if let Some(open) = &mut self.open {
                    open.probing = false;
                }
            }
            CallVerdict::Unanswered(error) => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= self.settings.failures {
                    let pauses = self.open.as_ref().map_or(0, |open| open.pauses);
                    self.open = Some(Open {
                        pauses: pauses.saturating_add(1),
                        until: now.saturating_add(self.next_pause(pauses)),
                        probing: false,
                        last: error,
                    });
                }
            }
        }
    }

    /// Twice the previous pause, less a jitter of up to a quarter, so that drivers that lost their
    /// BMCs together do not probe together.
    fn next_pause(&mut self, pauses: u32) -> Duration {
        let factor = 2_u32.saturating_pow(pauses.min(16));
        let whole = self.settings.first.saturating_mul(factor);
        let whole = whole.min(self.settings.longest);
        self.jitter = mix(self.jitter);
        let less = u32::try_from(self.jitter % 256).unwrap_or(0);
        whole.saturating_sub((whole / 1024).saturating_mul(less))
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn error(kind: ErrorKind, message: &str) -> BmcError {
        BmcError {
            kind,
            bmc: "b".into(),
            message: message.into(),
            retry_after: None,
            maybe_sent: true,
            not_sent: false,
        }
    }

    fn unreachable() -> CallVerdict {
        CallVerdict::of(&error(ErrorKind::Timeout, "no answer"))
    }

    #[test]
    fn breaker_opens_after_failures_and_repeats_the_last_error() {
        let mut breaker = Breaker::new(BreakerSettings::default(), 7);
        for _ in 0..3 {
            assert_eq!(breaker.admit(s(0)), Ok(()));
            breaker.record(s(0), unreachable());
        }
        let first = breaker.admit(s(0)).unwrap_err();
        let later = breaker.admit(Duration::from_millis(500)).unwrap_err();
        assert_eq!(first.message, "no answer");
        assert_eq!(first.message, later.message, "the message is constant");
        assert!(!first.maybe_sent, "this call sent nothing");
        assert!(first.retry_after.unwrap() <= s(1));
    }

    #[test]
    fn open_breaker_admits_one_probe_at_a_time() {
        let mut breaker = Breaker::new(BreakerSettings::default(), 7);
        for _ in 0..3 {
            breaker.admit(s(0)).unwrap();
            breaker.record(s(0), unreachable());
        }
        assert_eq!(breaker.admit(s(1)), Ok(()));
        assert!(breaker.admit(s(1)).is_err(), "one probe at a time");
        breaker.record(s(2), CallVerdict::Nothing);
        assert_eq!(
            breaker.admit(s(2)),
            Ok(()),
            "a dropped probe does not count"
        );
        breaker.record(s(2), CallVerdict::Answered);
        assert_eq!(breaker.admit(s(2)), Ok(()));
        breaker.record(s(2), unreachable());
        assert_eq!(breaker.admit(s(2)), Ok(()), "the count starts over");
    }

    #[test]
    fn pauses_grow_to_the_maximum_and_reset_after_success() {
        let mut breaker = Breaker::new(BreakerSettings::default(), 7);
        let mut now = s(0);
        let mut pauses = Vec::new();
        while pauses.len() < 8 {
            match breaker.admit(now) {
                Ok(()) => breaker.record(now, unreachable()),
                Err(error) => {
                    let pause = error.retry_after.unwrap();
                    pauses.push(pause);
                    now += pause;
                }
            }
        }
        for (pause, whole) in pauses.iter().zip([1, 2, 4, 8, 15, 15, 15, 15]) {
            assert!(*pause <= s(whole), "{pauses:?}");
            assert!(*pause >= s(whole) * 3 / 4, "{pauses:?}");
        }
        breaker.admit(now).unwrap();
        breaker.record(now, CallVerdict::Answered);
        for _ in 0..3 {
            breaker.admit(now).unwrap();
            breaker.record(now, unreachable());
        }
        assert!(breaker.admit(now).unwrap_err().retry_after.unwrap() <= s(1));
    }

    #[test]
    fn jitter_depends_on_the_seed_alone() {
        let pauses = |seed| {
            let mut breaker = Breaker::new(BreakerSettings::default(), seed);
            (0..8).map(|n| breaker.next_pause(n)).collect::<Vec<_>>()
        };
        assert_eq!(pauses(1), pauses(1));
        assert_ne!(pauses(1), pauses(2));
    }

    #[test]
    fn error_response_counts_as_reachable() {
        for (kind, expected) in [
            (ErrorKind::Tls, CallVerdict::Answered),
            (ErrorKind::Authentication, CallVerdict::Answered),
            (ErrorKind::Privilege, CallVerdict::Answered),
            (ErrorKind::Protocol, CallVerdict::Answered),
            (ErrorKind::System, CallVerdict::Answered),
            (ErrorKind::Busy, CallVerdict::Answered),
            (ErrorKind::Refused, CallVerdict::Answered),
            (ErrorKind::Unsupported, CallVerdict::Nothing),
            (ErrorKind::Configuration, CallVerdict::Nothing),
        ] {
            assert_eq!(CallVerdict::of(&error(kind, "x")), expected, "{kind:?}");
        }
    }

    proptest! {
        /// A BMC that is reachable again is probed within the longest pause, in every sequence of
        /// events.
        #[test]
        fn no_pause_exceeds_the_maximum(
            seed: u64,
            calls in prop::collection::vec((0..3_u8, 0..20_u64), 1..60),
        ) {
            let mut breaker = Breaker::new(BreakerSettings::default(), seed);
            let mut now = s(0);
            for (outcome, wait) in calls {
                now += s(wait);
                match breaker.admit(now) {
                    Ok(()) => breaker.record(now, match outcome {
                        0 => CallVerdict::Answered,
                        1 => CallVerdict::Nothing,
                        _ => unreachable(),
                    }),
                    Err(error) => prop_assert!(error.retry_after.unwrap() <= s(15)),
                }
                prop_assert!(breaker.clone().admit(now + s(15)).is_ok());
            }
        }
    }
}
