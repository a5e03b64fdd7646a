//! Data Center Manageability Interface 1.5: power reading.

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Caller, Reply, first};

/// Group extension number of DCMI, the first byte of every request and response.
const DCMI: u8 = 0xdc;
/// Power in watts while the machine is on: current, minimum, maximum, average.
const WATTS: [u16; 4] = [212, 118, 460, 205];
/// The same while it is off.
const STANDBY: [u16; 4] = [14, 12, 460, 14];

impl Bmc {
    pub(super) fn group(&mut self, caller: &Caller, request: &Request) -> Reply {
        let [group] = first(&request.data)?;
        if (group, request.command) != (DCMI, 0x02) {
            return Err(CompletionCode::INVALID_COMMAND.into());
        }
        let [_, mode, _, _] = first(&request.data)?;
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
