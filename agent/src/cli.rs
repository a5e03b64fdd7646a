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

const CHECKS: &str = "\
Each row is ok, warning, failed or skipped (something before it failed), with what was found and what
to do next. The exit code is 1 if anything failed. A warning does not stop power from being switched.";

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
    /// Look at everything that must be right before a host can be switched: name, route, TLS,
    /// credentials, privilege, cipher suite, Redfish, actions, identity, clock. Changes nothing.
    #[command(after_help = CHECKS)]
    Check(HostCheckArgs),
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

#[derive(Debug, Args)]
pub(crate) struct HostCheckArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// How long one host may take, such as 30s; 60s at most.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct BootArgs {
    #[command(subcommand)]
    pub(crate) action: BootAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BootAction {
    /// What the BMC says it boots from next.
    #[command(after_help = EXIT_CODES)]
    Show(ReadArgs),
    /// Set it. The host itself is left alone: the firmware looks at it when it starts next.
    #[command(after_help = EXIT_CODES)]
    Set(BootSetArgs),
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

/// Something other than power is changed.
#[derive(Debug, Args)]
pub(crate) struct Changing {
    /// Do not ask first.
    #[arg(short, long)]
    pub(crate) yes: bool,
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
pub(crate) struct BootSetArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// What to boot from; none: the firmware's own order.
    #[arg(value_enum, required = true)]
    pub(crate) device: Option<BootDevice>,
    /// Until it is changed, not for the next boot only.
    #[arg(long)]
    pub(crate) persistent: bool,
    /// Boot by UEFI.
    #[arg(long, conflicts_with = "legacy")]
    pub(crate) uefi: bool,
    /// Boot by legacy BIOS.
    #[arg(long)]
    pub(crate) legacy: bool,
    #[command(flatten)]
    pub(crate) changing: Changing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BootDevice {
    /// The firmware's own order.
    None,
    /// Network, PXE.
    Pxe,
    /// Network, UEFI HTTP; Redfish only.
    Http,
    /// Local disk.
    Disk,
    /// CD or DVD, virtual media too.
    Cd,
    /// USB; with IPMI, floppy.
    Usb,
    /// The firmware's setup.
    Bios,
    /// The firmware's diagnostics.
    Diag,
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct IdentifyArgs {
    /// on, off, or for how long it is lit, such as 30 (seconds), 90s or 10m. Where the BMC has no
    /// timer, the agent puts it out.
    #[arg(value_name = "on|off|TIME", value_parser = led)]
    pub(crate) led: Led,
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// Show what would be done to which hosts, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long one BMC may take, its turn behind other operations included.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Led {
    On,
    Off,
    For(Duration),
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SensorsArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// A row for each sensor, not for each host. JSON and YAML have them all in any case.
    #[arg(long)]
    pub(crate) each: bool,
    /// How long one BMC may take, such as 30s; 60s at most.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    pub(crate) action: EventsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsAction {
    /// The newest entries, oldest first.
    #[command(after_help = EXIT_CODES)]
    List(EventsListArgs),
    /// Empty the log. It cannot be had back: asks first, or takes --yes.
    #[command(after_help = EXIT_CODES)]
    Clear(EventsClearArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EventsListArgs {
    #[command(flatten)]
    pub(crate) hosts: Hosts,
    /// At most so many of each host.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// How long one BMC may take, such as 30s; 60s at most.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct EventsClearArgs {
    /// Name, range of names, label, @FILE or -; see `host list --help`.
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) changing: Changing,
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
pub(crate) struct EnrollArgs {
    /// Where controllers reach this agent, host:port.
    #[arg(long)]
    pub(crate) endpoint: String,
    /// Trust domain of the cluster's certificates, such as example.org.
    #[arg(long)]
    pub(crate) trust_domain: String,
    /// Name of the RackAgent; the rack's if not given.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where key and request are written; the directory of `tls` in the configuration if not given.
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
    /// The RackAgent.
    Manifest,
    /// The certificate request.
    Request,
}

#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// How many hosts. Each takes a socket or two of this process.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=2000))]
    pub(crate) hosts: u16,
    /// How many of them, the last ones, have a BMC that says nothing.
    #[arg(long, default_value_t = 1)]
    pub(crate) dead: u16,
    /// How long the agent waits for a BMC to let it in.
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) patience: Duration,
    /// What the others speak.
    #[arg(long, value_enum, default_value_t = Speaks::Both)]
    pub(crate) speaks: Speaks,
    /// Where configuration, inventory and journal are written; a temporary directory, gone at the
    /// end, if not given.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Speaks {
    /// Every third host IPMI, the others Redfish.
    Both,
    Redfish,
    Ipmi,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file.
    #[arg(
        long,
        env = "RACKHAND_AGENT_CONFIG",
        default_value = CONFIG
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
        default_value = CONFIG
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
    Status(ReadArgs),
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
    /// Act although a remediation holds the host off; with --direct, although an agent runs.
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
            Self::Power(PowerArgs { action }) => match action {
                PowerAction::Status(args) => &mut args.common,
                PowerAction::On(args) | PowerAction::Reset(args) | PowerAction::Nmi(args) => {
                    &mut args.common
                }
                PowerAction::Off(args) => &mut args.switch.common,
                PowerAction::SoftOff(args) => &mut args.switch.common,
                PowerAction::Cycle(args) => &mut args.switch.common,
            },
            Self::Host(HostArgs { action }) => match action {
                HostAction::List(args) => &mut args.common,
                HostAction::Show(args) => &mut args.common,
                HostAction::Check(args) => &mut args.common,
            },
            Self::BootDevice(BootArgs { action }) => match action {
                BootAction::Show(args) => &mut args.common,
                BootAction::Set(args) => &mut args.changing.common,
            },
            Self::Identify(args) => &mut args.common,
            Self::Sensors(args) => &mut args.common,
            Self::Events(EventsArgs { action }) => match action {
                EventsAction::List(args) => &mut args.common,
                EventsAction::Clear(args) => &mut args.changing.common,
            },
            Self::Operations(OperationsArgs { action }) => match action {
                OperationsAction::List(args) => &mut args.common,
                OperationsAction::Show(args) | OperationsAction::Cancel(args) => &mut args.common,
            },
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

/// `on`, `off`, seconds, or a time with its unit.
fn led(text: &str) -> Result<Led, String> {
    match text {
        "on" => return Ok(Led::On),
        "off" => return Ok(Led::Off),
        _ => {}
    }
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    let time = match seconds {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => duration(text),
    };
    time.map(Led::For)
        .map_err(|_| "not on, off, or a time such as 30s".to_owned())
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
    fn a_led_is_on_off_or_lit_for_a_time() {
        assert_eq!(led("on"), Ok(Led::On));
        assert_eq!(led("off"), Ok(Led::Off));
        assert_eq!(led("30"), Ok(Led::For(Duration::from_secs(30))));
        assert_eq!(led("2m"), Ok(Led::For(Duration::from_secs(120))));
        for wrong in ["0", "-3", "blink", ""] {
            assert!(led(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_device_stands_behind_the_hosts() {
        let parse = |args: &str| Cli::try_parse_from(args.split(' '));
        let set = parse("rackhand-agent boot-device set a b pxe --uefi").unwrap();
        let Command::BootDevice(BootArgs {
            action: BootAction::Set(set),
        }) = set.command
        else {
            panic!("{set:?}");
        };
        assert_eq!((set.hosts.len(), set.device), (2, Some(BootDevice::Pxe)));
        for wrong in [
            "rackhand-agent boot-device set a",
            "rackhand-agent boot-device set pxe",
            "rackhand-agent boot-device set a floppy",
            "rackhand-agent boot-device set a pxe --uefi --legacy",
            "rackhand-agent power status a --direct --agent x:1 --rack r --tls-dir d",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
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
