//! The boot override (IPMI 2.0, sections 28.12 to 28.14).

use ipmi_rs_core::connection::{IpmiCommand, Message, NetFn};

use super::chassis::TooShort;
use crate::{BootDevice, BootMode, BootOverride, BootPersistence};

/// Parameter 0: set in progress.
const PROGRESS: u8 = 0;
/// Parameter 3: conditions under which the BMC clears the boot flags.
const CLEARING: u8 = 3;
/// Parameter 5: boot flags.
const FLAGS: u8 = 5;

const VALID: u8 = 0x80;
const PERSISTENT: u8 = 0x40;
const EFI: u8 = 0x20;

/// Set System Boot Options (IPMI 2.0, table 28-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetBootOption(Vec<u8>);

impl SetBootOption {
    /// Marks the start of a change. Many BMCs do not support this.
    pub(super) fn begin() -> Self {
        Self(vec![PROGRESS, 1])
    }

    /// Marks the end of a change.
    pub(super) fn complete() -> Self {
        Self(vec![PROGRESS, 0])
    }

    /// Keeps the boot flags although no power command follows within 60 s (table 28-14, parameter
    /// 3, bit 3), as Ironic does: a host may be held off in between.
    pub(super) fn keep() -> Self {
        Self(vec![CLEARING, 0x08])
    }

    /// Sets the boot flags.
    pub(super) fn flags(flags: Flags) -> Self {
        let [first, second] = flags.0;
        Self(vec![FLAGS, first, second, 0, 0, 0])
    }
}

impl From<SetBootOption> for Message {
    fn from(option: SetBootOption) -> Self {
        Self::new_request(NetFn::Chassis, 0x08, option.0)
    }
}

impl IpmiCommand for SetBootOption {
    type Output = ();
    type Error = TooShort;

    fn parse_success_response(_: &[u8]) -> Result<(), TooShort> {
        Ok(())
    }
}

/// Get System Boot Options for the boot flags (IPMI 2.0, table 28-13).
#[derive(Debug, Clone, Copy)]
pub(super) struct GetBootFlags;

impl From<GetBootFlags> for Message {
    fn from(_: GetBootFlags) -> Self {
        Self::new_request(NetFn::Chassis, 0x09, vec![FLAGS, 0, 0])
    }
}

impl IpmiCommand for GetBootFlags {
    type Output = Flags;
    type Error = TooShort;

    fn parse_success_response(data: &[u8]) -> Result<Flags, TooShort> {
        match data {
            // The parameter is marked as invalid or locked.
            [_, parameter, ..] if parameter & 0x80 != 0 => Ok(Flags([0, 0])),
            [_, _, first, second, ..] => Ok(Flags([*first, *second])),
            _ => Err(TooShort),
        }
    }
}

/// The first two bytes of the boot flags (IPMI 2.0, table 28-14, parameter 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags([u8; 2]);

impl Flags {
    /// The flags for an override. If it does not specify a mode, the mode of the current flags
    /// `now` is kept. `None`: IPMI does not define the device.
    pub(super) fn of(wanted: BootOverride, now: Option<Self>) -> Option<Self> {
        let device = match wanted.device {
            BootDevice::Normal => 0,
            BootDevice::Pxe => 1,
            BootDevice::Disk => 2,
            BootDevice::Diagnostics => 4,
            BootDevice::Cd => 5,
            BootDevice::BiosSetup => 6,
            BootDevice::Usb => 15,
            BootDevice::UefiHttp => return None,
        };
        let mut first = VALID;
        if wanted.persistence == BootPersistence::Persistent {
            first |= PERSISTENT;
        }
        let is_efi = match wanted.mode {
            Some(mode) => mode == BootMode::Uefi,
            None => now.is_some_and(|Self([first, _])| first & EFI != 0),
        };
        if is_efi {
            first |= EFI;
        }
        Some(Self([first, device << 2]))
    }

