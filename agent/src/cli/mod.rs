//! Command-line arguments, one module per command.

mod bmc;
mod boot_device;
pub(crate) mod completions;
mod daemon;
mod event_log;
mod host;
mod identify;
mod inventory;
mod operations;
mod pdu;
mod power;
mod sensors;
mod term;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf, sync::LazyLock, time::Duration};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

pub(crate) use bmc::{BmcAction, BmcArgs, BmcChangeArgs, BmcInfoArgs, BmcResetArgs};
pub(crate) use boot_device::{BootAction, BootArgs, BootDevice, BootSetArgs};
pub(crate) use daemon::{
    CheckArgs, CompletionsArgs, EnrollArgs, Enrolled, LogFormat, ManArgs, ServeArgs, SimArgs,
    SimulatedProtocol,
};
pub(crate) use event_log::{EventsAction, EventsArgs, EventsClearArgs, EventsListArgs};
pub(crate) use host::{HostAction, HostArgs, HostCertifyArgs, HostCheckArgs};
pub(crate) use identify::{IdentifyArgs, Led};
pub(crate) use inventory::{ImportArgs, InventoryAction, InventoryArgs};
pub(crate) use operations::{OperationsAction, OperationsArgs};
pub(crate) use pdu::{PduAction, PduArgs, PduListArgs, PduOutletsArgs};
pub(crate) use power::{CycleArgs, PowerAction, PowerArgs, SwitchArgs};
pub(crate) use sensors::SensorsArgs;
pub(crate) use term::{TermAction, TermArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0  done: the BMC confirmed the state; for nmi: the BMC took it
  1  failed, for at least one host: no such host, wrong password, or not confirmed - the deadline
     passed, or a command that is not repeated got no response; the state of the host is unknown
     then, read it with `power status`
  2  wrong usage, or the confirmation was declined
  3  refused: all hosts that were not changed are held by another owner, or you lack permission
  4  unreachable: the agent, or the BMCs of all hosts that were not changed";

const HOSTS: &str = "\
HOST is an inventory name, Node name, provider id or system UUID; a range of names such as
node-[01-40] or node-[1,3,7-9]; a label such as role=db, or rack=, position= or pdu=; @FILE with any of
these, or - for standard input.";

/// Default path of the configuration.
pub(crate) const CONFIG: &str = "/etc/rackhand/agent.toml";

/// Version, and the commit where the build names it.
static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("RACKHAND_COMMIT") {
    Some(commit) => format!("{} (commit {commit})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").to_owned(),
});

/// Switches bare-metal hosts of one rack, for a controller and for people.
#[derive(Debug, Parser)]
#[command(name = "rackhand-agent", version = VERSION.as_str(), after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the agent.
    Serve(ServeArgs),
    /// Validate a configuration file, and show its content.
    Check(CheckArgs),
    /// Read or switch the power of hosts.
    Power(PowerArgs),
    /// Read or switch the outlets of the PDUs that feed hosts.
    Pdu(PduArgs),
    /// Show the hosts of the rack, or diagnose why one cannot be switched.
    Host(HostArgs),
    /// Validate an inventory, or generate one from manifests.
    Inventory(InventoryArgs),
    /// Show facts about BMCs, restart them, or change their passwords.
    Bmc(BmcArgs),
    /// Read or set the boot device of hosts.
    BootDevice(BootArgs),
    /// Switch the identify LED of hosts on or off.
    Identify(IdentifyArgs),
    /// Read the sensors of hosts: power draw, inlet temperature and others.
    Sensors(SensorsArgs),
    /// Read or clear the event logs of BMCs (IPMI: SEL).
    Events(EventsArgs),
    /// Show or cancel the operations of the running agent.
    Operations(OperationsArgs),
    /// Show the terms of controllers that the agent knows, or set one back by hand.
    Term(TermArgs),
    /// Generate the key of this agent, and print what registers it in a cluster: a RackAgent and a
    /// certificate request.
    Enroll(EnrollArgs),
    /// Run a simulated rack for trials.
    Sim(SimArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Write manual pages into a directory.
    Man(ManArgs),
}

/// Parses the arguments; exits if they are invalid.
pub(crate) fn parsed() -> Cli {
    parse(std::env::args_os()).unwrap_or_else(|error| {
        if is_all(&error) {
            errln!("error: {NOT_ALL}");
            std::process::exit(2);
        }
        error.exit()
    })
}

