//! Settings of the controller and their defaults. They contain no secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use rackhand_core::remediation::{
    DrainPolicy, NodeAction, NodeGonePolicy, UnreachablePolicy, WordsOfPersons,
};
use rackhand_core::signals::Signal;

/// Which health checks are evaluated (docs/health-checks.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthChecks {
    /// All checks of a kind whose CRD Rackhand has installed; of other kinds, only annotated checks.
    Auto,
    /// No check of any kind.
    None,
    /// Only checks with the annotation `rackhand.dev/evaluate: "true"`.
    Annotated,
    /// All checks of every kind, whoever has installed its CRD.
    All,
}

/// Path of the metrics, for which a caller needs the verb `get`.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// The HTTPS server of metrics and explanations for callers that the API server authorises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Address and port of the server.
    pub address: SocketAddr,
    /// Directory with `tls.crt` and `tls.key`; with `None` a self-signed certificate is created at each
    /// start.
    pub tls_dir: Option<PathBuf>,
}

/// Settings of the controller.
#[derive(Debug, Clone)]
pub struct Config {
    /// Kubeconfig of the management cluster; with `None` the in-cluster configuration, or else kubectl's
    /// default.
    pub kubeconfig: Option<PathBuf>,
    /// The only watched namespace of the management cluster; `None` for all.
    pub namespace: Option<String>,
    /// Namespace of the leader Lease.
    pub lease_namespace: String,
    /// Name of the leader Lease.
    pub lease_name: String,
    /// Time after which a Lease expires without renewal.
    pub lease_duration: Duration,
    /// Name of this replica in the Lease, to which a part that is unique per process is appended.
    pub replica: String,
    /// Directory with `tls.crt`, `tls.key` and `ca.crt` for the connections to agents.
    pub agent_tls_dir: PathBuf,
    /// Address of `/livez` and `/readyz`, and of `/metrics` if it is a loopback address.
    pub admin_address: SocketAddr,
    /// Server of authenticated metrics and explanations; `None` disables it.
    pub metrics: Option<MetricsConfig>,
    /// Which health checks this controller evaluates.
    pub health_checks: HealthChecks,
    /// Value of the label `cluster.x-k8s.io/watch-filter` that health checks and remediations must have; `None`
    /// for all.
    pub watch_filter: Option<String>,
    /// Time for baremetal-operator to switch the power before the agent does; at most 30 s.
    pub cooperative_grace: Duration,
    /// Time that the collection of evidence may delay a power-off; zero disables the collection.
    pub evidence_timeout: Duration,
    /// Time after which an unfinished drain counts as blocked.
    pub drain_timeout: Duration,
    /// What happens after `drain_timeout`. Applies to Metal3Remediations; a PowerRemediation has a field for
    /// it.
    pub drain_policy: DrainPolicy,
    /// Time after a confirmed off during which the workload cluster may be unreachable.
    pub defer_timeout: Duration,
    /// What happens after `defer_timeout`. Applies to Metal3Remediations.
    pub unreachable_policy: UnreachablePolicy,
    /// What happens when the Node of a Machine with a Metal3Remediation is gone.
    pub node_gone: NodeGonePolicy,
    /// Whether Nodes of hosts that are off are tainted or deleted; with `None` the Kubernetes version of the
    /// cluster decides.
    pub node_action: Option<NodeAction>,
    /// Time for which an in-place update of a Machine blocks an attempt.
    pub update_timeout: Duration,
    /// Age from which a BareMetalHost loses hold keys that no remediation needs.
    pub orphaned_hold_age: Duration,
    /// Timeout of one power operation.
    pub power_timeout: Duration,
    /// Time between two readings of each BMC outside of remediations; zero disables the readings.
    pub bmc_check_interval: Duration,
    /// The hardware signals that are published as conditions of Nodes; none disables the streams of agents.
    pub hardware_signals: BTreeSet<Signal>,
    /// Whether the annotations of remediations count by which a person decides.
    pub words_of_persons: WordsOfPersons,
    /// Whether the labels of RemediationTriggers make remediations.
    pub remediation_triggers: bool,
    /// Whether `timeAdded` is set on the taint. Some controllers do not accept it.
    pub taint_time_added: bool,
    /// The flags that decisions depend on, by name, as given. The leader writes them to its Lease for
    /// `explain`.
    pub settings: BTreeMap<String, String>,
}

impl Default for Config {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            kubeconfig: None,
            namespace: None,
            lease_namespace: "rackhand-system".into(),
            lease_name: "rackhand-controller".into(),
            lease_duration: Duration::from_secs(15),
            replica: "rackhand-controller".into(),
            agent_tls_dir: "/etc/rackhand/tls".into(),
            admin_address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            metrics: None,
            health_checks: HealthChecks::Auto,
            watch_filter: None,
            cooperative_grace: Duration::from_secs(20),
            evidence_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(600),
            drain_policy: DrainPolicy::StayOff,
            defer_timeout: Duration::from_secs(600),
            unreachable_policy: UnreachablePolicy::StayOff,
            node_gone: NodeGonePolicy::PowerCycle,
            update_timeout: Duration::from_secs(1800),
            orphaned_hold_age: Duration::from_secs(600),
            node_action: None,
            power_timeout: Duration::from_secs(180),
            bmc_check_interval: Duration::from_secs(300),
            hardware_signals: BTreeSet::from([Signal::PowerLost, Signal::OsStopped]),
            words_of_persons: WordsOfPersons::Accepted,
            remediation_triggers: false,
            taint_time_added: false,
            settings: BTreeMap::new(),
        }
    }
}
