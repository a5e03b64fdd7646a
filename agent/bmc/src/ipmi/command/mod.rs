//! The IPMI commands, one module each: sensors (`sensors/`), event log (`sel/`), identity (`identity/`).
//!
//! Owns: requests, and the interpretation of responses. Must never: panic, loop or allocate without
//! bound on any response of a BMC, or fail for a missing part where the rest is usable.

mod boot_state;
mod facts;
mod hpm;
mod identity;
mod manufacturers;
mod sel;
mod sensors;
mod severity;
mod text;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::convert::Infallible;

use ipmi_rs_core::connection::{IpmiCommand, Message, NetFn};

pub(in crate::ipmi) use boot_state::boot_state;
pub(in crate::ipmi) use facts::facts;
pub(in crate::ipmi) use hpm::upgrade;
pub(in crate::ipmi) use identity::{identity, system_uuid};
pub(in crate::ipmi) use sel::{clear_event_log, event_log};
pub(in crate::ipmi) use sensors::sensors;

/// A request that `ipmi-rs-core` lacks or whose response it cannot parse safely; the result is the
/// bytes after the completion code.
#[derive(Debug)]
struct Raw {
    net_fn: NetFn,
    command: u8,
    data: Vec<u8>,
}

impl Raw {
    fn new(net_fn: NetFn, command: u8, data: impl Into<Vec<u8>>) -> Self {
        let data = data.into();
        Self {
            net_fn,
            command,
            data,
        }
    }
}

impl From<Raw> for Message {
    fn from(raw: Raw) -> Self {
        Self::new_request(raw.net_fn, raw.command, raw.data)
    }
}

impl IpmiCommand for Raw {
    type Output = Vec<u8>;
    type Error = Infallible;

    fn parse_success_response(data: &[u8]) -> Result<Self::Output, Self::Error> {
        Ok(data.to_vec())
    }
}
