//! `pdu`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Common, CycleArgs, EXIT_CODES, ReadArgs, SwitchArgs, duration};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PduArgs {
    #[command(subcommand)]
    pub(crate) action: PduAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PduAction {
    /// List the PDUs whose outlets can be switched, and whether they respond.
    #[command(after_help = EXIT_CODES)]
    List(PduListArgs),
    /// Show every outlet of a PDU with its state, its current and the host that it feeds.
    #[command(after_help = EXIT_CODES)]
    Outlets(PduOutletsArgs),
    /// Read whether hosts have power at their outlets.
    #[command(after_help = EXIT_CODES)]
    Status(ReadArgs),
    /// Switch on all outlets of hosts one after the other, and wait until all are exactly "on".
    #[command(after_help = EXIT_CODES)]
    On(SwitchArgs),
    /// Switch off all outlets of hosts, and wait until all have been exactly "off" and without a current
    /// twice, 2 s apart. Nothing is switched unless all outlets of the host can be read.
    #[command(after_help = EXIT_CODES)]
    Off(SwitchArgs),
    /// Switch off all outlets of hosts, wait until that is confirmed, and switch on again after a while.
    #[command(after_help = EXIT_CODES)]
    Cycle(CycleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PduListArgs {
    /// Time limit for one PDU, such as 5s.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct PduOutletsArgs {
    /// Name of the PDU in the configuration of the agent.
    #[arg(value_name = "PDU")]
    pub(crate) pdu: String,
    /// Time limit for the PDU, such as 5s.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl PduAction {
    /// How hosts are switched, where they are.
    pub(crate) fn switch(&self) -> Option<&SwitchArgs> {
        match self {
            Self::List(_) | Self::Outlets(_) | Self::Status(_) => None,
            Self::On(args) | Self::Off(args) => Some(args),
            Self::Cycle(args) => Some(&args.switch),
        }
    }

    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::Outlets(args) => &mut args.common,
            Self::Status(args) => &mut args.common,
            Self::On(args) | Self::Off(args) => &mut args.common,
            Self::Cycle(args) => &mut args.switch.common,
        }
    }
}
