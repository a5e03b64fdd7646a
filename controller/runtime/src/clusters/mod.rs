//! Workload clusters: clients, Nodes and connection states.
//!
//! One task runs per Cluster. Invariant: a cluster that is down neither delays others nor makes its Nodes
//! count as unhealthy.

mod cordon;
mod drain;
mod etcd_guard;
mod host_workload;
mod lease_observations;
pub(crate) mod node_absence;
mod node_comparison;
mod node_conversion;
mod pages;
mod pods;
mod reader;
mod roles;
pub(crate) mod sync;
mod taint;
mod workload_client;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, pin_mut};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt, runtime::watcher::Event};
use parking_lot::{Mutex, RwLock};
use rackhand_api::names::{KUBECONFIG_SECRET_KEY, kubeconfig_secret};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use cordon::{cordon_patch, unmark_patch};
pub(crate) use etcd_guard::{OPENSHIFT_NODE_LABEL, ask_guard};

pub(crate) use lease_observations::LeaseObservations;
pub(crate) use node_comparison::NodeComparisons;
pub use node_conversion::is_tainted_by_rackhand;
pub(crate) use node_conversion::{lease_renewal, node_facts, node_label, ready};
pub(crate) use reader::{ReadClient, WorkloadReader};
use roles::NODE_ROLES;
pub(crate) use roles::{machine_roles, node_roles};
pub(crate) use taint::taints;
pub(crate) use workload_client::{NodeRead, WorkloadClient};

use crate::store::{
    api::{ClientError, call, words, workload_client},
    index::{Change, ChangeQueue, Connection, Index, SeenNode},
    object::{Key, Kind},
    time_slice::beside,
    watch::{WatchMonitor, events, is_forbidden, pause, watch_words},
};

/// Interval of probes of a workload API, as in Cluster API.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval in which the kubeconfig of a connected cluster is read again. It is also read when a probe fails, so
/// replaced credentials are found as soon as the old ones no longer work.
const KUBECONFIG_INTERVAL: Duration = Duration::from_secs(60);
/// Failed probes after which its Nodes count as unknown.
const PROBE_FAILURES: u32 = 3;
/// Time without progress after which the first list of the Nodes is given up: it may hang on a connection that is dead at
/// the other end, while probes are answered on another one. Checks are judged within a minute (F12).
const LIST_STALL: Duration = Duration::from_secs(30);
/// Pause before a reconnect.
const RECONNECT: Duration = Duration::from_secs(5);

/// Creates the client of a workload cluster from its kubeconfig.
pub type WorkloadConnector =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<Client, ClientError>> + Send + Sync>;

/// The clusters that are connected.
pub(crate) struct Workloads {
    clusters: RwLock<BTreeMap<Key, Arc<WorkloadClient>>>,
    kept: Arc<RetainedClusters>,
    connector: WorkloadConnector,
}

impl Default for Workloads {
    fn default() -> Self {
        Self::new(system_connector())
    }
}

/// Connects over the network, unlike a simulation.
pub(crate) fn system_connector() -> WorkloadConnector {
    Arc::new(|kubeconfig| async move { workload_client(&kubeconfig).await }.boxed())
}

/// The clusters that stay connected without a Cluster object.
#[derive(Default)]
struct RetainedClusters {
    users: Mutex<BTreeMap<Key, usize>>,
    changed: Notify,
}

/// Keeps a workload cluster connected until it is dropped. A remediation that has begun needs the
/// Node even if somebody removes the Cluster object.
pub(crate) struct RetainedConnection {
    cluster: Key,
    kept: Arc<RetainedClusters>,
}

impl RetainedConnection {
    pub(crate) fn cluster(&self) -> &Key {
        &self.cluster
    }
}

impl Drop for RetainedConnection {
    fn drop(&mut self) {
        let mut users = self.kept.users.lock();
        if let Some(count) = users.get_mut(&self.cluster) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.cluster);
                self.kept.changed.notify_one();
            }
        }
    }
}

