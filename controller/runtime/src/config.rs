//! What the controller is told at its start.
//!
//! Owns the settings and their defaults; must never hold a secret.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use rackhand_core::remediation::{DrainBlocked, NodeAction, NodeGone, WorkloadDown};

/// Which health checks are evaluated (docs/health-checks.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthChecks {
    /// All of a kind whose CRD we installed; of others only annotated ones.
    Auto,
    /// None.
    None,
    /// Only those with `rackhand.dev/evaluate: "true"`.
    Annotated,
    /// All.
    All,
}

/// Path of the metrics, and what a caller must be allowed to `get`.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Where metrics are served over HTTPS to callers that the API server lets read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The address.
    pub address: SocketAddr,
    /// `tls.crt` and `tls.key`; `None`: a self-signed certificate is made at each start.
    pub tls_dir: Option<PathBuf>,
}

/// Settings of the controller.
#[derive(Debug, Clone)]
pub struct Config {
    /// Kubeconfig of the management cluster; `None`: in-cluster, else the usual places.
    pub kubeconfig: Option<PathBuf>,
    /// Only this namespace of the management cluster; `None`: all.
    pub namespace: Option<String>,
    /// Namespace of our Lease.
    pub lease_namespace: String,
    /// Name of our Lease.
    pub lease_name: String,
    /// How long a Lease lasts without renewal.
    pub lease_duration: Duration,
    /// Name of this replica, for people; made unique per process.
    pub replica: String,
    /// `tls.crt`, `tls.key`, `ca.crt` for the agents.
    pub agent_tls_dir: PathBuf,
    /// Where /livez and /readyz are served, and /metrics too if it is a loopback address.
    pub admin_address: SocketAddr,
    /// Authenticated metrics; `None`: none are served.
    pub metrics: Option<MetricsConfig>,
    /// Which checks are ours.
    pub health_checks: HealthChecks,
    /// Only health checks and remediations whose label `cluster.x-k8s.io/watch-filter` has this value are
    /// ours; `None`: all.
    pub watch_filter: Option<String>,
    /// How long baremetal-operator may act before the agent does; at most 30 s.
    pub cooperative_grace: Duration,
    /// How long a drain may take before it is called blocked.
    pub drain_timeout: Duration,
    /// And what then, for a Metal3Remediation: a PowerRemediation says it itself.
    pub drain_policy: DrainBlocked,
    /// How long after a confirmed off a workload cluster may be silent.
    pub defer_timeout: Duration,
    /// And what then, for a Metal3Remediation.
    pub unreachable_policy: WorkloadDown,
    /// What happens when the Node of a Machine with a Metal3Remediation is gone.
    pub node_gone: NodeGone,
    /// How Nodes are told that their host is off; `None`: as their cluster's version understands.
    pub node_action: Option<NodeAction>,
    /// How long one power operation may take.
    pub power_timeout: Duration,
    /// Set `timeAdded` on the taint. Off where a controller chokes on it.
    pub taint_time_added: bool,
    /// The flags that decisions depend on, by name, as they were given: the leader writes them on its
    /// Lease, for `explain`.
    pub settings: BTreeMap<String, String>,
}

impl Default for Config {
    /// What the command line defaults to.
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
            drain_timeout: Duration::from_secs(600),
            drain_policy: DrainBlocked::KeepOff,
            defer_timeout: Duration::from_secs(600),
            unreachable_policy: WorkloadDown::KeepOff,
            node_gone: NodeGone::PowerCycle,
            node_action: None,
            power_timeout: Duration::from_secs(180),
            taint_time_added: true,
            settings: BTreeMap::new(),
        }
    }
}
