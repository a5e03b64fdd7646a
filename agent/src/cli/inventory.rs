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
    /// Validate a configuration with its inventory, and show its content. The same as check.
    Check(CheckArgs),
    /// Print an inventory generated from manifests of Metal3: BareMetalHosts and their Secrets. The
    /// agent also reads manifests directly; this is for racks that stop using Metal3.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files of manifests, as `kubectl get -o yaml` writes them.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Directory for the passwords: one file per host, readable by its owner only.
    #[arg(long, value_name = "DIR", default_value = "secrets")]
    pub(crate) secrets: PathBuf,
}