/// Whether a change may add or remove a workload cluster whose Nodes are watched.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Object(kind, _) => !matches!(
            kind,
            Kind::Machine
                | Kind::Metal3Machine
                | Kind::OpenShiftMachine
                | Kind::BareMetalHost
                | Kind::RackAgent
                | Kind::RemediationState
                | Kind::PowerPolicy
                | Kind::RemediationTrigger
        ),
        Change::Workload(_) => true,
        Change::Node(..) | Change::Agent(_) => false,
    }
}

impl Workloads {
    pub(crate) fn new(connector: WorkloadConnector) -> Self {
        Self {
            clusters: RwLock::default(),
            kept: Arc::default(),
            connector,
        }
    }

    /// The client of a connected cluster, with its limits.
    pub(crate) fn get(&self, cluster: &Key) -> Option<Arc<WorkloadClient>> {
        self.clusters.read().get(cluster).cloned()
    }

    /// The plain client of a connected cluster.
    pub(crate) fn client(&self, cluster: &Key) -> Option<Client> {
        Some(self.get(cluster)?.client.clone())
    }

    /// Keeps a cluster connected, with or without its Cluster object, until the result is dropped.
    pub(crate) fn keep_for(&self, cluster: Key) -> RetainedConnection {
        let kept = self.kept.clone();
        let first = {
            let mut users = kept.users.lock();
            let count = users.entry(cluster.clone()).or_insert(0);
            *count += 1;
            *count == 1
        };
        if first {
            kept.changed.notify_one();
        }
        RetainedConnection { cluster, kept }
    }

    /// Registers a connected cluster.
    #[cfg(test)]
    pub(crate) fn connect(&self, cluster: &Key, client: Client) {
        let connected = Arc::new(WorkloadClient::new(client));
        self.clusters.write().insert(cluster.clone(), connected);
    }

    #[cfg(test)]
    pub(crate) fn remove(&self, cluster: &Key) {
        self.clusters.write().remove(cluster);
    }

