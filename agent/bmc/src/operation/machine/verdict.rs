//! Effect of a reading, or of the deadline, on the goal.

use std::time::Duration;

use super::{OffProof, OneTimeCommand, Operation, Phase};
use crate::{
    PowerCommand, PowerSource, PowerState,
    operation::{Goal, Observation, Outcome},
};

impl Operation {
    /// Applies a successful reading to the phase.
    pub(super) fn judge(&mut self, begun: Duration, now: Duration, seen: &Observation) {
        match self.phase {
            // A reading before the BMC took a power-off confirms nothing.
            Phase::Off if !self.off_taken => self.confirmed = None,
            // The time limit applies to a host that is still up.
            Phase::Soft if !self.off_taken && seen.state == PowerState::Off && self.may_force() => {
                self.enter(Phase::Off, now);
            }
            Phase::Soft | Phase::Off => {
                let (needed, interval) = self.request.goal.proof();
                if self.count(begun, now, seen, PowerState::Off, interval) >= needed {
                    self.is_off(now);
                }
            }
            Phase::On => {
                let may_go_off = self.may_still_go_off(begun, seen.state);
                if !may_go_off && self.count(begun, now, seen, PowerState::On, Duration::ZERO) >= 1
                {
                    self.ended = Some(match self.request.goal {
                        Goal::Cycle { .. } if self.is_cut_short => {
                            match self.update_check.cut_short_by() {
                                Some(update) => self.found_update(update),
                                None => Outcome::CallerGone { is_on: true },
                            }
                        }
                        Goal::Cycle { .. } => Outcome::Cycled {
                            was_off: !self.was_on,
                        },
                        _ => Outcome::Confirmed {
                            state: PowerState::On,
                            commanded: self.sends > 0,
                        },
                    });
                }
            }
            Phase::OneTimeCommand(command) => self.after_once(command, begun, now, seen),
            Phase::StayOff(_) => {}
        }
    }

    fn may_force(&self) -> bool {
        matches!(
            self.request.goal,
            Goal::SoftOff {
                then_force: true,
                ..
            }
        )
    }

    fn is_off(&mut self, now: Duration) {
        match self.request.goal {
            _ if !self.off_taken => self.ended = Some(Outcome::NotTaken),
            Goal::Cycle { hold_off, .. } => {
                self.enter(Phase::StayOff(now.saturating_add(hold_off)), now);
            }
            _ if self.proof().is_none() => self.corroboration.need(now),
            Goal::SoftOff { .. } if self.phase == Phase::Off && self.sent_at.is_some() => {
                self.ended = Some(Outcome::Forced {
                    requested: matches!(
                        self.once,
                        OneTimeCommand::Taken | OneTimeCommand::Unanswered
                    ),
                });
            }
            _ => {
                self.ended = Some(Outcome::Confirmed {
                    state: PowerState::Off,
                    commanded: self.sends > 0,
                });
            }
        }
    }

    /// Proof of the off that was read; `None`: there is none so far.
    pub fn proof(&self) -> Option<OffProof> {
        if !self.off_taken {
            return None;
        }
        // The outlets report for themselves; the BMC does not take part.
        if matches!(self.confirmed, Some((.., PowerSource::Outlets))) {
            return Some(OffProof::OtherDevice);
        }
        self.watch.proof().or(self.corroboration.found())
    }

    /// Time at which an off that was read often enough must be corroborated.
    pub(super) fn corroborates_at(&self) -> Option<Duration> {
        let is_off = matches!(self.phase, Phase::Soft | Phase::Off) && self.confirmed.is_some();
        self.corroboration.due().filter(|_| is_off)
    }

    /// Records the uptime of the manager that was read at `now`; `None`: it reports none. Returns whether it
    /// proves off.
    pub fn uptime(&mut self, now: Duration, uptime: Option<Duration>) -> bool {
        let is_proof = self.corroboration.uptime(now, uptime);
        if is_proof {
            self.corroborated(now, Some(OffProof::ManagerUptime));
        }
        is_proof
    }

