//! Storage and sensor commands: who answers which (IPMI 2.0, chapters 31 to 35).

use rackhand_bmc::ipmi::wire::{CompletionCode, Request};

use super::{Bmc, Caller, Reply, exactly, fru};

impl Bmc {
    pub(super) fn storage(&mut self, caller: &Caller<'_>, request: &Request) -> Reply {
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
            0x46 => stores.sel.delete(data, clock),
            0x47 => stores.sel.clear(data, clock),
            0x48 => Ok(clock.to_le_bytes().to_vec()),
            0x49 => {
                let wanted = u32::from_le_bytes(exactly(data)?);
                stores.sel.move_clock(i64::from(wanted) - i64::from(clock));
                Ok(Vec::new())
            }
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    pub(super) fn sensor(&mut self, caller: &Caller<'_>, request: &Request) -> Reply {
        let on = self.power.power(caller.now).is_powered();
        let known = |number: u8| {
            let mut sensors = self.config.sensors.iter();
            let found = sensors.find(|sensor| sensor.number == number);
            found.ok_or(CompletionCode::NOT_PRESENT)
        };
        match request.command {
            0x27 => {
                let [number] = exactly(&request.data)?;
                let sensor = known(number)?;
                Ok(sensor.thresholds_reply())
            }
            0x2d => {
                let [number] = exactly(&request.data)?;
                let sensor = known(number)?;
                Ok(sensor.reading_reply(on))
            }
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }
}
