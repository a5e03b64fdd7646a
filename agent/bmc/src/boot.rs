//! What a host boots from next.

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
    /// Every device.
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

/// For how long an override holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BootPersistence {
    /// For the next boot only.
    #[default]
    Once,
    /// Until it is changed.
    Persistent,
}

/// How the firmware boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BootMode {
    /// UEFI.
    #[default]
    Uefi,
    /// Legacy BIOS.
    Legacy,
}

/// A boot override as asked for, or as the BMC shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BootOverride {
    /// From where.
    pub device: BootDevice,
    /// For how long.
    pub persistence: BootPersistence,
    /// How. `None`: the BMC does not say, or (when asked for) as the firmware is set.
    pub mode: Option<BootMode>,
}
