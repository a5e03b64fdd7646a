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
    /// List operations, newest first.
    List(OperationsListArgs),
    /// Show one operation with all details.
    Show(OperationArgs),
    /// Cancel an operation before its next command to the BMC. Commands that were sent are not
    /// revoked. An operation of a remediation needs --force.
    Cancel(OperationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OperationsListArgs {
    /// Only operations on this host.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Only running operations.
    #[arg(long)]
    pub(crate) running: bool,
    /// Maximum number of operations.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OperationArgs {
    /// Operation id, as in `operations list`.
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
