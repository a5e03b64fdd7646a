//! Start of all parts of the controller, and their ordered stop.
//!
//! Invariant: no task outlives [`run`], and a task that ends early ends the process.

mod actors;
#[cfg(test)]
mod stalls;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use rackhand_core::lease::LeaseConfig;
use rackhand_transport::{ClientTls, TlsFiles, tls::RELOAD_INTERVAL};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{self, AgentConnector, AgentMetrics},
    bmc_watch::{BmcWatchMetrics, signals::SignalMetrics},
    checks::{self, CheckMetrics},
    clusters::{self, WorkloadConnector, Workloads, node_absence, system_connector},
    config::Config,
    leader::{Election, Leader, LeaderMetrics},
    planned_work::{
        maintenance::MaintenanceMetrics,
        triggers::{self, TriggerMetrics},
    },
    remediation::{LiveFacts, RemediationMetrics},
    serve::{
        admin, authenticated,
        explain::Explainer,
        https::Https,
        page::{LeaderState, Page, ShownPage},
    },
    shared_causes::SharedCauseMetrics,
    store::{
        api::{CALL_TIMEOUT, call, management_client},
        clock,
        index::{ChangeQueue, Index},
        object::{Kind, Served},
        watch::watch_kind,
    },
};

/// Time for all tasks to end after a stop, below Kubernetes' termination grace period of 30 s.
const GRACE: Duration = Duration::from_secs(20);

/// Time for all tasks to end after leadership was lost or a task has failed. Tasks may no longer act then,
/// their requests may wait for an API server that does not answer, and the next process starts only after
/// this one has ended.
const GRACE_AFTER_ERROR: Duration = Duration::from_secs(1);

fn grace(result: &Result<()>) -> Duration {
    if result.is_ok() {
        GRACE
    } else {
        GRACE_AFTER_ERROR
    }
}

/// The connections of a controller to clusters and agents.
pub struct Connections {
    /// Client of the management cluster.
    pub management: Client,
    /// Creates the clients of workload clusters.
    pub workload: WorkloadConnector,
    /// Creates the channels to agents.
    pub agent: AgentConnector,
    /// Certificate, key and CA for the connections to agents.
    pub tls: ClientTls,
}

/// The bound listeners of a controller.
struct Listeners {
    admin: TcpListener,
    authenticated: Option<Https>,
}

/// Runs the controller until `stop`.
///
/// # Errors
/// The controller cannot start as configured, or has lost leadership, so that a new process must continue
/// from the state in the cluster.
pub async fn run(config: Config, stop: CancellationToken) -> Result<()> {
    let admin = admin::bind(config.admin_address)
        .await
        .with_context(|| format!("admin address {}", config.admin_address))?;
    let tls = ClientTls::controller(TlsFiles::in_dir(&config.agent_tls_dir))
        .with_context(|| format!("agent TLS directory {}", config.agent_tls_dir.display()))?;
    let authenticated = match &config.metrics {
        Some(config) => Some(authenticated::bind(config).await?),
        None => None,
    };
    let management = management_client(config.kubeconfig.as_deref())
        .await
        .context("cannot connect to the management cluster")?;
    let connections = Connections {
        management,
        workload: system_connector(),
        agent: Arc::new(rackhand_transport::connect_lazy),
        tls,
    };
    let listeners = Listeners {
        admin,
        authenticated,
    };
    run_with(config, connections, Some(listeners), stop).await
}

/// Takes part in the election until it ends or `electing` is cancelled.
async fn take_part(
    parts: &Parts,
    leads: watch::Sender<bool>,
    electing: CancellationToken,
) -> Result<()> {
    let (config, leader) = (&parts.config, &parts.leader);
    let (namespace, name) = (config.lease_namespace.as_str(), config.lease_name.as_str());
    if parts.has_lease_thread {
        let election = Election {
            namespace,
            name,
            leads,
            cancel: electing,
        };
        let kubeconfig = config.kubeconfig.clone();
        return leader.run_on_thread(kubeconfig, election).await;
    }
    let run = leader.run(&parts.client, namespace, name, leads, electing);
    Ok(run.await?)
}

/// Runs the controller with the caller's connections, for simulations: without listeners, and without a watch
/// of its certificate.
///
/// # Errors
/// As [`run`].
pub async fn run_over(
    config: Config,
    connections: Connections,
    stop: CancellationToken,
) -> Result<()> {
    run_with(config, connections, None, stop).await
}

