//! `host`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};

use super::{Common, HOSTS, Hosts, duration};

const CHECKS: &str = "\
Each row is ok, warning, failed or skipped (something before it failed), with what was found and what
to do next. The exit code is 1 if anything failed. A warning does not stop power from being switched.";

const CERTIFIES: &str = "\
The host is left on or off, as it was found. The report names the model and its firmware; serial numbers,
UUIDs, names and addresses are left out or replaced. It is Markdown, or JSON with -o json. The exit code is
1 if a rule of fencing does not hold, or the command did not end, and 3 if somebody else uses the host.";

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
    /// Try on one host everything that fencing needs, and report it: a shutdown, resets, power-offs and
    /// power-ons, and what the BMC reports meanwhile. Cuts off what runs on the host.
    #[command(after_help = CERTIFIES)]
    Certify(HostCertifyArgs),
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

#[derive(Debug, Args)]
pub(crate) struct HostCertifyArgs {
    /// Name, Node name, provider id or system UUID of the host.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show the steps without doing them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write report.md and report.json into this directory too.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Send no diagnostic interrupt (NMI).
    #[arg(long)]
    pub(crate) without_nmi: bool,
    /// Time for the operating system to shut down.
    #[arg(long, default_value = "3m", value_parser = duration)]
    pub(crate) soft_off_limit: Duration,
    /// Time for which the host is read while it is off.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) off_for: Duration,
    /// Time limit of each operation, such as 90s. The default is 5m, or longer if the shutdown may take longer.
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl HostAction {
    pub(super) fn common_mut(&mut self) -> &mut Common {
        match self {
            Self::List(args) => &mut args.common,
            Self::Show(args) => &mut args.common,
            Self::Check(args) => &mut args.common,
            Self::Certify(args) => &mut args.common,
        }
    }
}
