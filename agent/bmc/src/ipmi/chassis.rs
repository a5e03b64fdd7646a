//! Power, identify and BMC reset (IPMI 2.0, chapter 28 and section 20.2).

use std::time::Duration;

use ipmi_rs_core::connection::{IpmiCommand, Message, NetFn};

use crate::{Identify, PowerCommand, PowerState};

/// The response is shorter than the command defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooShort;

/// Get Chassis Status (IPMI 2.0, table 28-3).
#[derive(Debug, Clone, Copy)]
pub(super) struct GetChassisStatus;

/// Bytes 1 and 3 of the Get Chassis Status response: current power state, and miscellaneous state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChassisStatus(pub(super) u8, pub(super) u8);

/// Misc. chassis state: the identify state is reported in the two bits below.
const IDENTIFY_SUPPORTED: u8 = 0x40;
const IDENTIFY_STATE: u8 = 0x30;

impl ChassisStatus {
    /// Bit 0: system power is on.
    pub(super) fn state(self) -> PowerState {
        if self.0 & 1 == 1 {
            PowerState::On
        } else {
            PowerState::Off
        }
    }

    /// Whether the identify LED is lit, for a time or until it is put out; `None`: not reported.
    pub(super) fn identify_led(self) -> Option<bool> {
        (self.1 & IDENTIFY_SUPPORTED != 0).then_some(self.1 & IDENTIFY_STATE != 0)
    }

    /// The raw state, for evidence in readings.
    pub(super) fn raw(self) -> String {
        let bit = if self.0 & 1 == 1 { "set" } else { "clear" };
        format!("power bit {bit} (0x{:02x})", self.0)
    }
}

impl From<GetChassisStatus> for Message {
    fn from(_: GetChassisStatus) -> Self {
        Self::new_request(NetFn::Chassis, 0x01, Vec::new())
    }
}

impl IpmiCommand for GetChassisStatus {
    type Output = ChassisStatus;
    type Error = TooShort;

    fn parse_success_response(data: &[u8]) -> Result<ChassisStatus, TooShort> {
        // A complete response has at least three bytes; a truncated one is no state.
        match data {
            [power, _, misc, ..] => Ok(ChassisStatus(*power, *misc)),
            _ => Err(TooShort),
        }
    }
}

/// Chassis Control (IPMI 2.0, table 28-4), and its name and code for messages. `None`: IPMI has no power
/// button; power up and the soft shutdown do not depend on the power state.
pub(super) fn control(command: PowerCommand) -> Option<(Message, &'static str)> {
    let (byte, word) = match command {
        PowerCommand::Off => (0, "Chassis Control 0x00 (power down)"),
        PowerCommand::On => (1, "Chassis Control 0x01 (power up)"),
        PowerCommand::Reset => (3, "Chassis Control 0x03 (hard reset)"),
        PowerCommand::Nmi => (4, "Chassis Control 0x04 (diagnostic interrupt)"),
        PowerCommand::SoftOff => (5, "Chassis Control 0x05 (soft shutdown)"),
        PowerCommand::OnByButton | PowerCommand::SoftOffByButton => return None,
    };
    let message = Message::new_request(NetFn::Chassis, 0x02, vec![byte]);
    Some((message, word))
}

/// Chassis Identify (IPMI 2.0, table 28-7): whole seconds, rounded up, and a flag for "until
/// switched off". `None`: longer than 255 s.
pub(super) fn identify(wanted: Identify) -> Option<Message> {
    let data = match wanted {
        Identify::Off => vec![0],
        Identify::On => vec![0, 1],
        Identify::For(time) => {
            let part = u64::from(time > Duration::from_secs(time.as_secs()));
            let seconds = time.as_secs().saturating_add(part);
            vec![u8::try_from(seconds).ok()?]
        }
    };
    Some(Message::new_request(NetFn::Chassis, 0x04, data))
}

/// Cold Reset (IPMI 2.0, section 20.2).
pub(super) fn cold_reset() -> Message {
    Message::new_request(NetFn::App, 0x02, Vec::new())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn power_state_is_bit_0_of_chassis_status() {
        for (byte, state) in [
            (0x00, PowerState::Off),
            (0x01, PowerState::On),
            (0x7e, PowerState::Off),
            (0x61, PowerState::On),
        ] {
            assert_eq!(ChassisStatus(byte, 0).state(), state);
        }
        assert_eq!(ChassisStatus(0x60, 0).raw(), "power bit clear (0x60)");
        assert_eq!(ChassisStatus(0x61, 0).raw(), "power bit set (0x61)");
    }

    #[test]
    fn identify_state_is_in_bits_4_and_5_of_the_misc_state() {
        for (misc, lit) in [
            (0x00, None),
            (0x30, None),
            (0x40, Some(false)),
            (0x50, Some(true)),
            (0x6f, Some(true)),
        ] {
            assert_eq!(ChassisStatus(0, misc).identify_led(), lit, "{misc:#x}");
        }
    }

    #[test]
    fn truncated_chassis_status_is_rejected() {
        for data in [&[][..], &[0], &[0, 0]] {
            assert_eq!(
                GetChassisStatus::parse_success_response(data),
                Err(TooShort)
            );
        }
    }

    #[test]
    fn chassis_control_codes_follow_table_28_4() {
        let mut bytes: Vec<u8> = Vec::new();
        for command in PowerCommand::ALL {
            let Some((message, word)) = control(command) else {
                assert!(command.is_button(), "{command:?}");
                continue;
            };
            bytes.extend(message.data());
            assert!(word.contains(&format!("0x{:02x} ", message.data()[0])));
        }
        assert_eq!(bytes, [1, 0, 5, 3, 4]);
    }

    #[test]
    fn identify_accepts_1_to_255_seconds() {
        let data = |wanted| identify(wanted).map(|message| message.data().to_vec());
        let of = |millis| data(Identify::For(Duration::from_millis(millis)));
        assert_eq!(data(Identify::Off), Some(vec![0]));
        assert_eq!(data(Identify::On), Some(vec![0, 1]));
        assert_eq!(of(15_000), Some(vec![15]));
        assert_eq!(of(1), Some(vec![1]));
        assert_eq!(of(255_000), Some(vec![255]));
        assert_eq!(of(255_001), None);
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_chassis_status_does_not_panic(data in vec(any::<u8>(), 0..9)) {
            let status = GetChassisStatus::parse_success_response(&data);
            prop_assert_eq!(status.is_ok(), data.len() >= 3);
        }
    }
}
