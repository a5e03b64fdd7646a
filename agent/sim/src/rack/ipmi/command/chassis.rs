//! Chassis commands (IPMI 2.0, chapter 28).

use std::fmt;
use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};
use serde::Serialize;

use super::{Bmc, Caller, Reply, exactly};
use crate::rack::ResetType;
use crate::rack::ipmi::counters::Controlled;
use crate::rack::ipmi::rules::Report;
use crate::rack::power::Answer;

/// What Chassis Control asks for (table 28-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChassisControl {
    /// Power down, hard.
    Down,
    Up,
    /// Down, a pause, up.
    Cycle,
    Reset,
    /// Pulse diagnostic interrupt.
    Diagnostic,
    /// Soft shutdown by the operating system.
    Soft,
}

impl ChassisControl {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Down,
            1 => Self::Up,
            2 => Self::Cycle,
            3 => Self::Reset,
            4 => Self::Diagnostic,
            5 => Self::Soft,
            _ => return None,
        })
    }

    /// The same, as the machine names it.
    pub fn reset_type(self) -> ResetType {
        match self {
            Self::Down => ResetType::ForceOff,
            Self::Up => ResetType::On,
            Self::Cycle => ResetType::PowerCycle,
            Self::Reset => ResetType::ForceRestart,
            Self::Diagnostic => ResetType::Nmi,
            Self::Soft => ResetType::GracefulShutdown,
        }
    }

    /// Whether the machine starts anew by it, so that boot flags are used.
    fn boots(self) -> bool {
        matches!(self, Self::Up | Self::Cycle | Self::Reset)
    }
}

impl fmt::Display for ChassisControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What it shows, and what it does when mains power comes back.
#[derive(Debug, Default)]
pub(super) struct Chassis {
    identify: Option<Identify>,
    restore_policy: u8,
    up_by_command: bool,
}

#[derive(Clone, Copy, Debug)]
enum Identify {
    Until(Instant),
    Always,
}

impl Bmc {
    pub(super) fn chassis(&mut self, caller: &Caller<'_>, request: &Request) -> Reply {
        match request.command {
            // Get Chassis Capabilities: intrusion sensor no, front panel lockout no.
            0x00 => Ok(vec![0x00, 0x20, 0x20, 0x20, 0x20]),
            0x01 => Ok(self.chassis_status(caller)),
            0x02 => self.chassis_control(caller, &request.data),
            0x04 => self.identify(caller, &request.data),
            0x06 => {
                let [policy] = exactly(&request.data)?;
                // 3: only asks for what is supported.
                if policy & 0x07 < 3 {
                    self.stores.chassis.restore_policy = policy & 0x07;
                }
                Ok(vec![0x07])
            }
            // Get System Restart Cause: Chassis Control, this channel.
            0x07 => Ok(vec![0x01, 0x01]),
            0x08 => self.stores.boot.set(&request.data, caller.now),
            0x09 => {
                let last = self.config.behaviour.boot_flags_last;
                self.stores.boot.get(&request.data, caller.now, last)
            }
            // Get POH Counter: hours.
            0x0f => Ok(vec![60, 0x10, 0x27, 0, 0]),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    fn chassis_status(&mut self, caller: &Caller<'_>) -> Vec<u8> {
        let on = match caller.effects.report {
            Some(Report::Fixed(on)) => on,
            Some(Report::Stale(age)) => self.power.power_before(caller.now, age).is_powered(),
            None => self.power.power(caller.now).is_powered(),
        };
        let chassis = &mut self.stores.chassis;
        let lit = match chassis.identify {
            Some(Identify::Always) => 0x20,
            Some(Identify::Until(end)) if caller.now < end => 0x10,
            _ => 0x00,
        };
        let state = u8::from(on) | chassis.restore_policy << 5;
        let event = if on && chassis.up_by_command {
            0x10
        } else {
            0x00
        };
        // Bit 6: the identify state is told.
        vec![state, event, 0x40 | lit]
    }

    fn chassis_control(&mut self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let [number] = exactly(data)?;
        let control = ChassisControl::of(number & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
        let rights = caller.rights.ok_or(CompletionCode::PRIVILEGE)?;
        let user = rights.user.and_then(|index| self.config.users.get(index));
        let user = user.map(|user| user.name.clone()).unwrap_or_default();
        let (now, reset) = (caller.now, control.reset_type());
        let answer = if caller.effects.swallow {
            self.power.swallow(now, reset, &user);
            None
        } else {
            Some(self.power.command(now, reset, &user))
        };
        self.counters.controls.push(Controlled {
            after: now.saturating_duration_since(self.started),
            control,
            user,
            session: rights.session,
            answer,
        });
        let is_off = matches!(control, ChassisControl::Down | ChassisControl::Soft);
        if is_off && matches!(answer, Some(Answer::Accepted | Answer::Already)) {
            self.rules.power_off_taken();
        }
        let last = self.config.behaviour.boot_flags_last;
        match answer {
            None => {}
            Some(Answer::Accepted) => {
                self.stores.boot.chassis_command(now, last, control.boots());
                if control.boots() {
                    self.stores.chassis.up_by_command = true;
                }
            }
            Some(Answer::Already) if !self.config.behaviour.refuses_already => {}
            Some(Answer::Already | Answer::WrongState) => {
                return Err(CompletionCode::STATE.into());
            }
            Some(Answer::Busy) => return Err(CompletionCode::NODE_BUSY.into()),
        }
        Ok(Vec::new())
    }

    /// Table 28-5: nothing is 15 s, 0 is off, a second byte may say for ever.
    fn identify(&mut self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let (seconds, force) = match data {
            [] => (15, 0),
            [seconds] => (*seconds, 0),
            [seconds, force] => (*seconds, *force),
            _ => return Err(CompletionCode::LENGTH.into()),
        };
        let end = || caller.now + Duration::from_secs(seconds.into());
        self.stores.chassis.identify = if force & 1 != 0 {
            Some(Identify::Always)
        } else {
            (seconds > 0).then(|| Identify::Until(end()))
        };
        Ok(Vec::new())
    }
}
