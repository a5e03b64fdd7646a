//! Boot override: the device that a host boots from next.

/// A source to boot from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BootDevice {
    /// No override: the firmware's own order.
    Normal,
    /// Network, PXE.
    Pxe,
    /// Network, UEFI HTTP. Redfish only.
    UefiHttp,
    /// Local disk.
    Disk,
    /// CD or DVD, virtual media too.
    Cd,
    /// USB, or floppy on IPMI (IPMI 2.0, table 28-14, has no USB of its own).
    Usb,
    /// The firmware's setup program.
    BiosSetup,
    /// The firmware's diagnostics.
    Diagnostics,
}

impl BootDevice {
    /// All devices.
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::Pxe,
        Self::UefiHttp,
        Self::Disk,
        Self::Cd,
        Self::Usb,
        Self::BiosSetup,
        Self::Diagnostics,
    ];
}

/// Lifetime of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BootPersistence {
    /// For the next boot only.
    #[default]
    Once,
    /// Until it is changed.
    Persistent,
}

/// Boot mode of the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BootMode {
    /// UEFI.
    #[default]
    Uefi,
    /// Legacy BIOS.
    Legacy,
}

/// A boot override, as requested or as the BMC reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootOverride {
    /// The device to boot from.
    pub device: BootDevice,
    /// Lifetime of the override.
    pub persistence: BootPersistence,
    /// Boot mode. `None`: not reported, or (in a request) the setting of the firmware.
    pub mode: Option<BootMode>,
}
