//! Monitors the power of a host that boots.
//!
//! Invariant: the host is switched on again only after the BMC reports exactly off, and a bounded
//! number of times.

use std::time::Duration;

use jiff::Timestamp;

use super::super::{
    super::{PowerState, PowerView, Reason, State, Step},
    Command, Decision, StepContext, after,
};

/// Interval of power readings while a host boots. A boot takes minutes, and some BMCs fail when
/// they are queried often.
const BOOT_WATCH: Duration = Duration::from_secs(15);
/// Repeated power-ons in one attempt. A host that goes off more often has a cause that a power-on
/// does not cure.
const MAX_POWER_ON_REPEATS: u32 = 3;

impl StepContext<'_> {
    /// Waits for `why` until `until`, reading the power state meanwhile. A host that is exactly off
    /// although it was switched on (Ironic forces the state that it knows, a power supply trips,
    /// somebody presses the button) is switched on again, and its boot timer restarts; L1 bounds
    /// how often. Nothing is fenced at this point, so F3 and F4 permit it.
    pub(in crate::remediation::step) fn monitor_boot(
        &self,
        s: State,
        why: Reason,
        until: Timestamp,
    ) -> Decision {
        let on = s.attempt.on.unwrap_or(s.since);
        let view = self.power_since(on);
        let is_off = self.is_read_off(&s);
        let why = if is_off {
            Reason::StaysOff(s.attempt.power_on_repeats.saturating_add(1))
        } else {
            why
        };
        let due = after(view.map_or(on, |view| view.answered), BOOT_WATCH);
        if due > self.now {
            return if is_off && s.attempt.power_on_repeats < MAX_POWER_ON_REPEATS {
                self.power_on_again(s)
            } else {
                self.wait(s, why, due.min(until))
            };
        }
        match self.bmc_down() {
            None => self.act(s, why, Command::ReadPower),
            Some(_) => self.wait(s, why, until),
        }
    }

    /// The latest reading since the power-on.
    fn power_since(&self, on: Timestamp) -> Option<&PowerView> {
        self.o.power.as_ref().filter(|view| view.asked >= on)
    }

    /// Whether the BMC reported exactly off since the host was switched on.
    pub(in crate::remediation::step) fn is_read_off(&self, s: &State) -> bool {
        let view = self.power_since(s.attempt.on.unwrap_or(s.since));
        let reading = view.and_then(|view| view.result.as_ref().ok());
        reading.is_some_and(|r| r.state == PowerState::Off)
    }

    fn power_on_again(&self, mut s: State) -> Decision {
        s.attempt.power_on_repeats = s.attempt.power_on_repeats.saturating_add(1);
        self.to(s, Step::PoweringOn, Reason::OffAgain)
    }
}
