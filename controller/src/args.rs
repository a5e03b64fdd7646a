//! The command line of the controller.

use std::{
    collections::BTreeMap,
    io::IsTerminal,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    sync::LazyLock,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use rackhand_runtime::{
    Config, DrainPolicy, HealthChecks, LONGEST_EVIDENCE, MetricsConfig, NodeAction, NodeGonePolicy,
    Signal, UnknownSignal, UnreachablePolicy, WordsOfPersons,
};
use rackhand_transport::otlp::{self, ExportedService, OtlpEndpoint, SpanExport};
use tracing_subscriber::{
    EnvFilter, Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{
    explain::Explain,
    kubectl::{Kubectl, LeaseName},
    pki::Pki,
    preflight::Preflight,
    rehearse::{Record, Rehearse},
};

/// Version, and the commit where the build names it.
static VERSION: LazyLock<String> = LazyLock::new(|| match option_env!("RACKHAND_COMMIT") {
    Some(commit) => format!("{} (commit {commit})", env!("CARGO_PKG_VERSION")),
    None => env!("CARGO_PKG_VERSION").to_owned(),
});

/// Finds unhealthy bare-metal Nodes and brings their hosts back.
#[derive(Debug, Clone, Parser)]
#[command(name = "rackhand-controller", version = VERSION.as_str(), about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Kubeconfig of the management cluster; without it the Pod's own access, else ~/.kube/config.
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Watch only this namespace; by default all namespaces.
    #[arg(long)]
    namespace: Option<String>,

    /// Namespace of the leader Lease.
    #[arg(
        long,
        default_value = "rackhand-system",
        env = "POD_NAMESPACE",
        global = true
    )]
    lease_namespace: String,

    /// Name of the leader Lease.
    #[arg(long, default_value = "rackhand-controller", global = true)]
    lease_name: String,

    /// Time after which the Lease expires without renewal, in whole seconds; a leader that cannot renew it
    /// stops after two thirds of it.
    #[arg(long, default_value = "15s", value_parser = seconds)]
    lease_duration: Duration,

    /// Name of this replica in the Lease; by default the name of the Pod.
    #[arg(long, env = "HOSTNAME", default_value = "rackhand-controller")]
    replica: String,

    /// Directory with tls.crt, tls.key and ca.crt for the rack agents; read again when it changes.
    #[arg(long, value_name = "DIR", default_value = "/etc/rackhand/tls")]
    agent_tls_dir: PathBuf,

    /// Where /livez and /readyz are served in plain HTTP; /metrics too, if it is a loopback address.
    #[arg(long, default_value = "127.0.0.1:8080")]
    admin_address: SocketAddr,

    /// Address of /metrics over HTTPS, for callers whose bearer token may `get` /metrics by the Kubernetes
    /// API server; without it, only a loopback --admin-address serves metrics.
    #[arg(long, value_name = "ADDRESS")]
    metrics_address: Option<SocketAddr>,

    /// Directory with tls.crt and tls.key of the metrics; read again when it changes. Without it, a
    /// self-signed certificate is created at each start.
    #[arg(long, value_name = "DIR", requires = "metrics_address")]
    metrics_tls_dir: Option<PathBuf>,

    /// Which health checks are evaluated: `auto` evaluates all checks of a kind whose CRD Rackhand has
    /// installed, and checks of other kinds only if they are annotated rackhand.dev/evaluate="true".
    #[arg(long, value_enum, default_value = "auto", global = true)]
    health_checks: Checks,

    /// Work only on health checks and remediations labelled cluster.x-k8s.io/watch-filter=VALUE, so that
    /// several controllers, each with a --lease-name of its own, share a management cluster.
    #[arg(long, value_name = "VALUE", value_parser = label_value, global = true)]
    watch_filter: Option<String>,

    /// Time for baremetal-operator to act on the hold key before the agent switches the power; at most 30s.
    #[arg(long, default_value = "20s", value_parser = grace)]
    cooperative_grace: Duration,

    /// Time that a power-off may be delayed to read the event log, the sensors and the boot state from the
    /// BMC; 0s reads nothing, at most 10m.
    #[arg(long, default_value = "5s", value_parser = evidence_time)]
    evidence_timeout: Duration,

    /// How long a remediation waits to begin while the owner of its Machine updates the Machine in place.
    #[arg(long, default_value = "30m", value_parser = seconds)]
    in_place_update_timeout: Duration,

    /// Minimum age of a BareMetalHost before a hold key of Rackhand whose remediation does not exist is removed from
    /// it. After a move or a restore, the remediation may be created later than the host.
    #[arg(long, default_value = "10m", value_parser = seconds)]
    orphaned_hold_age: Duration,

    /// Time after which a drain that still waits for pods or volumes is reported as blocked.
    #[arg(long, default_value = "10m", value_parser = seconds)]
    drain_timeout: Duration,

    /// What happens to a Metal3Remediation after --drain-timeout (a PowerRemediation has a field for it):
    /// stay off until pods and volumes are gone, power on anyway, or give up and stay off.
    #[arg(long, value_enum, default_value = "stay-off")]
    drain_policy: Drain,

    /// How long a workload cluster may be unreachable after a host was confirmed off.
    #[arg(long, default_value = "10m", value_parser = seconds)]
    defer_timeout: Duration,

    /// What happens to a Metal3Remediation after --defer-timeout: stay off until the cluster is reachable, or
    /// power on without a taint.
    #[arg(long, value_enum, default_value = "stay-off")]
    unreachable_policy: Unreachable,

    /// What happens if the Node of a Machine with a Metal3Remediation was deleted: power-cycle the host, so
    /// that its kubelet registers the Node again, or have the Machine replaced at once.
    #[arg(long, value_enum, default_value = "power-cycle")]
    node_gone: Gone,

    /// What is done to the Node of a host that is off: `auto` sets the out-of-service taint in clusters of
    /// Kubernetes 1.28 or newer, and deletes the Node in older ones. The annotation rackhand.dev/node-action
    /// on a remediation, its template or its Cluster takes precedence.
    #[arg(long, value_enum, default_value = "auto")]
    node_action: Action,

    /// Timeout of one power operation.
    #[arg(long, default_value = "3m", value_parser = seconds)]
    power_timeout: Duration,

    /// Time between two readings of each BMC outside of remediations. A BMC that fails three times, or that
    /// reports another system than its Node, is reported by the Node condition FencingUnavailable. 0s: no
    /// readings.
    #[arg(long, default_value = "5m", value_parser = seconds)]
    bmc_check_interval: Duration,

    /// Hardware signals that are published as conditions rackhand.dev/... of Nodes, for health checks: PowerLost,
    /// OSStopped, HardwareFailing, separated by commas; or none. Agents then read the power of all hosts with a
    /// Node all the time. No signal acts by itself.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "PowerLost,OSStopped",
        value_name = "SIGNALS"
    )]
    hardware_signals: Vec<HardwareSignal>,

    /// Whether the annotations count with which a person approves a remediation, confirms its power-off or overrules
    /// one of its checks. The admission policy of deploy/kustomize/persons, which needs Kubernetes 1.30, makes the API
    /// server check who may set them; without it, everybody may who can write a remediation.
    #[arg(long, value_enum, default_value = "accepted")]
    words_of_persons: Words,

    /// Make a remediation of a Node when it gets the label of a RemediationTrigger. Without it, the triggers say in
    /// their status that they are not active.
    #[arg(long)]
    remediation_triggers: bool,

    /// Set timeAdded on the out-of-service taint. Some releases of Rancher cannot handle it on Nodes of RKE2 clusters.
    #[arg(long)]
    taint_time: bool,

    /// Format of the log.
    #[arg(long, value_enum, default_value = "text")]
    log_format: LogFormat,

    /// URL of an OTLP receiver by gRPC, such as http://collector:4317, to which trace spans are exported;
    /// without it none are.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<OtlpEndpoint>,
}