async fn run_with(
    config: Config,
    connections: Connections,
    listeners: Option<Listeners>,
    stop: CancellationToken,
) -> Result<()> {
    clock::begin();
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let client = connections.management;
    let election = election(&client, &config, &stop).await?;
    let lease = LeaseConfig::new(
        config.lease_duration,
        config.lease_duration * 2 / 3,
        config.lease_duration * 2 / 15,
    )
    .context("lease duration")?;
    let leader = Leader::new(
        format!("{}_{}", config.replica, unique()),
        lease,
        &config.settings,
        listeners
            .as_ref()
            .and_then(|listeners| Some(listeners.authenticated.as_ref()?.tls.clone())),
    );

    let (changes_health, changes_remediation) =
        (Arc::<ChangeQueue>::default(), Arc::<ChangeQueue>::default());
    let changes_clusters = Arc::new(ChangeQueue::only(clusters::concerns));
    let changes_agents = Arc::new(ChangeQueue::only(agents::concerns));
    let changes_openshift = Arc::new(ChangeQueue::only(checks::concerns_openshift));
    let changes_nodes = Arc::new(ChangeQueue::only(checks::nodes::concerns));
    let changes_absence = Arc::new(ChangeQueue::only(node_absence::concerns));
    let changes_triggers = Arc::new(ChangeQueue::only(triggers::concerns));
    let index = Arc::new(Index::new(vec![
        changes_openshift.clone(),
        changes_nodes.clone(),
        changes_health.clone(),
        changes_remediation.clone(),
        changes_clusters.clone(),
        changes_agents.clone(),
        changes_absence.clone(),
        changes_triggers.clone(),
    ]));
    index.register_metrics(&mut registry);
    let registry = Arc::new(registry);
    let served = Arc::new(Served::default());
    let has_lease_thread = listeners.is_some();

    // The tasks that read end after the tasks that act.
    let reading = CancellationToken::new();
    let mut readers: JoinSet<&'static str> = JoinSet::new();
    let (ready, is_ready) = watch::channel(false);
    let live = Arc::<LiveFacts>::default();
    let (leads, is_leader) = watch::channel(false);
    let leader_state = Arc::<LeaderState>::default();
    if let Some(listeners) = listeners {
        let (metrics, cancel) = (registry.clone(), reading.clone());
        readers.spawn(async move {
            admin::serve(listeners.admin, metrics, is_ready, cancel).await;
            "admin server"
        });
        let watching = connections.tls.watch(RELOAD_INTERVAL);
        let cancel = reading.clone();
        readers.spawn(async move {
            tokio::select! { () = watching => {}, () = cancel.cancelled() => {} }
            "certificate watch"
        });
        if let Some(https) = listeners.authenticated {
            let served = authenticated::Served {
                metrics: registry,
                explainer: Explainer {
                    client: client.clone(),
                    config: config.clone(),
                    index: index.clone(),
                    live: live.clone(),
                    leads: is_leader,
                },
                page: Page {
                    replica: config.replica.clone(),
                    leader: leader.clone(),
                    index: index.clone(),
                    state: leader_state.clone(),
                    shown: ShownPage::default(),
                },
            };
            let (client, cancel) = (client.clone(), reading.clone());
            readers.spawn(async move {
                authenticated::run(https, client, served, cancel).await;
                "metrics and explanations"
            });
        }
    }
    let mut synced = Vec::new();
    for kind in Kind::ALL {
        let (sender, receiver) = watch::channel(false);
        synced.push((kind, receiver));
        let watching = watch_kind(
            client.clone(),
            served.clone(),
            index.clone(),
            kind,
            config.namespace.clone(),
            sender,
            reading.clone(),
        );
        readers.spawn(async move {
            watching.await;
            kind.kind()
        });
    }
    let workloads = Arc::new(Workloads::new(connections.workload));
    {
        let running = workloads.clone().run(
            client.clone(),
            index.clone(),
            changes_clusters,
            reading.clone(),
        );
        readers.spawn(async move {
            running.await;
            "workload clusters"
        });
    }

    let result = lead(Parts {
        config,
        client,
        election,
        leader,
        has_lease_thread,
        agents: (connections.tls, connections.agent),
        index,
        served,
        metrics,
        workloads,
        synced,
        ready,
        live,
        leads,
        leader_state,
        inboxes: [
            changes_health,
            changes_openshift,
            changes_nodes,
            changes_remediation,
            changes_agents,
            changes_absence,
            changes_triggers,
        ],
        stop: stop.clone(),
    })
    .await;

    reading.cancel();
    let end = async { while readers.join_next().await.is_some() {} };
    if tokio::time::timeout(grace(&result), end).await.is_err() {
        tracing::warn!("some watches did not end in time");
    }
    result
}

