//! `host`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{Common, HOSTS, Hosts, duration};

const CHECKS: &str = "\
Each row is ok, warning, failed or skipped (something before it failed), with what was found and what
to do next. The exit code is 1 if anything failed. A warning does not stop power from being switched.";

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    pub(crate) action: HostAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostAction {
    /// List all hosts, or the named ones.
    #[command(after_help = HOSTS)]
    List(HostListArgs),
    /// Show one host with all details.
    Show(HostShowArgs),
    /// Check everything that power control of a host needs: name, route, TLS, credentials,
    /// privilege, cipher suite, Redfish, actions, identity, clock. Changes nothing.
    #[command(after_help = CHECKS)]
    Check(HostCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HostListArgs {
    /// Name, range of names, label, @FILE or -; all hosts if none is named.
    #[arg(value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct HostShowArgs {
    /// Name, Node name, provider id or system UUID of the host.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct HostCheckArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// Time limit for one host, such as 30s; at most 60s.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl HostAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::Show(args) => &mut args.common,
            Self::Check(args) => &mut args.common,
        }
    }
}
