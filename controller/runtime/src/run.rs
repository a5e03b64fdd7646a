//! Puts the parts together and takes them down again.
//!
//! Owns every task: none outlives [`run`], and one that ends unasked ends the process.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use rackhand_core::lease::LeaseConfig;
use rackhand_proto::{ClientTls, TlsFiles, tls::RELOAD_INTERVAL};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentConnector, AgentMetrics, AgentStatus, Agents},
    checks::{self, CheckMetrics},
    clusters::{WorkloadConnector, Workloads, node_absence, sync::Syncs, system_connector},
    config::Config,
    leader::{
        Leader, LeaderMetrics,
        events::Events,
        writer::{Lane, Writer},
    },
    remediation::{self, LiveFacts, RemediationMetrics},
    serve::{
        admin, authenticated,
        explain::Explainer,
        https::Https,
        page::{LeaderState, Page},
    },
    store::{
        api::{call, management_client},
        clock,
        index::{ChangeQueue, Index},
        object::{Kind, Served},
        watch::watch_kind,
    },
};

/// How long everything has to end once it was asked to: below Kubernetes' grace of 30 s.
const GRACE: Duration = Duration::from_secs(20);

/// The same after leadership was lost or a task has failed: what still runs may not act any more, its
/// requests wait for an API server that may not answer, and a fresh process waits for our end.
const GRACE_AFTER_ERROR: Duration = Duration::from_secs(1);

fn grace(result: &Result<()>) -> Duration {
    if result.is_ok() {
        GRACE
    } else {
        GRACE_AFTER_ERROR
    }
}

/// How a controller reaches the clusters and the agents.
pub struct Connections {
    /// The management cluster.
    pub management: Client,
    /// Workload clusters.
    pub workload: WorkloadConnector,
    /// Agents.
    pub agent: AgentConnector,
    /// The certificate for the agents.
    pub tls: ClientTls,
}

/// What a controller serves.
struct Listeners {
    admin: TcpListener,
    authenticated: Option<Https>,
}

/// Runs the controller until `stop`.
///
/// # Errors
/// It cannot start as configured, or leadership was lost: a fresh process must take over from the
/// state in the cluster.
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
        .context("no way to the management cluster")?;
    let connections = Connections {
        management,
        workload: system_connector(),
        agent: Arc::new(rackhand_proto::connect_lazy),
        tls,
    };
    let listeners = Listeners {
        admin,
        authenticated,
    };
    run_with(config, connections, Some(listeners), stop).await
}

/// Runs the controller over connections of the caller's, for simulations: it listens nowhere, and does
/// not notice that a certificate changes.
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
    let registry = Arc::new(registry);
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
    );

    let (changes_health, changes_remediation) =
        (Arc::<ChangeQueue>::default(), Arc::<ChangeQueue>::default());
    let (changes_clusters, changes_agents) =
        (Arc::<ChangeQueue>::default(), Arc::<ChangeQueue>::default());
    let changes_openshift = Arc::new(ChangeQueue::only(checks::concerns_openshift));
    let changes_nodes = Arc::new(ChangeQueue::only(checks::nodes::concerns));
    let changes_absence = Arc::new(ChangeQueue::only(node_absence::concerns));
    let index = Arc::new(Index::new(vec![
        changes_openshift.clone(),
        changes_nodes.clone(),
        changes_health.clone(),
        changes_remediation.clone(),
        changes_clusters.clone(),
        changes_agents.clone(),
        changes_absence.clone(),
    ]));
    let served = Arc::new(Served::default());

    // Everything that reads ends after everything that acts.
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
                    live: live.clone(),
                    leads: is_leader,
                },
                page: Page {
                    replica: config.replica.clone(),
                    leader: leader.clone(),
                    index: index.clone(),
                    state: leader_state.clone(),
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
    checks: Arc<CheckMetrics>,
    remediation: Arc<RemediationMetrics>,
}

