//! `operations`.

use clap::{Args, Subcommand};

use super::Common;

#[derive(Debug, Args)]
pub(crate) struct OperationsArgs {
    #[command(subcommand)]
    pub(crate) action: OperationsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationsAction {
    /// The newest first.
    List(OperationsListArgs),
    /// One operation, whole.
    Show(OperationArgs),
    /// Stop one before its next command to the BMC. What was sent stays sent. One of a remediation
    /// needs --force.
    Cancel(OperationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OperationsListArgs {
    /// Only of this host.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Only those that are not over.
    #[arg(long)]
    pub(crate) running: bool,
    /// At most so many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OperationArgs {
    /// Its id, as `operations list` shows it.
    pub(crate) operation: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl OperationsAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::Show(args) | Self::Cancel(args) => &mut args.common,
        }
    }
}
