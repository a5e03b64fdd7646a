//! `boot-device`.

use clap::{Args, Subcommand, ValueEnum};

use super::{Common, ConfirmedChangeArgs, EXIT_CODES, ReadArgs};

#[derive(Debug, Args)]
pub(crate) struct BootArgs {
    #[command(subcommand)]
    pub(crate) action: BootAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BootAction {
    /// Show the boot device of the next start.
    #[command(after_help = EXIT_CODES)]
    Show(ReadArgs),
    /// Set the boot device. The host is not restarted: the firmware reads the setting at its next
    /// start.
    #[command(after_help = EXIT_CODES)]
    Set(BootSetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BootSetArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Boot device; none: the order of the firmware.
    #[arg(value_enum, required = true)]
    pub(crate) device: Option<BootDevice>,
    /// Keep the setting until it is changed; the default is the next boot only.
    #[arg(long)]
    pub(crate) persistent: bool,
    /// Boot in UEFI mode.
    #[arg(long, conflicts_with = "legacy")]
    pub(crate) uefi: bool,
    /// Boot in legacy BIOS mode.
    #[arg(long)]
    pub(crate) legacy: bool,
    #[command(flatten)]
    pub(crate) confirmed: ConfirmedChangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BootDevice {
    /// The firmware's own order.
    None,
    /// Network, PXE.
    Pxe,
    /// Network, UEFI HTTP; Redfish only.
    Http,
    /// Local disk.
    Disk,
    /// CD or DVD, virtual media too.
    Cd,
    /// USB; with IPMI, floppy.
    Usb,
    /// The firmware's setup.
    Bios,
    /// The firmware's diagnostics.
    Diag,
}

impl BootAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::Show(args) => &mut args.common,
            Self::Set(args) => &mut args.confirmed.change.common,
        }
    }
}
