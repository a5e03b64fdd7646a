//! The arguments, by command.

mod boot_device;
mod daemon;
mod event_log;
mod host;
mod identify;
mod inventory;
mod operations;
mod power;
mod sensors;
mod term;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    error::{ContextKind, ContextValue, ErrorKind},
};

pub(crate) use boot_device::{BootAction, BootArgs, BootDevice, BootSetArgs};
pub(crate) use daemon::{
    CheckArgs, CompletionsArgs, EnrollArgs, Enrolled, LogFormat, ManArgs, ServeArgs, SimArgs,
    Speaks,
};
pub(crate) use event_log::{EventsAction, EventsArgs, EventsClearArgs, EventsListArgs};
pub(crate) use host::{HostAction, HostArgs, HostCheckArgs};
pub(crate) use identify::{IdentifyArgs, Led};
pub(crate) use inventory::{ImportArgs, InventoryAction, InventoryArgs};
pub(crate) use operations::{OperationsAction, OperationsArgs};
pub(crate) use power::{PowerAction, PowerArgs, SwitchArgs};
pub(crate) use sensors::SensorsArgs;
pub(crate) use term::{TermAction, TermArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0  done: the BMC confirmed the state; for nmi: the BMC took it
  1  failed, for at least one host: no such host, wrong password, or not confirmed - the deadline
     passed, or no answer came to a command that is not sent twice; what the host does now is not
     known then, read it with `power status`
  2  wrong usage, or nobody said yes
  3  refused: everything that was not done is held by somebody else, or not for you to do
  4  unreachable: no way to the agent, or to the BMC of any host that was not done";

const HOSTS: &str = "\
HOST is an inventory name, Node name, provider id or system UUID; a range of names such as
node-[01-40] or node-[1,3,7-9]; a label such as role=db, or rack=, position= or pdu=; @FILE with any of
these, or - for standard input.";

/// Where the configuration is.
pub(crate) const CONFIG: &str = "/etc/rackhand/agent.toml";

/// Switches bare-metal hosts of one rack, for a controller and for people.
#[derive(Debug, Parser)]
#[command(name = "rackhand-agent", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the agent.
    Serve(ServeArgs),
    /// Judge a configuration file, and show what is in it.
    Check(CheckArgs),
    /// Read or switch the power of hosts.
    Power(PowerArgs),
    /// Show the hosts of the rack, or find out why one cannot be switched.
    Host(HostArgs),
    /// Judge an inventory, or make one of manifests.
    Inventory(InventoryArgs),
    /// Read or set what hosts boot from next.
    BootDevice(BootArgs),
    /// Light the identify LED of hosts, or put it out.
    Identify(IdentifyArgs),
    /// Read the sensors of hosts: power draw, inlet temperature, and what else there is.
    Sensors(SensorsArgs),
    /// Read or clear the event logs of BMCs (IPMI: SEL).
    Events(EventsArgs),
    /// Show or stop what the running agent does.
    Operations(OperationsArgs),
    /// Show the terms of controllers that the agent knows, or set one back by hand.
    Term(TermArgs),
    /// Make the key of this agent, and print what a cluster needs to know it: a RackAgent and a
    /// certificate request.
    Enroll(EnrollArgs),
    /// Run a simulated rack to try everything on. Nothing of it is real.
    Sim(SimArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Write manual pages into a directory.
    Man(ManArgs),
}

/// The arguments that we were given; ends the program where they make no sense.
pub(crate) fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        if is_all(&error) {
            errln!("error: {NOT_ALL}");
            std::process::exit(2);
        }
        error.exit()
    })
}

const NOT_ALL: &str = "what changes hosts takes no --all: name them, or all of a rack by rack=NAME \
                       (`host list` shows them)";

/// Whether somebody meant every host where each has to be named.
fn is_all(error: &clap::Error) -> bool {
    let said = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::UnknownArgument
        && matches!(said, Some(ContextValue::String(word)) if word == "--all")
}

/// Which hosts, where all of them may be meant.
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

/// Something is read.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// How long one BMC may take, such as 5s.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Something is read that takes a BMC many answers.
#[derive(Debug, Args)]
pub(crate) struct LongReadArgs {
    /// How long one BMC may take, such as 30s; 60s at most.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Something other than power is changed, and that is asked about first.
#[derive(Debug, Args)]
pub(crate) struct ConfirmedChangeArgs {
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) change: ChangeArgs,
}

/// Something other than power is changed.
#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Show what would be done to which hosts, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long one BMC may take, its turn behind other operations included.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// Socket of the agent on this machine.
    #[arg(
        long,
        env = "RACKHAND_SOCKET",
        default_value = "/run/rackhand/agent.sock"
    )]
    pub(crate) socket: PathBuf,
    /// An agent elsewhere, host:port, over mTLS.
    #[arg(long, env = "RACKHAND_AGENT", requires_all = ["rack", "tls_dir"])]
    pub(crate) agent: Option<String>,
    /// The rack of that agent, as its certificate says.
    #[arg(long, env = "RACKHAND_RACK")]
    pub(crate) rack: Option<String>,
    /// Directory with your tls.crt, tls.key and ca.crt.
    #[arg(long, env = "RACKHAND_TLS_DIR")]
    pub(crate) tls_dir: Option<PathBuf>,
    /// Act although a remediation holds the host off, or cancel its operation; with --direct,
    /// although an agent runs.
    #[arg(long)]
    pub(crate) force: bool,
    /// Go straight to the BMCs, without a running agent. Nothing is written down.
    #[arg(long, conflicts_with = "agent")]
    pub(crate) direct: bool,
    /// Configuration whose hosts --direct uses.
    #[arg(long, env = "RACKHAND_AGENT_CONFIG", default_value = CONFIG)]
    pub(crate) config: PathBuf,
}

impl Command {
    /// How the agent is reached, of those that speak to one.
    pub(crate) fn common_mut(&mut self) -> Option<&mut Common> {
        Some(match self {
            Self::Power(PowerArgs { action }) => action.common_mut(),
            Self::Host(HostArgs { action }) => action.common_mut(),
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
