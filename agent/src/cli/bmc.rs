//! `bmc`.

use clap::{Args, Subcommand};

use super::{Common, ConfirmedChangeArgs, EXIT_CODES, Hosts, LongReadArgs};

#[derive(Debug, Args)]
pub(crate) struct BmcArgs {
    #[command(subcommand)]
    pub(crate) action: BmcAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BmcAction {
    /// Show firmware, account, cipher suite and clock of BMCs.
    #[command(after_help = EXIT_CODES)]
    Info(BmcInfoArgs),
    /// Restart BMCs; their hosts keep running. A BMC answers nothing for one to three minutes then, so
    /// that its host cannot be fenced: asks for confirmation, or takes --yes.
    #[command(after_help = EXIT_CODES)]
    Reset(BmcResetArgs),
    /// Change the passwords of BMCs to new random ones. Each is proven by a log-in with every driver of the host
    /// before its password_file is replaced, and set back if one refuses it: asks for confirmation, or takes
    /// --yes. A host needs a password_file of its own, in a directory that the agent may write to.
    #[command(after_help = EXIT_CODES)]
    RotatePassword(BmcChangeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BmcInfoArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    #[command(flatten)]
    pub(crate) long: LongReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BmcChangeArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) confirmed: ConfirmedChangeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BmcResetArgs {
    #[command(flatten)]
    pub(crate) change: BmcChangeArgs,
    /// Restart although the BMC reports that firmware is being updated, which may leave BMC or host unusable. Without
    /// it, the updates are read right before, and a BMC with one that runs is not restarted.
    #[arg(long)]
    pub(crate) during_firmware_update: bool,
}

impl BmcAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::Info(args) => &mut args.long.common,
            Self::Reset(args) => &mut args.change.confirmed.change.common,
            Self::RotatePassword(args) => &mut args.confirmed.change.common,
        }
    }
}
