//! The arguments.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Read or switch the power of hosts, through the running agent.
    Power(PowerArgs),
    /// Show the hosts that the running agent knows.
    Host(HostArgs),
    /// Show or stop what the running agent does.
    Operations(OperationsArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Write manual pages into a directory.
    Man(ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory.
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    pub(crate) action: HostAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HostAction {
    /// All hosts, or those that are named.
    #[command(after_help = HOSTS)]
    List(HostListArgs),
    /// One host, whole.
    Show(HostShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct HostListArgs {
    /// Which; all if none is named.
    #[arg(value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct HostShowArgs {
    /// Which.
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OperationsArgs {
    #[command(subcommand)]
    pub(crate) action: OperationsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationsAction {
    /// The newest first.
    List(OperationsListArgs),
    /// One operation, whole.
    Show(OperationArgs),
    /// Stop one before its next command to the BMC. What was sent stays sent.
    Cancel(OperationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OperationsListArgs {
    /// Only of this host.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Only those that are not over.
    #[arg(long)]
    pub(crate) running: bool,
    /// At most so many.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OperationArgs {
    /// Its id, as `operations list` shows it.
    pub(crate) operation: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file.
    #[arg(
        long,
        env = "RACKHAND_AGENT_CONFIG",
        default_value = "/etc/rackhand/agent.toml"
    )]
    pub(crate) config: PathBuf,
    /// Form of the log on stderr.
    #[arg(long, env = "RACKHAND_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged: a level, or levels by module.
    #[arg(long, env = "RACKHAND_LOG", default_value = "info")]
    pub(crate) log: String,
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
        default_value = "/etc/rackhand/agent.toml"
    )]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct PowerArgs {
    #[command(subcommand)]
    pub(crate) action: PowerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PowerAction {
    /// Read the power state from the BMC, now.
    #[command(after_help = EXIT_CODES)]
    Status(StatusArgs),
    /// Switch on, and wait until the BMC says exactly "on".
    #[command(after_help = EXIT_CODES)]
    On(SwitchArgs),
    /// Switch off hard, or with --soft by the host's own shutdown, and wait until the BMC has said
    /// exactly "off" twice, 2 s apart.
    #[command(after_help = EXIT_CODES)]
    Off(OffArgs),
    /// Ask the host to shut down, once, and wait until the BMC has said exactly "off" twice, 2 s
    /// apart. The same as off --soft.
    #[command(after_help = EXIT_CODES)]
    SoftOff(SoftOffArgs),
    /// Switch off hard, wait until that is confirmed, and switch on again after a while. A host
    /// that is off is only switched on.
    #[command(after_help = EXIT_CODES)]
    Cycle(CycleArgs),
    /// Reset hard. Sent once: without an answer nobody knows whether it was carried out.
    #[command(after_help = EXIT_CODES)]
    Reset(SwitchArgs),
    /// Send a diagnostic interrupt (NMI), which makes most operating systems dump and restart.
    /// Sent once, like a reset.
    #[command(after_help = EXIT_CODES)]
    Nmi(SwitchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
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
    /// How long one BMC may take, such as 5s.
    #[arg(long, default_value = "20s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Do not ask before more than one host is switched off, cycled, reset or interrupted.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what would be done to which hosts, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Act although a remediation holds the host off.
    #[arg(long)]
    pub(crate) force: bool,
    /// How long the whole may take, such as 90s or 5m. 5m if not given, or longer where a wait
    /// that was asked for needs it.
    #[arg(long, value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Do not wait for the outcome: the operation goes on in the agent.
    #[arg(long)]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OffArgs {
    /// Ask the host to shut down, once, and wait for it. It is not forced.
    #[arg(long)]
    pub(crate) soft: bool,
    /// How long the host may take to shut down, such as 90s or 3m.
    #[arg(long, requires = "soft", default_value = "3m", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Switch off hard after the limit, or at once where the BMC cannot ask for a shutdown.
    #[arg(long, requires = "soft")]
    pub(crate) then_force: bool,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SoftOffArgs {
    /// How long the host may take to shut down, such as 90s or 3m.
    #[arg(long, default_value = "3m", value_parser = duration)]
    pub(crate) limit: Duration,
    /// Switch off hard after the limit, or at once where the BMC cannot ask for a shutdown.
    #[arg(long)]
    pub(crate) then_force: bool,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CycleArgs {
    /// How long the host stays off, such as 10s; 60s at most.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) hold_off: Duration,
    #[command(flatten)]
    pub(crate) switch: SwitchArgs,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["5", "", "-5s", "0s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_remote_agent_needs_rack_and_certificate() {
        let parse = |args: &str| Cli::try_parse_from(args.split(' ')).map(|_| ());
        assert!(parse("rackhand-agent power off a --agent x:1").is_err());
        assert!(parse("rackhand-agent power off a --agent x:1 --rack r --tls-dir d").is_ok());
        assert!(parse("rackhand-agent power status --all a").is_err());
        assert!(parse("rackhand-agent power status").is_err());
        assert!(parse("rackhand-agent power off").is_err());
    }

    #[test]
    fn only_a_soft_off_has_a_limit_and_can_be_forced() {
        let parse = |args: &str| Cli::try_parse_from(args.split(' ')).map(|_| ());
        assert!(parse("rackhand-agent power off a --soft").is_ok());
        assert!(parse("rackhand-agent power off a --soft --limit 90s --then-force").is_ok());
        assert!(parse("rackhand-agent power off a --limit 90s").is_err());
        assert!(parse("rackhand-agent power off a --then-force").is_err());
        assert!(parse("rackhand-agent power cycle a --hold-off 30s").is_ok());
        assert!(parse("rackhand-agent power reset a b --force").is_ok());
        assert!(parse("rackhand-agent power nmi a --soft").is_err());
    }
}
