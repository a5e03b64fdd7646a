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
    /// What the BMC says it boots from next.
    #[command(after_help = EXIT_CODES)]
    Show(ReadArgs),
    /// Set it. The host itself is left alone: the firmware looks at it when it starts next.
    #[command(after_help = EXIT_CODES)]
    Set(BootSetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BootSetArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// What to boot from; none: the firmware's own order.
    #[arg(value_enum, required = true)]
    pub(crate) device: Option<BootDevice>,
    /// Until it is changed, not for the next boot only.
    #[arg(long)]
    pub(crate) persistent: bool,
    /// Boot by UEFI.
    #[arg(long, conflicts_with = "legacy")]
    pub(crate) uefi: bool,
    /// Boot by legacy BIOS.
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
