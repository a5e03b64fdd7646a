//! `power`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Common, EXIT_CODES, ReadArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PowerArgs {
    #[command(subcommand)]
    pub(crate) action: PowerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PowerAction {
    /// Read the current power state from the BMC.
    #[command(after_help = EXIT_CODES)]
    Status(ReadArgs),
    /// Switch on, and wait until the BMC reports exactly "on".
    #[command(after_help = EXIT_CODES)]
    On(SwitchArgs),
    /// Switch off hard, or with --soft by a shutdown of the operating system, and wait until the BMC
    /// has reported exactly "off" twice, 2 s apart.
    #[command(after_help = EXIT_CODES)]
    Off(OffArgs),
    /// Request a shutdown once, and wait until the BMC has reported exactly "off" twice, 2 s apart.
    /// The same as off --soft.
    #[command(after_help = EXIT_CODES)]
    SoftOff(SoftOffArgs),
    /// Switch off hard, wait until that is confirmed, and switch on again after a while. A host
    /// that is off is sent another power-off before it is switched on.
    #[command(after_help = EXIT_CODES)]
    Cycle(CycleArgs),
    /// Reset hard. Sent once: without a response it is unknown whether it was carried out.
    #[command(after_help = EXIT_CODES)]
    Reset(SwitchArgs),
    /// Send a diagnostic interrupt (NMI), which makes most operating systems dump and restart.
    /// Sent once, like a reset.
    #[command(after_help = EXIT_CODES)]
    Nmi(SwitchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Do not ask for confirmation before more than one host is switched off, cycled, reset or
    /// interrupted.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be done to which hosts, without doing it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time limit of the operation, such as 90s. The default is 5m, or longer if a requested wait
    /// needs it.
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Switch although the BMC reports that firmware is being updated, which may leave the host unusable. Without it,
    /// the updates are read right before each command, and none is sent while one runs; one that was
    /// sent before may still take effect.
    #[arg(long)]
    pub(crate) during_firmware_update: bool,
    /// Do not wait for the outcome: the operation continues in the agent.
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OffArgs {
    /// Request a shutdown once, and wait for it, without forcing it.
    #[arg(long)]
    pub(crate) soft: bool,
    /// Time limit of the shutdown, such as 90s or 3m.
    #[arg(long, requires = "soft", default_value = "3m", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Switch off hard after the limit, or at once if the BMC cannot request a shutdown.
    #[arg(long, requires = "soft")]
    pub(crate) then_force: bool,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SoftOffArgs {
    /// Time limit of the shutdown, such as 90s or 3m.
    #[arg(long, default_value = "3m", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Switch off hard after the limit, or at once if the BMC cannot request a shutdown.
    #[arg(long)]
    pub(crate) then_force: bool,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CycleArgs {
    /// Time that the host stays off, such as 10s; at most 60s.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) hold_off: Duration,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

impl PowerAction {
    /// How hosts are switched, where they are.
    pub(crate) fn switch(&self) -> Option<&SwitchArgs> {
        Some(match self {
            Self::Status(_) => return None,
            Self::On(args) | Self::Reset(args) | Self::Nmi(args) => args,
            Self::Off(args) => &args.switch,
            Self::SoftOff(args) => &args.switch,
            Self::Cycle(args) => &args.switch,
        })
    }

    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::Status(args) => &mut args.common,
            Self::On(args) | Self::Reset(args) | Self::Nmi(args) => &mut args.common,
            Self::Off(args) => &mut args.switch.common,
            Self::SoftOff(args) => &mut args.switch.common,
            Self::Cycle(args) => &mut args.switch.common,
        }
    }
}