    /// Maintains a connection per Cluster of the index, and per kept connection, until `cancel`.
    pub(crate) async fn run(
        self: Arc<Self>,
        management: Client,
        index: Arc<Index>,
        inbox: Arc<ChangeQueue>,
        cancel: CancellationToken,
    ) {
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<Key, CancellationToken> = BTreeMap::new();
        loop {
            let mut wanted: BTreeSet<Key> = index.clusters().into_iter().collect();
            wanted.extend(self.kept.users.lock().keys().cloned());
            let names_own_nodes =
                index.has_remediations_by_node() || index.has_maintenances_by_node();
            if names_own_nodes || index.watches_own_nodes() {
                wanted.insert(Key::local());
            }
            running.retain(|key, token| {
                let keep = wanted.contains(key);
                if !keep {
                    token.cancel();
                }
                keep
            });
            for key in wanted {
                running.entry(key.clone()).or_insert_with(|| {
                    let token = cancel.child_token();
                    let (this, management) = (self.clone(), management.clone());
                    let (index, stop) = (index.clone(), token.clone());
                    tasks.spawn(async move {
                        this.keep(&management, &index, &key, &stop).await;
                        this.clusters.write().remove(&key);
                        index.forget_workload(&key);
                    });
                    token
                });
            }
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = inbox.take() => {}
                () = self.kept.changed.notified() => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    async fn keep(
        &self,
        management: &Client,
        index: &Index,
        key: &Key,
        cancel: &CancellationToken,
    ) {
        let mut monitor = WatchMonitor::default();
        while !cancel.is_cancelled() {
            let why = match connect(&self.connector, management, index, key).await {
                Ok((client, kubeconfig)) => {
                    let connected = Arc::new(WorkloadClient::new(client));
                    if let Some((major, minor)) = index.version(key) {
                        connected.served_by(&major, &minor);
                    }
                    self.clusters.write().insert(key.clone(), connected.clone());
                    let connection = FollowedCluster {
                        workload: &connected,
                        key,
                        kubeconfig,
                    };
                    let why = connection
                        .follow(management, index, &mut monitor, cancel)
                        .await;
                    self.clusters.write().remove(key);
                    why
                }
                Err(why) => why,
            };
            if cancel.is_cancelled() {
                return;
            }
            if !matches!(index.connection(key), Connection::Down(said) if said == why) {
                tracing::warn!(cluster = %key, why, "workload cluster is not connected");
                index.set_connection(key, Connection::Down(why));
            }
            if pause(cancel, RECONNECT).await {
                return;
            }
        }
    }
}

/// A workload cluster whose Nodes are watched.
struct FollowedCluster<'a> {
    workload: &'a WorkloadClient,
    key: &'a Key,
    /// Fingerprint of the kubeconfig that made the connection.
    kubeconfig: Fingerprint,
}

impl FollowedCluster<'_> {
    /// Watches the Nodes; returns why the connection has ended. `monitor` outlives the connection.
    async fn follow(
        &self,
        management: &Client,
        index: &Index,
        monitor: &mut WatchMonitor,
        cancel: &CancellationToken,
    ) -> String {
        let (client, key) = (&self.workload.client, self.key);
        let nodes: Api<SeenNode> = Api::all(client.clone());
        let stream = events(nodes);
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        let mut connected = false;
        let mut list_progress = Instant::now();
        let mut failures = 0;
        let mut last_error = String::new();
        let mut kubeconfig_read = Instant::now();
        let mut probe = tokio::time::interval(PROBE_INTERVAL);
        probe.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return "stopped".into(),
                () = monitor.settled() => {
                    if monitor.settle() {
                        index.set_connection(key, Connection::Up);
                    }
                }
                () = tokio::time::sleep_until(list_progress + LIST_STALL), if !connected => {
                    return format!("its Nodes were not listed: no progress for {} s", LIST_STALL.as_secs());
                }
                event = stream.next() => match event {
                    Some(Ok(event)) => {
                        monitor.progressed();
                        list_progress = Instant::now();
                        match event {
                            Event::Init => {
                                let before = std::mem::take(&mut listed);
                                beside(before.len(), || drop(before));
                            }
                            Event::InitApply(node) => {
                                listed.insert(node.name_any());
                                index.apply_seen_node(key, node);
                            }
                            Event::InitDone => {
                                beside(listed.len(), || index.retain_nodes(key, &listed));
                                self.workload.counted(listed.len());
                                connected = true;
                                failures = 0;
                                monitor.listed();
                                tracing::info!(cluster = %key, nodes = listed.len(), "workload cluster connected");
                                if monitor.settle() {
                                    index.set_connection(key, Connection::Up);
                                }
                            }
                            Event::Apply(node) => {
                                if listed.insert(node.name_any()) {
                                    self.workload.counted(listed.len());
                                }
                                index.apply_seen_node(key, node);
                            }
                            Event::Delete(node) => {
                                if listed.remove(&node.name_any()) {
                                    self.workload.counted(listed.len());
                                }
                                index.deleted_node(key, &node);
                            }
                        }
                    }
                    Some(Err(error)) => {
                        last_error = watch_words(&error);
                        if *key == Key::local() && is_forbidden(&error) {
                            last_error.push_str("; apply deploy/kustomize/nodes");
                        }
                        let why = format!("its Nodes cannot be watched: {last_error}");
                        // The API server may answer every other call: only this watch shows that rights were
                        // revoked (F12).
                        if monitor.failed(&error) {
                            return why;
                        }
                        let news = !matches!(index.connection(key),
                            Connection::Down(said) if said == why);
                        if !connected && news {
                            tracing::warn!(cluster = %key, why, "workload cluster is not connected");
                            index.set_connection(key, Connection::Down(why));
                        }
                    }
                    None => return "the watch of its Nodes ended".into(),
                },
                _ = probe.tick() => {
                    let answer = call("probe", client.apiserver_version()).await;
                    let read = answer.is_err() || kubeconfig_read.elapsed() >= KUBECONFIG_INTERVAL;
                    if read
                        && *key != Key::local()
                        && let Ok(kubeconfig) = secret(management, key).await
                    {
                        if Fingerprint::of(&kubeconfig) != self.kubeconfig {
                            return "the kubeconfig in its Secret has changed; reconnecting".into();
                        }
                        kubeconfig_read = Instant::now();
                    }
                    match answer {
                        Ok(info) => {
                            failures = 0;
                            index.set_version(key, &info.major, &info.minor);
                            self.workload.served_by(&info.major, &info.minor);
                        }
                        Err(error) => {
                            failures += 1;
                            if failures >= PROBE_FAILURES {
                                return format!("its API does not answer: {error} {last_error}");
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A hash that shows whether a kubeconfig has changed. The version of its Secret does not show it, because
/// other clients write metadata of Secrets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    fn of(kubeconfig: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        kubeconfig.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The kubeconfig of a Cluster. Never logged.
async fn secret(management: &Client, key: &Key) -> Result<String, String> {
    let name = kubeconfig_secret(&key.name);
    let secrets: Api<Secret> = Api::namespaced(management.clone(), &key.namespace);
    let found = call(
        format!("Secret {}/{name}", key.namespace),
        secrets.get(&name),
    )
    .await
    .map_err(|e| e.to_string())?;
    let ByteString(bytes) = found
        .data
        .as_ref()
        .and_then(|d| d.get(KUBECONFIG_SECRET_KEY))
        .ok_or_else(|| {
            format!(
                "Secret {}/{name} has no key {KUBECONFIG_SECRET_KEY:?}",
                key.namespace
            )
        })?;
    String::from_utf8(bytes.clone()).map_err(|_| {
        format!(
            "Secret {}/{name}: the kubeconfig is not UTF-8",
            key.namespace
        )
    })
}

/// The client of a cluster: our own for the management cluster, and by its kubeconfig for any
/// other.
pub(crate) async fn client_of(
    management: &Client,
    key: &Key,
) -> Result<(Client, Fingerprint), String> {
    client_by(&system_connector(), management, key).await
}

/// The client of a workload cluster by the Secret `<name>-kubeconfig` in the namespace of its Cluster, as the
/// controller connects to it.
///
/// # Errors
/// The Secret is missing or cannot be used. The message contains no part of the kubeconfig.
pub async fn workload_cluster_client(
    management: &Client,
    namespace: &str,
    name: &str,
) -> Result<Client, String> {
    let (client, _) = client_of(management, &Key::new(namespace, name)).await?;
    Ok(client)
}

async fn client_by(
    connector: &WorkloadConnector,
    management: &Client,
    key: &Key,
) -> Result<(Client, Fingerprint), String> {
    if *key == Key::local() {
        return Ok((management.clone(), Fingerprint::default()));
    }
    let kubeconfig = secret(management, key).await?;
    let fingerprint = Fingerprint::of(&kubeconfig);
    let client = connector(kubeconfig).await.map_err(|why| {
        let name = kubeconfig_secret(&key.name);
        format!(
            "the kubeconfig in Secret {}/{name} does not work: {why}",
            key.namespace
        )
    })?;
    Ok((client, fingerprint))
}

async fn connect(
    connector: &WorkloadConnector,
    management: &Client,
    index: &Index,
    key: &Key,
) -> Result<(Client, Fingerprint), String> {
    let (client, kubeconfig) = client_by(connector, management, key).await?;
    let info = tokio::time::timeout(crate::store::api::CALL_TIMEOUT, client.apiserver_version())
        .await
        .map_err(|_| "its API does not answer".to_owned())?
        .map_err(|e| format!("its API does not answer: {}", words(&e)))?;
    index.set_version(key, &info.major, &info.minor);
    Ok((client, kubeconfig))
}

#[cfg(test)]
mod tests;