/// Parses a command line.
fn parse<T: Into<OsString> + Clone>(line: impl IntoIterator<Item = T>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(line)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let Some(common) = cli.command.common_mut() else {
        return Ok(cli);
    };
    let mut leaf = &matches;
    while let Some((_, below)) = leaf.subcommand() {
        leaf = below;
    }
    if common.direct {
        // An agent that the environment names for all commands is not meant here.
        common.agent = None;
        if leaf.value_source("agent") == Some(ValueSource::CommandLine) {
            let why = "--direct connects to the BMCs without an agent: leave out --agent";
            return Err(command.error(ErrorKind::ArgumentConflict, why));
        }
    }
    if common.agent.is_some() && (common.rack.is_none() || common.tls_dir.is_none()) {
        let why = "a remote agent (--agent) also needs --rack and --tls-dir";
        return Err(command.error(ErrorKind::MissingRequiredArgument, why));
    }
    Ok(cli)
}

const NOT_ALL: &str = "commands that change hosts do not accept --all: name the hosts, or the rack with \
                       rack=NAME (`host list` shows them)";

/// Whether `--all` was given to a command that requires hosts by name.
fn is_all(error: &clap::Error) -> bool {
    let said = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::UnknownArgument
        && matches!(said, Some(ContextValue::String(word)) if word == "--all")
}

/// Hosts of a command that may apply to all.
#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(
        value_name = "HOST",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) hosts: Vec<String>,
    /// Every host of the inventory.
    #[arg(long)]
    pub(crate) all: bool,
}

/// Arguments of a command that reads.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// Time limit for one BMC, such as 5s.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of a command that reads with many requests.
#[derive(Debug, Args)]
pub(crate) struct LongReadArgs {
    /// Time limit for one BMC, such as 30s; at most 60s.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Arguments of a change that asks for confirmation.
#[derive(Debug, Args)]
pub(crate) struct ConfirmedChangeArgs {
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Arguments of a change other than power.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Show what would be done to which hosts, without doing it.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time limit for one BMC, including the wait for other operations.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Socket of the agent on this machine.
    #[arg(
        long,
        env = "RACKHAND_SOCKET",
        default_value = "/run/rackhand/agent.sock"
    )]
    pub(crate) socket: PathBuf,
    /// Address of a remote agent, host:port, over mTLS.
    #[arg(long, env = "RACKHAND_AGENT")]
    pub(crate) agent: Option<String>,
    /// Rack of that agent, as in its certificate.
    #[arg(long, env = "RACKHAND_RACK")]
    pub(crate) rack: Option<String>,
    /// Directory with your tls.crt, tls.key and ca.crt.
    #[arg(long, env = "RACKHAND_TLS_DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Act on a host that a remediation holds off, or cancel the operation of a remediation; with
    /// --direct, even while an agent runs.
    #[arg(long)]
    pub(crate) force: bool,
    /// Connect to the BMCs without a running agent. Nothing is recorded.
    #[arg(long)]
    pub(crate) direct: bool,
    /// Configuration for --direct.
    #[arg(long, env = "RACKHAND_AGENT_CONFIG", default_value = CONFIG)]
    pub(crate) config: PathBuf,
}

impl Command {
    /// The connection arguments of commands that connect to an agent.
    pub(crate) fn common_mut(&mut self) -> Option<&mut Common> {
        Some(match self {
            Self::Power(PowerArgs { action }) => action.common_mut(),
            Self::Pdu(PduArgs { action }) => action.common_mut(),
            Self::Host(HostArgs { action }) => action.common_mut(),
            Self::Bmc(BmcArgs { action }) => action.common_mut(),
            Self::BootDevice(BootArgs { action }) => action.common_mut(),
            Self::Identify(args) => &mut args.change.common,
            Self::Sensors(args) => &mut args.long.common,
            Self::Events(EventsArgs { action }) => action.common_mut(),
            Self::Operations(OperationsArgs { action }) => action.common_mut(),
            Self::Term(TermArgs { action }) => action.common_mut(),
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<jiff::SignedDuration>();
    parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "not a time with its unit, such as 30s or 5m".to_owned())
}
