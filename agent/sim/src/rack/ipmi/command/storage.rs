//! Dispatch of storage and sensor commands (IPMI 2.0, chapters 31 to 35).

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Caller, Reply, exactly, fru};
use crate::rack::ipmi::sensors::SENSORS;

impl Bmc {
    pub(super) fn storage(&mut self, caller: &Caller, request: &Request) -> Reply {
        let (data, clock) = (request.data.as_slice(), self.clock(caller.now));
        let stores = &mut self.stores;
        match request.command {
            0x10 => fru::info(&stores.fru, data),
            0x11 => fru::read(&stores.fru, data),
            0x20 => Ok(stores.sdr.info()),
            0x22 => Ok(stores.sdr.reserve()),
            0x23 => stores.sdr.get(data),
            0x40 => Ok(stores.sel.info()),
            0x42 => Ok(stores.sel.reserve()),
            0x43 => stores.sel.get(data),
            0x44 => stores.sel.add(data, clock),
            0x47 => stores.sel.clear(data, clock),
            0x48 => Ok(clock.to_le_bytes().to_vec()),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    pub(super) fn sensor(&mut self, caller: &Caller, request: &Request) -> Reply {
        let on = self.power.power(caller.now).is_powered();
        if ![0x27, 0x2d].contains(&request.command) {
            return Err(CompletionCode::INVALID_COMMAND.into());
        }
        let [number] = exactly(&request.data)?;
        let sensor = SENSORS.iter().find(|sensor| sensor.number == number);
        let sensor = sensor.ok_or(CompletionCode::NOT_PRESENT)?;
        Ok(match request.command {
            0x27 => sensor.thresholds_reply(),
            _ => sensor.reading_reply(on),
        })
    }
}