impl Metrics {
    fn register(registry: &mut Registry) -> Self {
        Self {
            leader: LeaderMetrics::register(registry),
            agents: AgentMetrics::register(registry),
            checks: Arc::new(CheckMetrics::register(registry)),
            remediation: Arc::new(RemediationMetrics::register(registry)),
        }
    }
}

struct Parts {
    config: Config,
    client: Client,
    election: String,
    leader: Leader,
    agents: (ClientTls, AgentConnector),
    index: Arc<Index>,
    served: Arc<Served>,
    metrics: Metrics,
    workloads: Arc<Workloads>,
    synced: Vec<(Kind, watch::Receiver<bool>)>,
    ready: watch::Sender<bool>,
    live: Arc<LiveFacts>,
    /// Whether this process leads, for those who ask it.
    leads: watch::Sender<bool>,
    leader_state: Arc<LeaderState>,
    inboxes: [Arc<ChangeQueue>; 6],
    stop: CancellationToken,
}

/// Syncs, waits for leadership, acts until it is lost or `stop`.
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
    let campaign = leader.run(
        client,
        &config.lease_namespace,
        &config.lease_name,
        elected,
        electing.clone(),
    );
    tokio::pin!(campaign);
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        end = &mut campaign => return end.context("election"),
        led = leading.wait_for(|l| *l) => { led.context("election")?; }
    }
    parts.metrics.leader.set_leader(true);
    parts.leads.send_replace(true);
    let acting = CancellationToken::new();
    let mut actors = act(&parts, &acting).await;
    let result = tokio::select! {
        () = stop.cancelled() => Ok(()),
        end = &mut campaign => end.context("stopping; a fresh process takes over from the state in the cluster"),
        ended = actors.join_next() => {
            let what = ended.and_then(Result::ok).unwrap_or("a task");
            Err(anyhow::anyhow!("{what} ended unasked"))
        }
    };
    parts.metrics.leader.set_leader(false);
    parts.leads.send_replace(false);
    acting.cancel();
    let end = async { while actors.join_next().await.is_some() {} };
    if tokio::time::timeout(grace(&result), end).await.is_err() {
        actors.abort_all();
        tracing::warn!("some tasks did not end in time and were cut off");
    }
    electing.cancel();
    if result.is_ok() {
        leader
            .release(client, &config.lease_namespace, &config.lease_name)
            .await;
    }
    result
}

