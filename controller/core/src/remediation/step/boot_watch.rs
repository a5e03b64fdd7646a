//! While a host boots: is it on still?
//!
//! Must never switch on after anything but the BMC's exact "off", nor for ever.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::{Because, PowerState, State, Step},
    Command, Cx, Decision, after,
};

/// Time between two looks at the power of a host that boots. A boot takes minutes, and some BMCs fail
/// when they are asked often.
const BOOT_WATCH: Duration = Duration::from_secs(15);
/// Power-ons that are begun anew in one attempt: what falls off more often than that has a reason
/// which no power-on cures, or somebody who switches it off.
const ONS: u32 = 3;

impl Cx<'_> {
    /// Waits until then at the latest, for `why`, and looks whether the host is on. Where it is
    /// exactly off although it was switched on (Ironic forces what it knows, a power supply trips,
    /// somebody is at the button) it is switched on again by the same means as before, and its boot
    /// timer starts anew with that (L1: a few times in an attempt). Nothing is fenced any more, so F3
    /// and F4 do not speak against it.
    pub(super) fn watch_boot(&self, s: State, why: Because, until: Timestamp) -> Decision {
        let on = s.on.unwrap_or(s.since);
        // Older ones are of the time before the power-on.
        let view = self.o.power.as_ref().filter(|view| view.asked >= on);
        let is_off = view
            .and_then(|view| view.result.as_ref().ok())
            .is_some_and(|r| r.state == PowerState::Off);
        let why = if is_off {
            Because::StaysOff(s.ons.saturating_add(1))
        } else {
            why
        };
        let due = after(view.map_or(on, |view| view.answered), BOOT_WATCH);
        if due > self.now {
            return if is_off && s.ons < ONS {
                self.on_again(s)
            } else {
                self.wait(s, why, due.min(until))
            };
        }
        match self.bmc_down() {
            None => self.act(s, why, Command::ReadPower),
            Some(_) => self.wait(s, why, until),
        }
    }

    fn on_again(&self, mut s: State) -> Decision {
        s.ons = s.ons.saturating_add(1);
        self.to(s, Step::PoweringOn, Because::OffAgain)
    }
}
