//! Runs remediations: one task per object, observing, asking the core, carrying out.
//!
//! Owns which tasks exist and who is woken by what. Must never decide a step.

mod act;
mod credentials;
mod engine;
mod escalate;
mod observe;
mod operation;
mod patches;
mod record;
mod rivals;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::Client;
use parking_lot::Mutex;
use rackhand_core::remediation::Active;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use patches::{NewCondition, both_lists};

use crate::{
    agents::Agents,
    cluster::{LeaseMemory, Workloads},
    config::Config,
    events::Events,
    index::{Change, Inbox, Index},
    metrics::Metrics,
    object::{Key, Kind, Served},
    writer::Writer,
};

/// What every remediation works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) config: Config,
    /// Unfinished remediations by UID, for the right of way (F6).
    pub(crate) active: Mutex<BTreeMap<String, Active>>,
    /// Since when each Node's Lease has been seen unchanged, by cluster.
    pub(crate) leases: Mutex<BTreeMap<Key, Arc<LeaseMemory>>>,
}

impl Context {
    pub(crate) fn lease_memory(&self, cluster: &Key) -> Arc<LeaseMemory> {
        self.leases
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }
}

/// What wakes a remediation.
#[derive(Default)]
pub(crate) struct Interest {
    pub(crate) cluster: Option<Key>,
    pub(crate) node: Option<String>,
}

struct Task {
    uid: String,
    bell: Arc<Notify>,
    interest: Arc<Mutex<Interest>>,
    stop: CancellationToken,
}

/// Runs every remediation until `cancel`.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    let mut tasks: BTreeMap<Key, Task> = BTreeMap::new();
    let mut running = JoinSet::new();
    for (key, _) in context.index.remediations() {
        inbox.push(Change::Object(Kind::Metal3Remediation, key));
    }
    loop {
        let changes = tokio::select! {
            () = cancel.cancelled() => break,
            changes = inbox.take() => changes,
            Some(done) = running.join_next() => {
                if let Err(error) = done {
                    tracing::error!(%error, "a remediation's task ended badly");
                }
                continue;
            }
        };
        let mut touched: BTreeSet<Key> = BTreeSet::new();
        for change in changes {
            match change {
                Change::Object(Kind::Metal3Remediation, key) => {
                    refresh(&context, &mut tasks, &mut running, &key, &cancel);
                    touched.insert(key);
                }
                Change::Object(_, object) => {
                    touched.extend(
                        tasks
                            .keys()
                            .filter(|k| k.namespace == object.namespace)
                            .cloned(),
                    );
                }
                Change::Node(cluster, node) => touched.extend(interested(&tasks, |i| {
                    i.cluster.as_ref() == Some(&cluster) && i.node.as_ref() == Some(&node)
                })),
                Change::Workload(cluster) => {
                    touched.extend(interested(&tasks, |i| i.cluster.as_ref() == Some(&cluster)));
                }
                Change::Agent => touched.extend(tasks.keys().cloned()),
            }
        }
        for task in touched.iter().filter_map(|key| tasks.get(key)) {
            task.bell.notify_one();
        }
    }
    while running.join_next().await.is_some() {}
}

fn interested(tasks: &BTreeMap<Key, Task>, fits: impl Fn(&Interest) -> bool) -> Vec<Key> {
    tasks
        .iter()
        .filter(|(_, t)| fits(&t.interest.lock()))
        .map(|(k, _)| k.clone())
        .collect()
}

/// Starts the task of a new object, ends that of one that is gone.
fn refresh(
    context: &Arc<Context>,
    tasks: &mut BTreeMap<Key, Task>,
    running: &mut JoinSet<()>,
    key: &Key,
    cancel: &CancellationToken,
) {
    let uid = context
        .index
        .remediation(key)
        .and_then(|e| e.object.metadata.uid.clone());
    if let Some(task) = tasks.get(key)
        && Some(&task.uid) != uid.as_ref()
    {
        task.stop.cancel();
        context.active.lock().remove(&task.uid);
        tasks.remove(key);
    }
    let Some(uid) = uid else { return };
    if tasks.contains_key(key) {
        return;
    }
    let task = Task {
        uid: uid.clone(),
        bell: Arc::default(),
        interest: Arc::default(),
        stop: cancel.child_token(),
    };
    let engine = engine::Engine::new(
        context.clone(),
        key.clone(),
        uid,
        task.bell.clone(),
        task.interest.clone(),
    );
    let stop = task.stop.clone();
    running.spawn(async move { engine.run(stop).await });
    tasks.insert(key.clone(), task);
}