    /// Records the result of an attempt to corroborate off.
    pub fn corroborated(&mut self, now: Duration, found: Option<OffProof>) {
        if self.ended.is_some() {
            return;
        }
        if !self.corroboration.attempted(now, found) {
            self.ended = Some(self.unproven());
        }
        let (needed, _) = self.request.goal.proof();
        if found.is_some() && self.confirmed.is_some_and(|(count, ..)| count >= needed) {
            self.is_off(now);
        }
    }

    fn unproven(&self) -> Outcome {
        Outcome::Unproven {
            uptime: self.corroboration.last_uptime(),
        }
    }

    fn after_once(
        &mut self,
        command: PowerCommand,
        begun: Duration,
        now: Duration,
        seen: &Observation,
    ) {
        let state = seen.state;
        match self.once {
            OneTimeCommand::NotSent if state == PowerState::Off => {
                self.ended = Some(Outcome::NeedsPower { command });
            }
            OneTimeCommand::NotSent | OneTimeCommand::NotTaken => {}
            OneTimeCommand::Unanswered => {
                self.ended = Some(Outcome::Unknown {
                    command,
                    state: Some(state),
                });
            }
            OneTimeCommand::Taken => {
                let is_it = command != PowerCommand::Reset
                    || self.count(begun, now, seen, PowerState::On, Duration::ZERO) >= 1;
                if is_it {
                    self.ended = Some(Outcome::Taken {
                        command,
                        state: Some(state),
                    });
                }
            }
        }
    }

    /// Counts a reading towards the confirmation of `wanted`; returns the number of confirming
    /// readings.
    fn count(
        &mut self,
        begun: Duration,
        now: Duration,
        seen: &Observation,
        wanted: PowerState,
        interval: Duration,
    ) -> u32 {
        if seen.state != wanted {
            self.confirmed = None;
            return 0;
        }
        let (count, last) = match self.confirmed {
            Some((count, last, by)) if by == seen.source => {
                if begun >= last.saturating_add(interval) {
                    (count + 1, now)
                } else {
                    (count, last)
                }
            }
            // The first one, or the first of another source.
            _ => (1, now),
        };
        self.confirmed = Some((count, last, seen.source));
        self.next_read = last.saturating_add(interval);
        count
    }

    /// The outcome when the deadline passes.
    pub(super) fn late(&self) -> Outcome {
        let last = self.seen.map(|(state, _)| state);
        let after = self.request.deadline;
        let wanted = match (self.phase, self.once) {
            (
                Phase::OneTimeCommand(command),
                OneTimeCommand::NotSent | OneTimeCommand::NotTaken,
            ) => {
                return Outcome::NotSent {
                    command,
                    last,
                    after,
                };
            }
            (Phase::OneTimeCommand(command), OneTimeCommand::Unanswered) => {
                return Outcome::Unknown {
                    command,
                    state: None,
                };
            }
            (Phase::OneTimeCommand(PowerCommand::Nmi), OneTimeCommand::Taken) => {
                return Outcome::Taken {
                    command: PowerCommand::Nmi,
                    state: None,
                };
            }
            (Phase::Soft | Phase::Off, _) if !self.off_taken && last == Some(PowerState::Off) => {
                return Outcome::NotTaken;
            }
            (Phase::Soft | Phase::Off, _)
                if last == Some(PowerState::Off)
                    && self.confirmed.is_some()
                    && self.proof().is_none() =>
            {
                return self.unproven();
            }
            (Phase::Soft | Phase::Off, _) => PowerState::Off,
            (Phase::StayOff(_) | Phase::On | Phase::OneTimeCommand(_), _) => PowerState::On,
        };
        Outcome::Unconfirmed {
            wanted,
            last,
            after,
        }
    }
}
