//! Facts about an IPMI BMC: device, cipher suites, clock.

use ipmi_rs_core::connection::NetFn;
use jiff::Timestamp;

use super::Raw;
use crate::{
    Facts,
    ipmi::requester::{RequestError, Requester},
};

const GET_DEVICE_ID: u8 = 0x01;
const GET_CHANNEL_CIPHER_SUITES: u8 = 0x54;
const GET_SEL_TIME: u8 = 0x48;
/// Channel number for "the channel of this request" (IPMI 2.0, table 22-17).
const THIS_CHANNEL: u8 = 0x0e;
/// Cipher suite records come in lists of 16 bytes; bit 7 of the list index requests suites instead
/// of algorithms.
const MAX_LISTS: u8 = 0x40;
const LIST: usize = 16;
/// Smaller timestamps count from the start of the BMC instead of 1970 (IPMI 2.0, section 37.1).
const FIRST_TIME: u32 = 0x2000_0000;

/// Reads the facts; a rejected request leaves its fact unknown.
///
/// # Errors
///
/// The BMC did not respond.
pub(in crate::ipmi) async fn facts<A: Requester>(ask: &A) -> Result<Facts, RequestError> {
    let device = optional(ask.ask(Raw::new(NetFn::App, GET_DEVICE_ID, [])).await)?;
    let mut suites = Vec::new();
    for list in 0..MAX_LISTS {
        let request = [THIS_CHANNEL, 0, 0x80 | list];
        let request = Raw::new(NetFn::App, GET_CHANNEL_CIPHER_SUITES, request);
        let Some(answer) = optional(ask.ask(request).await)? else {
            break;
        };
        let part = answer.get(1..).unwrap_or_default();
        suites.extend_from_slice(part);
        if part.len() < LIST {
            break;
        }
    }
    let clock = optional(ask.ask(Raw::new(NetFn::Storage, GET_SEL_TIME, [])).await)?;
    let (service, firmware) = device.map_or((None, None), |data| versions(&data));
    let suites = suite_numbers(&suites);
    Ok(Facts {
        service,
        firmware,
        suites: (!suites.is_empty()).then_some(suites),
        clock: clock.and_then(|data| time(&data)),
        ..Facts::default()
    })
}

/// IPMI version and firmware version of a Get Device ID response (IPMI 2.0, table 20-2).
fn versions(data: &[u8]) -> (Option<String>, Option<String>) {
    let Some(&[_, _, major, minor, version]) = data.first_chunk::<5>() else {
        return (None, None);
    };
    let service = format!("IPMI {}.{}", version & 0x0f, version >> 4);
    let firmware = format!("{}.{minor:02x}", major & 0x7f);
    (Some(service), Some(firmware))
}

/// Suite numbers of cipher suite records (IPMI 2.0, table 22-18), without duplicates, in their
/// order.
fn suite_numbers(mut records: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let [start, rest @ ..] = records {
        records = rest;
        if let (0xc0 | 0xc1, Some(number)) = (start, rest.first())
            && !numbers.contains(number)
        {
            numbers.push(*number);
        }
    }
    numbers
}

fn time(data: &[u8]) -> Option<Timestamp> {
    let seconds = u32::from_le_bytes(*data.first_chunk()?);
    let is_set = seconds != u32::MAX && seconds >= FIRST_TIME;
    let at = is_set.then(|| Timestamp::from_second(seconds.into()));
    at.and_then(Result::ok)
}

fn optional<T>(result: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(RequestError::Code(_) | RequestError::Data(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn cipher_suite_records_are_parsed() {
        let records = [
            0xc0, 3, 0x01, 0x41, 0x81, 0xc0, 17, 0x03, 0x44, 0x81, 0xc1, 0x80, 1, 2, 3, 0x01,
        ];
        assert_eq!(suite_numbers(&records), [3, 17, 0x80]);
        assert_eq!(suite_numbers(&[0xc0]), [0_u8; 0]);
    }

    #[test]
    fn ipmi_and_firmware_versions_are_read_from_device_id() {
        let data = [0x20, 0x01, 0x84, 0x20, 0x02, 0x8f];
        let (service, firmware) = versions(&data);
        assert_eq!(service.as_deref(), Some("IPMI 2.0"));
        assert_eq!(firmware.as_deref(), Some("4.20"));
        assert_eq!(versions(&data[..4]), (None, None));
    }

    #[test]
    fn unset_clock_has_no_time() {
        assert_eq!(time(&[0; 4]), None);
        assert_eq!(time(&[0xff; 4]), None);
        assert_eq!(time(&[1, 2]), None);
        let at = time(&1_780_000_000_u32.to_le_bytes());
        assert_eq!(at.map(Timestamp::as_second), Some(1_780_000_000));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..64)) {
            versions(&bytes);
            time(&bytes);
            prop_assert!(suite_numbers(&bytes).len() <= bytes.len() / 2);
        }
    }
}
