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
    Reset(BmcChangeArgs),
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

impl BmcAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::Info(args) => &mut args.long.common,
            Self::Reset(args) | Self::RotatePassword(args) => &mut args.confirmed.change.common,
        }
    }
}
