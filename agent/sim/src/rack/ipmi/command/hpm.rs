//! Upgrades of firmware (PICMG HPM.1 R1.0): capabilities and status only.

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Reply, exactly};
use crate::rack::power::FlashState;

/// Identifier of PICMG, the first byte of every request and response.
pub(super) const PICMG: u8 = 0x00;
/// Command that is in progress, or was the last.
const ACTIVATE_FIRMWARE: u8 = 0x35;
const IN_PROGRESS: u8 = 0x80;
const DONE: u8 = 0x00;

impl Bmc {
    pub(super) fn picmg(&self, request: &Request) -> Reply {
        if !self.config.hpm {
            return Err(CompletionCode::INVALID_COMMAND.into());
        }
        let [_] = exactly(&request.data)?;
        match request.command {
            // Version 1.0, no capability, time limits of 5 s, component 0.
            0x2e => Ok(vec![PICMG, 0x00, 0x00, 0x01, 0x01, 0x01, 0x01, 0x01]),
            0x34 => Ok(match self.power.flash() {
                Some(FlashState::Running(percent)) => {
                    let percent = u8::try_from(percent).unwrap_or(100);
                    vec![PICMG, ACTIVATE_FIRMWARE, IN_PROGRESS, percent]
                }
                Some(FlashState::Completed) => vec![PICMG, ACTIVATE_FIRMWARE, DONE],
                Some(FlashState::Scheduled) | None => vec![PICMG, 0x00, DONE],
            }),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }
}