/// Command to run instead of the controller.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Explains the state of an object: why, until when, and what happens next. Changes nothing.
    Explain {
        /// The object to explain.
        #[command(subcommand)]
        what: Explain,
    },
    /// Checks what must be right before remediation works: the cluster and its versions, rights, other
    /// controllers, health checks, agents, hosts and clocks; changes nothing.
    ///
    /// Exits with 1 if a check fails.
    Preflight(Preflight),
    /// Replays a recorded history of Machines and Nodes through health checks and power policies, and shows what
    /// would have been done; contacts no cluster.
    Rehearse(Rehearse),
    /// Records the changes of Machines and Nodes of a cluster for `rehearse`, until it is interrupted; changes
    /// nothing.
    Record(Record),
    /// Creates and renews the certificates by which controllers, agents and operators authenticate each
    /// other, for sites without a CA of their own.
    #[command(subcommand)]
    Pki(Pki),
    #[command(flatten)]
    Kubectl(Kubectl),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Checks {
    Auto,
    None,
    Annotated,
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Drain {
    StayOff,
    PowerOn,
    GiveUp,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Unreachable {
    StayOff,
    PowerOn,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Gone {
    PowerCycle,
    Replace,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    Auto,
    Taint,
    DeleteNode,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Words {
    Accepted,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not like 20s, 10m or 1h"))?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("{text:?} is not like 20s, 10m or 1h")),
    };
    match number.checked_mul(factor) {
        Some(n) if n <= 7 * 24 * 3600 => Ok(Duration::from_secs(n)),
        _ => Err(format!("{text:?} is longer than a week")),
    }
}

fn grace(text: &str) -> Result<Duration, String> {
    let grace = seconds(text)?;
    if grace > Duration::from_secs(30) {
        return Err(format!("{text:?} is longer than 30s"));
    }
    Ok(grace)
}

fn evidence_time(text: &str) -> Result<Duration, String> {
    let time = seconds(text)?;
    if time > LONGEST_EVIDENCE {
        return Err(format!("{text:?} is longer than 10m"));
    }
    Ok(time)
}

fn label_value(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let inside = text.chars().all(|c| plain(c) || "-_.".contains(c));
    if inside && text.len() <= 63 && text.starts_with(plain) && text.ends_with(plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?} is not the value of a label: at most 63 letters, digits, '-', '_' and '.', the first \
         and the last a letter or digit"
    ))
}

impl Args {
    /// The path of the kubeconfig of the management cluster, if given.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Name and namespace of the leader Lease.
    pub(crate) fn lease(&self) -> LeaseName {
        LeaseName {
            namespace: self.lease_namespace.clone(),
            name: self.lease_name.clone(),
        }
    }

    /// Sets up the log to standard error, filtered by RUST_LOG, and the controller's export of trace spans.
    ///
    /// # Errors
    /// The export cannot be set up.
    pub(crate) fn init_log(&self) -> anyhow::Result<Option<SpanExport>> {
        // The client logs each failed call, which a command returns as its own error.
        let usual = match self.command {
            None => "info",
            Some(_) => "info,kube_client=off",
        };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
        let log = tracing_subscriber::fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        let log = match self.log_format {
            LogFormat::Json => log.json().boxed(),
            LogFormat::Text => log.with_target(false).boxed(),
        };
        let service = || ExportedService {
            name: "rackhand-controller",
            version: env!("CARGO_PKG_VERSION"),
            instance: self.replica.clone(),
        };
        let runs_controller = self.command.is_none();
        let endpoint = self.otlp_endpoint.as_ref().filter(|_| runs_controller);
        let started = endpoint.map(|endpoint| otlp::start(endpoint, service()));
        let (spans, export) = started.transpose().context("--otlp-endpoint")?.unzip();
        tracing_subscriber::registry()
            .with(filter)
            .with(log)
            .with(spans)
            .init();
        Ok(export)
    }

    pub(crate) fn config(self) -> Config {
        Config {
            kubeconfig: self.kubeconfig,
            namespace: self.namespace,
            lease_namespace: self.lease_namespace,
            lease_name: self.lease_name,
            lease_duration: self.lease_duration,
            replica: self.replica,
            agent_tls_dir: self.agent_tls_dir,
            admin_address: self.admin_address,
            metrics: self.metrics_address.map(|address| MetricsConfig {
                address,
                tls_dir: self.metrics_tls_dir,
            }),
            health_checks: match self.health_checks {
                Checks::Auto => HealthChecks::Auto,
                Checks::None => HealthChecks::None,
                Checks::Annotated => HealthChecks::Annotated,
                Checks::All => HealthChecks::All,
            },
            watch_filter: self.watch_filter,
            cooperative_grace: self.cooperative_grace,
            evidence_timeout: self.evidence_timeout,
            update_timeout: self.in_place_update_timeout,
            orphaned_hold_age: self.orphaned_hold_age,
            drain_timeout: self.drain_timeout,
            drain_policy: match self.drain_policy {
                Drain::StayOff => DrainPolicy::StayOff,
                Drain::PowerOn => DrainPolicy::PowerOn,
                Drain::GiveUp => DrainPolicy::GiveUp,
            },
            defer_timeout: self.defer_timeout,
            unreachable_policy: match self.unreachable_policy {
                Unreachable::StayOff => UnreachablePolicy::StayOff,
                Unreachable::PowerOn => UnreachablePolicy::PowerOn,
            },
            node_gone: match self.node_gone {
                Gone::PowerCycle => NodeGonePolicy::PowerCycle,
                Gone::Replace => NodeGonePolicy::Replace,
            },
            node_action: match self.node_action {
                Action::Auto => None,
                Action::Taint => Some(NodeAction::Taint),
                Action::DeleteNode => Some(NodeAction::Delete),
            },
            power_timeout: self.power_timeout,
            bmc_check_interval: self.bmc_check_interval,
            hardware_signals: self.hardware_signals.iter().filter_map(|s| s.0).collect(),
            words_of_persons: match self.words_of_persons {
                Words::Accepted => WordsOfPersons::Accepted,
                Words::Ignored => WordsOfPersons::Ignored,
            },
            remediation_triggers: self.remediation_triggers,
            taint_time_added: self.taint_time,
            settings: BTreeMap::new(),
        }
    }
}

/// A signal, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HardwareSignal(Option<Signal>);

impl FromStr for HardwareSignal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        match text {
            "none" => Ok(Self(None)),
            text => Ok(Self(Some(text.parse()?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::explain::args::TableOutput;

    use super::*;

    #[test]
    fn durations_require_a_unit() {
        assert_eq!(seconds("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(seconds("2h"), Ok(Duration::from_secs(7200)));
        for wrong in [
            "",
            "5",
            "s",
            "1.5s",
            "-1s",
            "9999999999999h",
            "99999999999999999999s",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn taint_has_no_time_unless_that_is_asked_for() {
        let config = |line: &[&str]| Args::parse_from(line).config();
        assert!(!config(&["rackhand-controller"]).taint_time_added);
        assert!(config(&["rackhand-controller", "--taint-time"]).taint_time_added);
    }

    #[test]
    fn hardware_signals_are_a_list_or_none() {
        let signals =
            |line: &[&str]| Args::try_parse_from(line).map(|a| a.config().hardware_signals);
        let by_default = BTreeSet::from([Signal::PowerLost, Signal::OsStopped]);
        assert_eq!(signals(&["x"]).unwrap(), by_default);
        assert_eq!(
            signals(&["x", "--hardware-signals=none"]).unwrap(),
            BTreeSet::new()
        );
        let all = [
            "x",
            "--hardware-signals=PowerLost,OSStopped,HardwareFailing",
        ];
        assert_eq!(signals(&all).unwrap(), BTreeSet::from(Signal::ALL));
        assert!(signals(&["x", "--hardware-signals=Power"]).is_err());
    }

    #[test]
    fn baremetal_operator_grace_is_at_most_thirty_seconds() {
        assert!(grace("30s").is_ok() && grace("31s").is_err());
    }

    #[test]
    fn watch_filter_must_be_valid_label_value() {
        for right in ["a", "shard-1", "A_b.9"] {
            assert_eq!(label_value(right).as_deref(), Ok(right));
        }
        for wrong in ["", "-a", "a-", "a b", "a/b", "\u{e4}", &"a".repeat(64)] {
            assert!(label_value(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn explain_requires_check_name_or_files() {
        let parsed = |line: &str| Args::try_parse_from(line.split(' '));
        assert!(parsed("x explain mhc").is_err());
        assert!(parsed("x explain mhc workers --at yesterday").is_err());
        let line = "x explain mhc workers -n ns -f a.yaml b.yaml --at 2026-08-01T02:14:07Z -o yaml";
        let Some(Command::Explain {
            what: Explain::Mhc(mhc),
        }) = parsed(line).unwrap().command
        else {
            panic!("another command");
        };
        assert_eq!(
            (mhc.name.as_deref(), mhc.how.files.len()),
            (Some("workers"), 2)
        );
        assert_eq!(mhc.how.output, TableOutput::Yaml);
        assert!(mhc.how.at.is_some());
        assert!(parsed("x explain nhc").is_err());
        assert!(parsed("x explain nhc workers --at 2026-08-01T02:14:07Z -o json").is_ok());
        assert!(parsed("x explain nodehealthcheck -f a.yaml b.yaml").is_ok());
        assert!(parsed("x explain mhc -f dump.yaml --health-checks all").is_ok());
    }

    #[test]
    fn command_line_definition_is_valid() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn reference_page_is_current() {
        use clap::CommandFactory;
        let text = format!(
            "# Command line of the controller\n\nWithout a command, `rackhand-controller` runs the \
             controller. Each section is the text of `--help`.\n\n{}",
            rackhand_reference::commands(Args::command())
        );
        rackhand_reference::assert_current("cli-controller.md", "controller/src/args.rs", &text)
            .unwrap();
    }
}
