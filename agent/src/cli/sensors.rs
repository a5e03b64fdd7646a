//! `sensors`.

use clap::Args;

use super::{EXIT_CODES, Hosts, LongReadArgs};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SensorsArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// One row per sensor instead of per host. JSON and YAML always contain all sensors.
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) long: LongReadArgs,
}
