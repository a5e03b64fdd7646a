//! Data Center Manageability Interface 1.5: capabilities and power reading.

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Caller, Reply, first};

/// The group extension of DCMI, first byte of every request and response.
const DCMI: u8 = 0xdc;
/// What the machine draws in watts when it is on, at least, at most, and on average.
const WATTS: [u16; 4] = [212, 118, 460, 205];
/// What it draws when it is off.
const STANDBY: [u16; 4] = [14, 12, 460, 14];

impl Bmc {
    pub(super) fn group(&mut self, caller: &Caller<'_>, request: &Request) -> Reply {
        let [group] = first(&request.data)?;
        if group != DCMI {
            return Err(CompletionCode::INVALID_COMMAND.into());
        }
        match request.command {
            0x01 => capabilities(&request.data),
            0x02 => self.power_reading(caller, &request.data),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    fn power_reading(&mut self, caller: &Caller<'_>, data: &[u8]) -> Reply {
        let [_, mode, _, _] = first(data)?;
        if mode != 0x01 {
            return Err(CompletionCode::INVALID_FIELD.into());
        }
        let on = self.power.power(caller.now).is_powered();
        let mut reply = vec![DCMI];
        for watts in if on { WATTS } else { STANDBY } {
            reply.extend(watts.to_le_bytes());
        }
        reply.extend(self.clock(caller.now).to_le_bytes());
        reply.extend(1000_u32.to_le_bytes());
        // Power measurement is active.
        reply.push(0x40);
        Ok(reply)
    }
}

fn capabilities(data: &[u8]) -> Reply {
    let [_, parameter] = first(data)?;
    // DCMI 1.5, parameter revision 2.
    let mut reply = vec![DCMI, 1, 5, 2];
    reply.extend::<&[u8]>(match parameter {
        // Power management; system interface.
        1 => &[0x00, 0x01, 0x01],
        // SEL without roll-over, 512 records, no asset tag, temperature polled each second.
        2 => &[0x00, 0x02, 0x00, 0x00, 0x01],
        // Power is managed by the BMC.
        3 => &[0x20, 0x00],
        // Channel 1, no second channel, no serial.
        4 => &[0x01, 0xff, 0xff],
        _ => return Err(CompletionCode::INVALID_FIELD.into()),
    });
    Ok(reply)
}
