//! Cause of the last start of a host, and the faults of its power and chassis (IPMI 2.0, sections 28.2 and 28.11).

use ipmi_rs_core::connection::NetFn;

use super::Raw;
use crate::{
    BootState,
    ipmi::requester::{RequestError, Requester},
};

const GET_CHASSIS_STATUS: u8 = 0x01;
const GET_SYSTEM_RESTART_CAUSE: u8 = 0x07;

/// Bits of the current power state (table 28-3, byte 2), and their meaning.
const POWER: [(u8, &str); 3] = [
    (0x02, "power overload"),
    (0x08, "power fault"),
    (0x10, "power control fault"),
];
/// Bits of the last power event (byte 3): why the power last went off.
const LAST_EVENT: [(u8, &str); 4] = [
    (0x01, "last power-off: AC failed"),
    (0x02, "last power-off: power overload"),
    (0x04, "last power-off: interlock"),
    (0x08, "last power-off: power fault"),
];
/// Bits of the misc. chassis state (byte 4).
const CHASSIS: [(u8, &str); 3] = [
    (0x01, "chassis intrusion"),
    (0x04, "drive fault"),
    (0x08, "cooling fault"),
];

/// Reads both; a BMC that rejects Get System Restart Cause reports no cause.
///
/// # Errors
///
/// The BMC did not respond, or rejects Get Chassis Status.
pub(in crate::ipmi) async fn boot_state<A: Requester>(ask: &A) -> Result<BootState, RequestError> {
    let status = ask
        .ask(Raw::new(NetFn::Chassis, GET_CHASSIS_STATUS, []))
        .await?;
    let cause = ask.ask(Raw::new(NetFn::Chassis, GET_SYSTEM_RESTART_CAUSE, []));
    let restart_cause = match cause.await {
        Ok(data) => data.first().and_then(|code| cause_of(*code)),
        Err(RequestError::Code(_) | RequestError::Data(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(BootState {
        progress: None,
        restart_cause: restart_cause.map(str::to_owned),
        faults: faults(&status).map(str::to_owned).collect(),
    })
}

fn faults(status: &[u8]) -> impl Iterator<Item = &'static str> {
    let bytes = [&POWER[..], &LAST_EVENT[..], &CHASSIS[..]];
    let bytes: Vec<_> = bytes.into_iter().zip(status.iter().copied()).collect();
    bytes.into_iter().flat_map(|(bits, byte)| {
        let set = bits.iter().filter(move |(bit, _)| byte & bit != 0);
        set.map(|(_, meaning)| *meaning)
    })
}

/// The cause (table 28-11); `None` if it is unknown.
fn cause_of(code: u8) -> Option<&'static str> {
    Some(match code & 0x0f {
        0x1 => "chassis control command",
        0x2 => "reset button",
        0x3 => "power button",
        0x4 => "watchdog",
        0x5 => "OEM",
        0x6 => "power restored, always on",
        0x7 => "power restored, previous state",
        0x8 => "reset by an event filter",
        0x9 => "power cycle by an event filter",
        0xa => "soft reset",
        0xb => "real-time clock",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn faults_are_the_bits_of_chassis_status() {
        let of = |status: &[u8]| faults(status).collect::<Vec<_>>();
        assert!(of(&[0x01, 0x00, 0x40]).is_empty());
        assert_eq!(
            of(&[0x09, 0x11, 0x4c]),
            [
                "power fault",
                "last power-off: AC failed",
                "drive fault",
                "cooling fault"
            ]
        );
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn restart_causes_follow_table_28_11() {
        assert_eq!(cause_of(0x04), Some("watchdog"));
        assert_eq!(cause_of(0x13), Some("power button"));
        assert_eq!((cause_of(0x00), cause_of(0x0f)), (None, None));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..9)) {
            prop_assert!(faults(&bytes).count() <= 10);
        }
    }
}
