//! `serve`, `check`, `enroll`, `sim`, `completions`, `man`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{CONFIG, duration};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file.
    #[arg(
        long,
        env = "RACKHAND_AGENT_CONFIG",
        default_value = CONFIG
    )]
    pub(crate) config: PathBuf,
    /// Log format on standard error.
    #[arg(long, env = "RACKHAND_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Log level, or levels by module.
    #[arg(long, env = "RACKHAND_LOG", default_value = "info")]
    pub(crate) log: String,
    /// Serve /livez and /readyz at this address too, without metrics, for the probes of a kubelet.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) probe_listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Configuration file.
    #[arg(
        long,
        env = "RACKHAND_AGENT_CONFIG",
        default_value = CONFIG
    )]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct EnrollArgs {
    /// Address at which controllers reach this agent, host:port.
    #[arg(long)]
    pub(crate) endpoint: String,
    /// Trust domain of the cluster's certificates, such as example.org.
    #[arg(long)]
    pub(crate) trust_domain: String,
    /// Name of the RackAgent; the default is the rack.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Directory for key and request; the default is the directory of `tls` in the configuration.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print only one of the two.
    #[arg(long, value_enum)]
    pub(crate) only: Option<Enrolled>,
    /// Configuration file.
    #[arg(long, env = "RACKHAND_AGENT_CONFIG", default_value = CONFIG)]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Enrolled {
    /// The RackAgent manifest.
    Manifest,
    /// The certificate request.
    Request,
}

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Number of hosts. Each needs one or two sockets.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) hosts: u16,
    /// Number of hosts with a silent BMC; these are the last ones.
    #[arg(long, default_value_t = 1)]
    pub(crate) dead: u16,
    /// Time limit of the agent for connecting to a BMC.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) patience: Duration,
    /// Protocol of the other BMCs.
    #[arg(long, value_enum, default_value_t = SimulatedProtocol::Both)]
    pub(crate) speaks: SimulatedProtocol,
    /// Serve a recorded Redfish service: a folder of index.json files, as DMTF's mockup tools write them. Its
    /// power can be switched. Repeat it for more hosts, one for each folder, instead of the simulated makes.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["hosts", "dead", "speaks"])]
    pub(crate) recording: Vec<PathBuf>,
    /// Directory for configuration, inventory and journal; the default is a temporary directory.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulatedProtocol {
    /// Every third host IPMI, the others Redfish.
    Both,
    Redfish,
    Ipmi,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages; it is created if missing.
    pub(crate) dir: PathBuf,
}
