//! `sensors`.

use clap::Args;

use super::{EXIT_CODES, Hosts, LongReadArgs};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SensorsArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// A row for each sensor, not for each host. JSON and YAML have them all in any case.
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) long: LongReadArgs,
}
