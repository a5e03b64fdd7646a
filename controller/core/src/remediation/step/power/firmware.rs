//! No host loses its power while its firmware is written, unless a policy or a person says so.
//!
//! The updates are read before the hold is set, because baremetal-operator switches off what carries it, and by the
//! agent once more right before its own command.

use jiff::Timestamp;

use super::super::{
    super::{
        FirmwareUpdate, OnUpdate, PowerDevice, Reason, State, Step, UpdateStatus, UpdateWatch,
        firmware::{FRESH, LONGEST_BOOT_UPDATE, RECHECK_UPDATE, UpdateHold, stalled_words},
        on_wall,
    },
    Command, Decision, StepContext, after,
};

/// What the reading of the updates means for a host that is on.
enum Check {
    /// Nothing stands in the way.
    Free,
    /// This has to be done or written first.
    First(Box<Decision>),
    /// The host is not switched, for this reason; the next look is due then.
    Held(Reason, Timestamp),
}

/// What an operation had sent before it found an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remediation::step) enum Sent {
    Nothing,
    Commands,
}

impl StepContext<'_> {
    /// Waits, before anything has begun, for the update that was seen.
    pub(in crate::remediation::step) fn held_by_firmware(&self, s: &State) -> Option<Decision> {
        s.attempt.update.as_ref()?;
        match self.check_firmware(s) {
            Check::Free => None,
            Check::First(d) => Some(*d),
            Check::Held(why, until) => Some(self.wait(s.clone(), why, until)),
        }
    }

    /// Reads the updates before the hold is set, and gives the turn back if one runs.
    pub(in crate::remediation::step) fn firmware_before_hold(
        &self,
        s: &State,
        begin_later: impl FnOnce(Reason) -> Decision,
    ) -> Option<Decision> {
        match self.check_firmware(s) {
            Check::Free => None,
            Check::First(d) => Some(*d),
            Check::Held(why, _) => Some(begin_later(why)),
        }
    }

    fn check_firmware(&self, s: &State) -> Check {
        let rules = &self.o.update_rules;
        if !rules.reads() || self.bmc_down().is_some() {
            return Check::Free;
        }
        let known = s.attempt.update.as_deref();
        let counts_for = match known {
            Some(_) => RECHECK_UPDATE,
            None => FRESH,
        };
        let reading = self.o.updates.as_ref();
        let Some(reading) = reading.filter(|read| after(read.at, counts_for) > self.now) else {
            let reason = known.map_or(Reason::CheckingFirmware, |watch| {
                self.update_reason(s, watch, None)
            });
            return Check::First(Box::new(self.act(s.clone(), reason, Command::ReadUpdates)));
        };
        let next_look = after(reading.at, RECHECK_UPDATE);
        let watch = match (&reading.status, known) {
            (UpdateStatus::Idle, None) => return Check::Free,
            (UpdateStatus::Idle, Some(_)) => {
                let mut s = s.clone();
                s.attempt.update = None;
                return Check::First(Box::new(self.quiet_write(s, Reason::Working)));
            }
            (UpdateStatus::Unknown(why), None) => {
                let waits = rules.on_unknown == OnUpdate::Wait && !self.o.approved;
                return match waits {
                    true => Check::Held(Reason::FirmwareUpdateUnknown(why.clone()), next_look),
                    false => Check::Free,
                };
            }
            // A BMC may be silent while its own firmware is written.
            (UpdateStatus::Unknown(_), Some(known)) => {
                UpdateWatch::seen(Some(known), &known.update, self.o.approved, reading.at)
            }
            (UpdateStatus::Running(update), known) => {
                UpdateWatch::seen(known, update, self.o.approved, reading.at)
            }
        };
        let hold = rules.hold(&watch, self.o.approved, self.now);
        if known != Some(&watch) {
            let reason = self.update_reason(s, &watch, hold.as_ref());
            // The return of the turn tells it, where one is returned.
            let is_news = known.is_none() && s.step != Step::Holding;
            let mut s = s.clone();
            s.attempt.update = Some(Box::new(watch));
            return Check::First(Box::new(match is_news {
                true => self.write(s, reason),
                false => self.quiet_write(s, reason),
            }));
        }
        match hold {
            None => Check::Free,
            Some(hold) => {
                let until = hold.until.map_or(next_look, |until| until.min(next_look));
                Check::Held(self.update_reason(s, &watch, Some(&hold)), until)
            }
        }
    }

    /// Whether the agent sends a power-off although an update runs: the policies or a person let it through, or the
    /// workload has been moved from the host, which must not run again under its taint (F3).
    pub(in crate::remediation::step) fn cuts_through_update(&self, s: &State) -> bool {
        let rules = &self.o.update_rules;
        let is_let_through = |watch: &UpdateWatch| {
            let now = self.now;
            rules.hold(watch, self.o.approved, now).is_none()
        };
        !rules.reads()
            || s.attempt.taint.is_some()
            || s.attempt.update.as_deref().is_some_and(is_let_through)
    }

    /// The agent found an update right before a command, and did not send it. If nothing was sent before, what was begun
    /// is taken back, and the update is waited for. Otherwise the host may be going down in order, so the hold stays, and
    /// the power-off goes on when the update has ended, or a policy or a person lets it through.
    pub(in crate::remediation::step) fn refused_by_firmware(
        &self,
        mut s: State,
        update: &FirmwareUpdate,
        why: &str,
        sent: Sent,
    ) -> Decision {
        let is_first = s.step == Step::PoweringOff
            && s.attempt.taint.is_none()
            && s.device() == PowerDevice::Bmc;
        if !is_first {
            return self.power_off_failed(s, why, Some(RECHECK_UPDATE));
        }
        let nothing_sent = sent == Sent::Nothing && !s.attempt.soft_off && s.is_first_off();
        let known = s.attempt.update.as_deref();
        let watch = UpdateWatch::seen(known, update, self.o.approved, self.now);
        if !nothing_sent {
            let is_news = known.is_none();
            // The id of a finished operation must not be used again.
            s.power_off_repeats = s.power_off_repeats.saturating_add(1);
            s.failure = None;
            s.attempt.update = Some(Box::new(watch));
            s.retry_at = Some(after(self.now, RECHECK_UPDATE));
            let reason = self.unconfirmed(&s);
            return match is_news {
                true => self.write(s, reason),
                false => self.quiet_write(s, reason),
            };
        }
        let hold = self.o.update_rules.hold(&watch, self.o.approved, self.now);
        let reason = Reason::FirmwareUpdateRunning(self.update_text(&watch, hold.as_ref()));
        if self.holds() {
            return self.act(s, reason, Command::RemoveHold);
        }
        // The agent's hold stays: a release in its journal would say that the host was handed back (F12).
        // The id of a finished operation must not be used again.
        s.power_off_repeats = s.power_off_repeats.saturating_add(1);
        s.attempt.update_refusals = s.attempt.update_refusals.saturating_add(1);
        s.attempt.update = Some(Box::new(watch));
        let step = match s.attempts.is_empty() {
            true => Step::Pending,
            false => Step::Retrying,
        };
        self.to(s, step, reason)
    }

    /// Waits with a power-off that has begun: the updates are read here, so that no operation is refused again and
    /// again.
    pub(in crate::remediation::step) fn held_during_off(&self, s: &State) -> Option<Decision> {
        self.waits_for_update(s)?;
        match self.check_firmware(s) {
            Check::Free => None,
            Check::First(d) => Some(*d),
            Check::Held(why, until) => Some(self.wait(s.clone(), why, until)),
        }
    }

    /// Why a power-off that has begun waits: an update was seen after a command was sent. `None`: it does not wait, or
    /// no longer.
    pub(in crate::remediation::step) fn waits_for_update(&self, s: &State) -> Option<Reason> {
        let watch = s.attempt.update.as_deref()?;
        let has_begun = s.step == Step::PoweringOff
            && s.attempt.taint.is_none()
            && s.failure.is_none()
            && s.device() == PowerDevice::Bmc
            && s.power_off_repeats > s.attempt.update_refusals;
        let rules = &self.o.update_rules;
        let hold = rules.hold(watch, self.o.approved, self.now)?;
        has_begun.then(|| self.update_reason(s, watch, Some(&hold)))
    }

    /// The time for the boot is over, but the host writes firmware: jobs that were scheduled begin with its start. The
    /// wait ends with the update, by the policy, or when nothing has moved for long.
    pub(in crate::remediation::step) fn boots_through_update(&self, s: &State) -> Option<Decision> {
        let rules = &self.o.update_rules;
        if !rules.reads() || self.bmc_down().is_some() {
            return None;
        }
        let known = s.attempt.update.as_deref();
        let reading = self.o.updates.as_ref();
        let Some(reading) = reading.filter(|read| after(read.at, RECHECK_UPDATE) > self.now) else {
            let reason = known.map_or_else(|| self.booting_reason(s), boot_reason);
            return Some(self.act(s.clone(), reason, Command::ReadUpdates));
        };
        let watch = match (&reading.status, known) {
            (UpdateStatus::Running(update), _) => {
                UpdateWatch::seen(known, update, false, reading.at)
            }
            (UpdateStatus::Unknown(_), Some(known)) => known.clone(),
            (UpdateStatus::Idle, Some(_)) => {
                // The host begins to boot only now.
                let mut s = s.clone();
                s.attempt.update = None;
                s.retry_at = Some(after(self.now, self.policy.boot_timeout));
                let reason = self.booting_reason(&s);
                return Some(self.quiet_write(s, reason));
            }
            (UpdateStatus::Idle | UpdateStatus::Unknown(_), None) => return None,
        };
        let limit = rules.proceed_after.unwrap_or(LONGEST_BOOT_UPDATE);
        let is_over = after(watch.first_seen, limit) <= self.now;
        if is_over || rules.stalled(&watch, self.now).is_some() {
            return None;
        }
        let reason = boot_reason(&watch);
        if known == Some(&watch) {
            return Some(self.wait(s.clone(), reason, after(reading.at, RECHECK_UPDATE)));
        }
        let is_news = known.is_none();
        let mut s = s.clone();
        s.attempt.update = Some(Box::new(watch));
        Some(match is_news {
            true => self.write(s, reason),
            false => self.quiet_write(s, reason),
        })
    }

    fn update_reason(&self, s: &State, watch: &UpdateWatch, hold: Option<&UpdateHold>) -> Reason {
        let what = self.update_text(watch, hold);
        match s.step {
            Step::PoweringOff => Reason::UpdateDuringPowerOff(what),
            _ => Reason::FirmwareUpdateRunning(what),
        }
    }

    fn update_text(&self, watch: &UpdateWatch, hold: Option<&UpdateHold>) -> String {
        let mut what = watch.update.to_string();
        let stalled = hold.and_then(|hold| hold.stalled);
        if let Some(still) = stalled {
            what = format!("{what}; {}, so it counts as stalled", stalled_words(still));
        }
        if let Some(until) = hold.and_then(|hold| hold.until) {
            let shown = on_wall(until, self.o.wall_ahead);
            what = format!("{what}; by its policy no longer than until {shown:.0}");
        }
        if hold.is_some_and(|hold| hold.needs_new_approval) {
            what = format!(
                "{what}; the approval on this object was given before the update was seen: remove the annotation \
                 rackhand.dev/approved, and approve again"
            );
        }
        if self.o.object.by_node && self.o.object.made_by_check.is_some() {
            what = format!(
                "{what}; a timeout of the NodeHealthCheck (escalatingRemediations) may end this remediation meanwhile"
            );
        }
        what
    }
}

fn boot_reason(watch: &UpdateWatch) -> Reason {
    Reason::BootingThroughUpdate(watch.update.to_string())
}
