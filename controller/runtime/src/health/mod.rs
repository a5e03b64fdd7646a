//! Evaluates health checks: which are touched, when the next deadline falls, one evaluation of a
//! check at a time.
//!
//! Must never judge: `rackhand_core::health` does.

mod actions;
mod conditions;
mod evaluate;
mod facts;
mod mine;
mod seen;
mod shown;
#[cfg(test)]
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;
use rackhand_api::views::MachineHealthCheckView;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) use mine::Mine;
pub(crate) use seen::{Seen, Selected, cluster_facts, rules};

use crate::{
    events::Events,
    index::{Change, Inbox, Index},
    metrics::Metrics,
    object::{Key, Kind, Served},
    writer::Writer,
};

/// What every evaluation works with.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) mine: Arc<Mine>,
}

/// Wait after an evaluation that could not be carried out whole: first and longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

#[derive(Default)]
struct Queue {
    /// When to look at a check although nothing has changed.
    due: BTreeMap<Key, Timestamp>,
    running: BTreeSet<Key>,
    again: BTreeSet<Key>,
    failures: BTreeMap<Key, u32>,
}

/// What an evaluation came to.
struct Evaluated {
    key: Key,
    wake_at: Option<Timestamp>,
    failed: bool,
}

/// Evaluates every check until `cancel`.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    let mut queue = Queue::default();
    let mut tasks: JoinSet<Evaluated> = JoinSet::new();
    for (key, _) in context.index.checks() {
        start(&context, &mut queue, &mut tasks, key);
    }
    loop {
        let next = queue.due.values().min().copied();
        tokio::select! {
            () = cancel.cancelled() => break,
            changes = inbox.take() => {
                for key in touched(&context.index, &changes) {
                    start(&context, &mut queue, &mut tasks, key);
                }
            }
            () = sleep_until(next) => {
                let now = Timestamp::now();
                let due: Vec<(Key, Timestamp)> = queue
                    .due
                    .iter()
                    .filter(|(_, at)| **at <= now)
                    .map(|(k, at)| (k.clone(), *at))
                    .collect();
                for (key, at) in due {
                    queue.due.remove(&key);
                    let late = Duration::try_from(now.duration_since(at)).unwrap_or_default();
                    context.metrics.deadline_lateness(late);
                    start(&context, &mut queue, &mut tasks, key);
                }
            }
            Some(done) = tasks.join_next() => match done {
                Ok(done) => finish(&context, &mut queue, &mut tasks, done),
                Err(error) => tracing::error!(%error, "an evaluation ended badly"),
            },
        }
    }
    while tasks.join_next().await.is_some() {}
}

fn start(context: &Arc<Context>, queue: &mut Queue, tasks: &mut JoinSet<Evaluated>, key: Key) {
    if queue.running.contains(&key) {
        queue.again.insert(key);
        return;
    }
    queue.running.insert(key.clone());
    let context = context.clone();
    tasks.spawn(async move {
        match evaluate::evaluate(&context, &key).await {
            Ok(wake_at) => Evaluated { key, wake_at, failed: false },
            Err(error) => {
                tracing::warn!(check = %key, %error, "a health check was not carried out whole; trying again");
                Evaluated { key, wake_at: None, failed: true }
            }
        }
    });
}

fn finish(
    context: &Arc<Context>,
    queue: &mut Queue,
    tasks: &mut JoinSet<Evaluated>,
    done: Evaluated,
) {
    let Evaluated {
        key,
        wake_at,
        failed,
    } = done;
    queue.running.remove(&key);
    queue.due.remove(&key);
    if failed {
        let count = queue.failures.entry(key.clone()).or_insert(0);
        let wait = BACKOFF
            .0
            .saturating_mul(1 << (*count).min(7))
            .min(BACKOFF.1);
        *count = count.saturating_add(1);
        let at = Timestamp::now().checked_add(wait).unwrap_or(Timestamp::MAX);
        queue.due.insert(key.clone(), at);
    } else {
        queue.failures.remove(&key);
        if let Some(at) = wake_at {
            queue.due.insert(key.clone(), at);
        }
    }
    if queue.again.remove(&key) {
        start(context, queue, tasks, key);
    }
}

async fn sleep_until(at: Option<Timestamp>) {
    match at {
        None => std::future::pending().await,
        Some(at) => {
            let left = at.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
    }
}

/// The checks that a change may concern.
fn touched(index: &Index, changes: &BTreeSet<Change>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    let checks = index.checks();
    let mut of_cluster = |cluster: &Key| {
        keys.extend(
            checks
                .iter()
                .filter(|(k, e)| in_cluster(k, e.view.as_deref().ok(), cluster))
                .map(|(k, _)| k.clone()),
        );
    };
    let mut direct = BTreeSet::new();
    for change in changes {
        match change {
            Change::Object(Kind::MachineHealthCheck, key) => {
                direct.insert(key.clone());
            }
            Change::Object(Kind::Cluster, key) | Change::Workload(key) => of_cluster(key),
            Change::Node(cluster, node) => {
                if !index.machines_of_node(cluster, node).is_empty() {
                    of_cluster(cluster);
                }
            }
            Change::Object(
                Kind::Machine | Kind::Metal3Remediation | Kind::PowerRemediation,
                key,
            ) => {
                match index
                    .machine(key)
                    .and_then(|e| e.view.ok())
                    .and_then(|m| m.cluster_name.clone())
                {
                    Some(cluster) => of_cluster(&Key::new(&key.namespace, cluster)),
                    None => direct.extend(
                        checks
                            .iter()
                            .filter(|(k, _)| k.namespace == key.namespace)
                            .map(|(k, _)| k.clone()),
                    ),
                }
            }
            Change::Object(..) | Change::Agent => {}
        }
    }
    keys.extend(direct);
    keys
}

fn in_cluster(key: &Key, view: Option<&MachineHealthCheckView>, cluster: &Key) -> bool {
    key.namespace == cluster.namespace
        && view.is_some_and(|v| v.cluster_name.as_deref() == Some(&cluster.name))
}
