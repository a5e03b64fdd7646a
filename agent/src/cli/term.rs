//! `term`.

use clap::{Args, Subcommand};

use super::Common;

#[derive(Debug, Args)]
pub(crate) struct TermArgs {
    #[command(subcommand)]
    pub(crate) action: TermAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TermAction {
    /// List every election with its highest claimed term, and how it was set back.
    List(TermListArgs),
    /// Set the term of an election back, after a claim that no controller of it has made. Only on the
    /// agent's own machine.
    SetBack(TermSetBackArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TermListArgs {
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct TermSetBackArgs {
    /// The election, as `term list` shows it.
    #[arg(long)]
    pub(crate) election: String,
    /// The highest term that counts as used: spec.leaseTransitions of the controllers' Lease.
    #[arg(long)]
    pub(crate) to: u64,
    /// Reason, for the journal.
    #[arg(long)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl TermAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::SetBack(args) => &mut args.common,
        }
    }
}