    /// The override that the flags mean. Invalid flags override nothing; `None` for a device that
    /// [`BootDevice`] does not define (remote media, safe mode).
    pub(super) fn meaning(self) -> Option<BootOverride> {
        let Self([first, second]) = self;
        if first & VALID == 0 {
            return Some(BootOverride {
                device: BootDevice::Normal,
                persistence: BootPersistence::Once,
                mode: None,
            });
        }
        let device = match second >> 2 & 0x0f {
            0 => BootDevice::Normal,
            1 => BootDevice::Pxe,
            2 | 3 | 11 => BootDevice::Disk,
            4 => BootDevice::Diagnostics,
            5 | 8 => BootDevice::Cd,
            6 => BootDevice::BiosSetup,
            7 | 9 | 15 => BootDevice::Usb,
            _ => return None,
        };
        let persistence = if first & PERSISTENT == 0 {
            BootPersistence::Once
        } else {
            BootPersistence::Persistent
        };
        let mode = if first & EFI == 0 {
            BootMode::Legacy
        } else {
            BootMode::Uefi
        };
        Some(BootOverride {
            device,
            persistence,
            mode: Some(mode),
        })
    }

    /// Hexadecimal bytes, for messages.
    pub(super) fn raw(self) -> String {
        let Self([first, second]) = self;
        format!("0x{first:02x} 0x{second:02x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn wanted(device: BootDevice, mode: Option<BootMode>) -> BootOverride {
        BootOverride {
            device,
            persistence: BootPersistence::Once,
            mode,
        }
    }

    #[test]
    fn boot_flags_follow_table_28_14() {
        let pxe = wanted(BootDevice::Pxe, Some(BootMode::Uefi));
        assert_eq!(Flags::of(pxe, None), Some(Flags([0xa0, 0x04])));
        let disk = BootOverride {
            persistence: BootPersistence::Persistent,
            ..wanted(BootDevice::Disk, Some(BootMode::Legacy))
        };
        assert_eq!(Flags::of(disk, None), Some(Flags([0xc0, 0x08])));
        let sent = SetBootOption::flags(Flags([0xa0, 0x04]));
        assert_eq!(Message::from(sent).data(), [5, 0xa0, 0x04, 0, 0, 0]);
        assert_eq!(Message::from(SetBootOption::keep()).data(), [3, 8]);
    }

    #[test]
    fn unspecified_boot_mode_is_kept() {
        let setup = wanted(BootDevice::BiosSetup, None);
        let efi = Flags::of(setup, Some(Flags([EFI, 0]))).and_then(Flags::meaning);
        assert_eq!(efi.and_then(|boot| boot.mode), Some(BootMode::Uefi));
        let legacy = Flags::of(setup, Some(Flags([0, 0]))).and_then(Flags::meaning);
        assert_eq!(legacy.and_then(|boot| boot.mode), Some(BootMode::Legacy));
    }

    #[test]
    fn invalid_boot_flags_mean_normal_boot() {
        let normal = Some(wanted(BootDevice::Normal, None));
        assert_eq!(Flags([0x60, 0x04]).meaning(), normal);
        let locked = GetBootFlags::parse_success_response(&[1, 0x85, 0xa0, 4, 0, 0, 0]);
        assert_eq!(locked.map(Flags::meaning), Ok(normal));
        assert_eq!(Flags::of(wanted(BootDevice::UefiHttp, None), None), None);
    }

    proptest! {
        #[test]
        fn boot_override_round_trips(device in prop::sample::select(BootDevice::ALL.to_vec()), lasting: bool, efi: bool) {
            prop_assume!(device != BootDevice::UefiHttp);
            let boot = BootOverride {
                device,
                persistence: if lasting { BootPersistence::Persistent } else { BootPersistence::Once },
                mode: Some(if efi { BootMode::Uefi } else { BootMode::Legacy }),
            };
            prop_assert_eq!(Flags::of(boot, None).and_then(Flags::meaning), Some(boot));
        }

        #[test]
        fn parsing_arbitrary_boot_flags_does_not_panic(data in vec(any::<u8>(), 0..9)) {
            if let Ok(flags) = GetBootFlags::parse_success_response(&data) {
                let _ = (flags.meaning(), flags.raw());
            }
        }
    }
}
