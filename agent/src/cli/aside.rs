//! `boot-device`, `identify`, `sensors` and `events`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Common, EXIT_CODES, Hosts, ReadArgs, duration};

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

/// Something other than power is changed, and that is asked about first.
#[derive(Debug, Args)]
pub(crate) struct Asking {
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) changing: Changing,
}

/// Something other than power is changed.
#[derive(Debug, Args)]
pub(crate) struct Changing {
    /// Show what would be done to which hosts, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long one BMC may take, its turn behind other operations included.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
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
    pub(crate) asking: Asking,
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

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct IdentifyArgs {
    /// on, off, or for how long it is lit, such as 30 (seconds), 90s or 10m. Where the BMC has no
    /// timer, the agent puts it out.
    #[arg(value_name = "on|off|TIME", value_parser = led)]
    pub(crate) led: Led,
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    #[command(flatten)]
    pub(crate) changing: Changing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Led {
    On,
    Off,
    For(Duration),
}

/// Something is read that takes a BMC many answers.
#[derive(Debug, Args)]
pub(crate) struct LongRead {
    /// How long one BMC may take, such as 30s; 60s at most.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SensorsArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// A row for each sensor, not for each host. JSON and YAML have them all in any case.
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) long: LongRead,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    pub(crate) action: EventsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsAction {
    /// The newest entries, oldest first.
    #[command(after_help = EXIT_CODES)]
    List(EventsListArgs),
    /// Empty the log. It cannot be had back: asks first, or takes --yes.
    #[command(after_help = EXIT_CODES)]
    Clear(EventsClearArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EventsListArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// At most so many of each host.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) long: LongRead,
}

#[derive(Debug, Args)]
pub(crate) struct EventsClearArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// `on`, `off`, seconds, or a time with its unit.
pub(super) fn led(text: &str) -> Result<Led, String> {
    match text {
        "on" => return Ok(Led::On),
        "off" => return Ok(Led::Off),
        _ => {}
    }
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    let time = match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => duration(text),
    };
    time.map(Led::For)
        .map_err(|_| "not on, off, or a time such as 30s".to_owned())
}

impl BootAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::Show(args) => &mut args.common,
            Self::Set(args) => &mut args.asking.changing.common,
        }
    }
}

impl EventsAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.long.common,
            Self::Clear(args) => &mut args.asking.changing.common,
        }
    }
}