/// The metrics of every part.
struct Metrics {
    leader: LeaderMetrics,
    agents: AgentMetrics,
    bmc_watch: Arc<BmcWatchMetrics>,
    signals: Arc<SignalMetrics>,
    checks: Arc<CheckMetrics>,
    maintenances: MaintenanceMetrics,
    remediation: Arc<RemediationMetrics>,
    shared_causes: Arc<SharedCauseMetrics>,
    triggers: Arc<TriggerMetrics>,
}

impl Metrics {
    fn register(registry: &mut Registry) -> Self {
        let remediation = RemediationMetrics::register(registry);
        let shared_causes = SharedCauseMetrics::register(registry, remediation.events());
        Self {
            leader: LeaderMetrics::register(registry),
            agents: AgentMetrics::register(registry),
            bmc_watch: Arc::new(BmcWatchMetrics::register(registry)),
            signals: Arc::new(SignalMetrics::register(registry)),
            checks: Arc::new(CheckMetrics::register(registry)),
            maintenances: MaintenanceMetrics::register(registry),
            remediation: Arc::new(remediation),
            shared_causes: Arc::new(shared_causes),
            triggers: Arc::new(TriggerMetrics::register(registry)),
        }
    }
}

struct Parts {
    config: Config,
    client: Client,
    election: String,
    leader: Leader,
    /// Whether the Lease is renewed on a thread of its own: not in a simulation, which has one thread.
    has_lease_thread: bool,
    agents: (ClientTls, AgentConnector),
    index: Arc<Index>,
    served: Arc<Served>,
    metrics: Metrics,
    workloads: Arc<Workloads>,
    synced: Vec<(Kind, watch::Receiver<bool>)>,
    ready: watch::Sender<bool>,
    live: Arc<LiveFacts>,
    /// Shows whether this process leads.
    leads: watch::Sender<bool>,
    leader_state: Arc<LeaderState>,
    inboxes: [Arc<ChangeQueue>; 7],
    stop: CancellationToken,
}

/// Waits for the first sync of all watches and for leadership, then acts until leadership is lost or `stop`.
async fn lead(parts: Parts) -> Result<()> {
    let Parts {
        config,
        client,
        leader,
        stop,
        ..
    } = &parts;
    for (kind, synced) in parts.synced.clone() {
        let mut synced = synced;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            done = synced.wait_for(|s| *s) => {
                done.with_context(|| format!("the watch of {} ended", kind.kind()))?;
            }
        }
    }
    parts.ready.send_replace(true);
    tracing::info!("watches are synced; waiting for leadership");

    let (elected, mut leading) = watch::channel(false);
    let electing = CancellationToken::new();
    let campaign = take_part(&parts, elected, electing.clone());
    tokio::pin!(campaign);
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        end = &mut campaign => return end.context("election"),
        led = leading.wait_for(|l| *l) => { led.context("election")?; }
    }
    parts.metrics.leader.set_leader(true);
    parts.leads.send_replace(true);
    let acting = CancellationToken::new();
    let mut actors = actors::start(&parts, &acting).await;
    let result = tokio::select! {
        () = stop.cancelled() => Ok(()),
        end = &mut campaign => end.context("stopping; a new process continues from the state in the cluster"),
        ended = actors.join_next() => {
            let what = ended.and_then(Result::ok).unwrap_or("a task");
            Err(anyhow::anyhow!("{what} ended unexpectedly"))
        }
    };
    parts.metrics.leader.set_leader(false);
    parts.leads.send_replace(false);
    acting.cancel();
    let end = async { while actors.join_next().await.is_some() {} };
    if tokio::time::timeout(grace(&result), end).await.is_err() {
        actors.abort_all();
        tracing::warn!("some tasks did not end in time and were aborted");
    }
    electing.cancel();
    if result.is_ok() {
        // A renewal that is under way would conflict with the release.
        tokio::time::timeout(CALL_TIMEOUT, campaign).await.ok();
        leader
            .release(client, &config.lease_namespace, &config.lease_name)
            .await;
    }
    result
}

/// The name of the election, for agents that serve several clusters. It contains the UID of the namespace
/// kube-system, which identifies the cluster, and not that of the Lease: the terms must not restart at 1
/// unnoticed after the Lease was deleted and created again.
async fn election(client: &Client, config: &Config, stop: &CancellationToken) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let asked = call("namespace kube-system", namespaces.get("kube-system"));
    let found = tokio::select! {
        () = stop.cancelled() => bail!("stopped while starting"),
        found = asked => found.context("cannot read the UID of namespace kube-system")?,
    };
    let uid = found.uid().unwrap_or_default();
    Ok(format!(
        "{uid}/{}/{}",
        config.lease_namespace, config.lease_name
    ))
}

/// A text that is unique to this process, also among earlier processes of the same replica.
fn unique() -> String {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    format!("{:x}-{:x}", nanos, std::process::id())
}
