//! `events`.

use clap::{Args, Subcommand};

use super::{Common, ConfirmedChangeArgs, EXIT_CODES, Hosts, LongReadArgs};

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    pub(crate) action: EventsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsAction {
    /// List the newest entries, oldest first.
    #[command(after_help = EXIT_CODES)]
    List(EventsListArgs),
    /// Clear the log. This cannot be undone: asks for confirmation, or takes --yes.
    #[command(after_help = EXIT_CODES)]
    Clear(EventsClearArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EventsListArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// Maximum number of entries per host.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) long: LongReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EventsClearArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) confirmed: ConfirmedChangeArgs,
}

impl EventsAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.long.common,
            Self::Clear(args) => &mut args.confirmed.change.common,
        }
    }
}
