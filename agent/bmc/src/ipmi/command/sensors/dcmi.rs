//! Power draw by DCMI (Data Center Manageability Interface 1.5, 6.6.1).

use ipmi_rs_core::connection::NetFn;

use crate::ipmi::{
    command::Raw,
    requester::{RequestError, Requester},
};

/// Group extension network function; the first data byte of request and response is the group
/// number.
const GROUP: NetFn = NetFn::Reserved(0x2c);
const DCMI: u8 = 0xdc;
const GET_POWER_READING: u8 = 0x02;

/// Reads the current power draw of the host in watts. `None`: the BMC does not support DCMI, or
/// measures nothing.
///
/// # Errors
///
/// The BMC did not respond.
pub(super) async fn power<A: Requester>(ask: &A) -> Result<Option<f64>, RequestError> {
    // Mode 1: system power statistics.
    let request = Raw::new(GROUP, GET_POWER_READING, [DCMI, 0x01, 0, 0]);
    match ask.ask(request).await {
        Ok(data) => Ok(parse(&data)),
        Err(RequestError::Code(_) | RequestError::Data(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses group, current, minimum, maximum, average, time stamp, period and state. A reading of 0 W
/// comes from a BMC whose power supplies do not measure.
fn parse(data: &[u8]) -> Option<f64> {
    const MEASURING: u8 = 0x40;
    let (start, [state, ..]) = data.split_first_chunk::<17>()? else {
        return None;
    };
    let [group, low, high, ..] = *start;
    let watts = u16::from_le_bytes([low, high]);
    let is_measured = group == DCMI && state & MEASURING != 0 && watts != 0;
    is_measured.then_some(f64::from(watts))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::ipmi::command::fake::FakeBmc;

    fn answer(watts: u16, state: u8) -> Vec<u8> {
        let mut data = vec![DCMI];
        data.extend(watts.to_le_bytes());
        data.extend([0x10, 0, 0x90, 1, 0x20, 1]);
        data.extend([0x80, 0x2b, 0x9a, 0x66, 0xe8, 0x03, 0, 0, state]);
        data
    }

    #[test]
    fn inactive_power_measurement_has_no_value() {
        assert_eq!(parse(&answer(312, 0x40)), Some(312.0));
        assert_eq!(parse(&answer(312, 0x00)), None);
        assert_eq!(parse(&answer(0, 0x40)), None);
        let mut other = answer(312, 0x40);
        other[0] = 0;
        assert_eq!(parse(&other), None);
        for length in 0..18 {
            assert_eq!(parse(&answer(312, 0x40)[..length]), None, "{length}");
        }
    }

    #[tokio::test]
    async fn missing_dcmi_support_is_not_an_error() {
        for code in [0xc1, 0xcc, 0xd6, 0xff] {
            let bmc = FakeBmc {
                dcmi: Err(code),
                ..FakeBmc::default()
            };
            assert_eq!(power(&bmc).await, Ok(None), "{code:#x}");
        }
        let bmc = FakeBmc {
            dcmi: Ok(answer(312, 0x40)),
            ..FakeBmc::default()
        };
        assert_eq!(power(&bmc).await, Ok(Some(312.0)));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(data in vec(any::<u8>(), 0..40)) {
            prop_assert!(parse(&data).is_none_or(f64::is_finite));
        }
    }
}
