//! `inventory`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CheckArgs;

#[derive(Debug, Args)]
pub(crate) struct InventoryArgs {
    #[command(subcommand)]
    pub(crate) action: InventoryAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InventoryAction {
    /// Judge a configuration with its inventory, and show what is in it. The same as check.
    Check(CheckArgs),
    /// Print an inventory made of Metal3's manifests: BareMetalHosts and the Secrets that they
    /// name. The agent takes manifests as they are too; this is for a rack that is to leave them.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files of manifests, as `kubectl get -o yaml` writes them.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Directory for the passwords, a file for each host, for its owner alone.
    #[arg(long, value_name = "DIR", default_value = "secrets")]
    pub(crate) secrets: PathBuf,
}
