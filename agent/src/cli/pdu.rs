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
    /// twice, 2 s apart. Nothing is switched unless all outlets of the host can be read, and all other hosts that
    /// they feed are off.
    #[command(after_help = EXIT_CODES)]
    Off(OutletOffArgs),
    /// Switch off all outlets of hosts, wait until that is confirmed, and switch on again after a while.
    #[command(after_help = EXIT_CODES)]
    Cycle(OutletCycleArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OutletOffArgs {
    #[command(flatten)]
    pub(crate) siblings: SiblingArgs,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutletCycleArgs {
    #[command(flatten)]
    pub(crate) siblings: SiblingArgs,
    #[command(flatten)]
    pub(crate) cycle: CycleArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SiblingArgs {
    /// Names of other hosts that the same outlets feed, such as the other sleds of an enclosure, and that may
    /// lose their power although they are not off. Recorded with the operation.
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    pub(crate) with_siblings: Vec<String>,
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
            Self::On(args) => Some(args),
            Self::Off(args) => Some(&args.switch),
            Self::Cycle(args) => Some(&args.cycle.switch),
        }
    }

    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::Outlets(args) => &mut args.common,
            Self::Status(args) => &mut args.common,
            Self::On(args) => &mut args.common,
            Self::Off(args) => &mut args.switch.common,
            Self::Cycle(args) => &mut args.cycle.switch.common,
        }
    }
}
