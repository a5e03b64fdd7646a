//! Chassis commands (IPMI 2.0, chapter 28).

use std::time::{Duration, Instant};

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Caller, Refused, Reply, exactly};
use crate::rack::ResetType;
use crate::rack::ipmi::counters::Controlled;
use crate::rack::power::Answer;
use crate::rack::power::belief;

/// Function of Chassis Control (table 28-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// The machine command of the function.
    fn reset_type(self) -> ResetType {
        match self {
            Self::Down => ResetType::ForceOff,
            Self::Up => ResetType::On,
            Self::Cycle => ResetType::PowerCycle,
            Self::Reset => ResetType::ForceRestart,
            Self::Diagnostic => ResetType::Nmi,
            Self::Soft => ResetType::GracefulShutdown,
        }
    }

    /// Whether the machine boots, which uses the boot flags.
    fn boots(self) -> bool {
        matches!(self, Self::Up | Self::Cycle | Self::Reset)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Identify {
    Until(Instant),
    Always,
}

impl Bmc {
    pub(super) fn chassis(&mut self, caller: &Caller, request: &Request) -> Reply {
        match request.command {
            0x01 => Ok(self.chassis_status(caller)),
            0x02 => self.chassis_control(caller, &request.data),
            0x04 => self.identify(caller, &request.data),
            // Get System Restart Cause: a chassis control command, over this channel.
            0x07 => Ok(vec![0x01, 0x01]),
            0x08 => self.stores.boot.set(&request.data),
            0x09 => self.stores.boot.get(&request.data),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    fn chassis_status(&mut self, caller: &Caller) -> Vec<u8> {
        let on = !caller.reports_off && self.believed_power(caller.now).is_powered();
        let lit = match self.stores.identify {
            Some(Identify::Always) => 0x20,
            Some(Identify::Until(end)) if caller.now < end => 0x10,
            _ => 0x00,
        };
        // Bit 6 of the last byte: the identify state is supported.
        vec![u8::from(on), 0x00, 0x40 | lit]
    }

    fn chassis_control(&mut self, caller: &Caller, data: &[u8]) -> Reply {
        let [number] = exactly(data)?;
        let control = ChassisControl::of(number & 0x0f).ok_or(CompletionCode::INVALID_FIELD)?;
        let rights = caller.rights.ok_or(CompletionCode::PRIVILEGE)?;
        let user = rights.user.and_then(|index| self.config.users.get(index));
        let user = user.map(|user| user.name.clone()).unwrap_or_default();
        let (wanted, now) = (control.reset_type(), caller.now);
        let (believed, real) = (self.believed_power(now), self.power.power(now));
        let refusal = belief::refusal(believed, wanted).filter(|_| believed != real);
        let answer = match refusal {
            Some(refusal) => refusal,
            None => {
                self.forgot_power = false;
                let of_host = self.power.command(now, wanted, &user);
                let answer = belief::answer(believed, real, of_host);
                self.counters.controls.push(Controlled { control, answer });
                answer
            }
        };
        let is_off = matches!(control, ChassisControl::Down | ChassisControl::Soft);
        if is_off && matches!(answer, Answer::Accepted | Answer::Already) {
            self.rules.power_off_taken();
        }
        match answer {
            Answer::Accepted if control.boots() => self.stores.boot.boots(),
            Answer::Accepted => {}
            Answer::Already => {
                if let Some(code) = self.config.already {
                    return Err(Refused(code));
                }
            }
            Answer::WrongState => return Err(CompletionCode::STATE.into()),
            Answer::Busy => return Err(CompletionCode::NODE_BUSY.into()),
        }
        Ok(Vec::new())
    }

    /// Table 28-5: no data is 15 s, 0 is off, a second byte may make it permanent.
    fn identify(&mut self, caller: &Caller, data: &[u8]) -> Reply {
        let (seconds, force) = match data {
            [] => (15, 0),
            [seconds] => (*seconds, 0),
            [seconds, force] => (*seconds, *force),
            _ => return Err(CompletionCode::LENGTH.into()),
        };
        let end = || caller.now + Duration::from_secs(seconds.into());
        self.stores.identify = if force & 1 != 0 {
            Some(Identify::Always)
        } else {
            (seconds > 0).then(|| Identify::Until(end()))
        };
        Ok(Vec::new())
    }
}