/// Starts everything that acts.
async fn act(parts: &Parts, cancel: &CancellationToken) -> JoinSet<&'static str> {
    let Parts {
        config,
        client,
        leader,
        index,
        served,
        metrics,
        ..
    } = parts;
    let [
        changes_health,
        changes_openshift,
        changes_nodes,
        changes_remediation,
        changes_agents,
        changes_absence,
    ] = parts.inboxes.clone();
    let mut actors = JoinSet::new();
    {
        let (workloads, index) = (parts.workloads.clone(), index.clone());
        let cancel = cancel.clone();
        actors.spawn(async move {
            node_absence::run(workloads, index, changes_absence, cancel).await;
            "live reads of Nodes"
        });
    }
    let (writer, writing) = Writer::new(leader, metrics.leader.clone(), Lane::Remediation);
    // These three end when nobody is left who could ask them for anything.
    actors.spawn(async move {
        writing.await;
        "writer"
    });
    let (events, sending) = Events::new(client.clone(), leader, writer.on(Lane::Words));
    actors.spawn(async move {
        sending.await;
        "events"
    });
    let words = writer.on(Lane::Words);
    let (status, showing) = AgentStatus::new(client.clone(), served.clone(), words);
    actors.spawn(async move {
        showing.await;
        "agent status"
    });
    let agents = Agents::new(
        leader.clone(),
        parts.election.clone(),
        parts.agents.clone(),
        index.clone(),
        metrics.agents.clone(),
        status,
        events.clone(),
    );
    parts.leader_state.leads(&agents);
    {
        let (running, cancel) = (agents.clone(), cancel.clone());
        actors.spawn(async move {
            running.run(changes_agents, cancel).await;
            "agent connections"
        });
    }
    let of_cluster_api = Arc::new(checks::Ownership::new(
        config.health_checks,
        config.watch_filter.as_deref(),
    ));
    let filter = config.watch_filter.as_deref();
    let of_openshift = checks::Ownership::of_openshift(config.health_checks).filtered(filter);
    let of_openshift = Arc::new(of_openshift);
    let of_nodes = checks::Ownership::of_nodes(config.health_checks).filtered(filter);
    let of_nodes = Arc::new(of_nodes);
    for ownership in [&of_cluster_api, &of_openshift, &of_nodes] {
        ownership.refresh(client).await;
        let (ownership, client, cancel) = (ownership.clone(), client.clone(), cancel.clone());
        actors.spawn(async move {
            ownership.keep_looking(client, cancel).await;
            "CRD watch"
        });
    }
    let remediations = Arc::new(remediation::Context {
        client: client.clone(),
        served: served.clone(),
        index: index.clone(),
        workloads: parts.workloads.clone(),
        agents,
        writer: writer.clone(),
        events: events.clone(),
        metrics: metrics.remediation.clone(),
        config: config.clone(),
        active: parking_lot::Mutex::default(),
        held: parking_lot::Mutex::default(),
        live: parts.live.clone(),
        leases: parking_lot::Mutex::default(),
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        remediation::run(remediations, changes_remediation, cancelled).await;
        "remediations"
    });
    let (syncs, reading) = Syncs::new(
        client.clone(),
        served.clone(),
        parts.workloads.clone(),
        index.clone(),
        cancel.clone(),
    );
    actors.spawn(async move {
        reading.await;
        "live reads of fleets"
    });
    let context = |ownership| {
        Arc::new(checks::Context {
            client: client.clone(),
            served: served.clone(),
            index: index.clone(),
            writer: writer.on(Lane::Requests),
            events: events.clone(),
            metrics: metrics.checks.clone(),
            ownership,
            syncs: syncs.clone(),
        })
    };
    let of_cluster_api = context(of_cluster_api);
    let namespace = config.namespace.clone().unwrap_or_default();
    let (scanning, cancelled) = (of_cluster_api.clone(), cancel.clone());
    actors.spawn(async move {
        checks::orphan_scan::run(scanning, namespace, cancelled).await;
        "scan for orphaned requests"
    });
    let cancelled = cancel.clone();
    actors.spawn(async move {
        checks::run_cluster_api(of_cluster_api, changes_health, cancelled).await;
        "health checks"
    });
    let (of_openshift, cancelled) = (context(of_openshift), cancel.clone());
    actors.spawn(async move {
        checks::run_openshift(of_openshift, changes_openshift, cancelled).await;
        "health checks of OpenShift"
    });
    let (of_nodes, cancelled) = (context(of_nodes), cancel.clone());
    actors.spawn(async move {
        checks::run_node_health_checks(of_nodes, changes_nodes, cancelled).await;
        "health checks of Nodes"
    });
    actors
}

/// Names the election for agents that serve several clusters. The UID of kube-system is the
/// cluster's: a Lease that is deleted and made anew must not start its terms from 1 unnoticed.
async fn election(client: &Client, config: &Config, stop: &CancellationToken) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let asked = call("namespace kube-system", namespaces.get("kube-system"));
    let found = tokio::select! {
        () = stop.cancelled() => bail!("stopped while starting"),
        found = asked => found.context("the management cluster does not identify itself")?,
    };
    let uid = found.uid().unwrap_or_default();
    Ok(format!(
        "{uid}/{}/{}",
        config.lease_namespace, config.lease_name
    ))
}

/// Tells this process from every other, earlier ones of the same replica included.
fn unique() -> String {
    let nanos = jiff::Timestamp::now().as_nanosecond();
    format!("{:x}-{:x}", nanos, std::process::id())
}
