//! Runs remediations: one task per object, observing, asking the core, carrying out.
//!
//! Owns which tasks exist and who is woken by what. Must never decide a step.

mod absent;
mod act;
mod credentials;
mod engine;
mod escalate;
#[cfg(test)]
mod fixture;
mod left_holds;
mod legacy;
mod observe;
mod operation;
mod patches;
mod place;
mod quorum;
mod record;
mod request;
mod rivals;
mod snapshot;
mod status;
mod supervise;
mod tally;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, api::ListParams, core::TypeMeta};
use parking_lot::Mutex;
use rackhand_core::remediation::Active;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub(crate) use observe::{
    bmh_facts, machine_facts, openshift_machine, request_facts, wanted_node_action,
};
pub(crate) use patches::{NewCondition, both_lists};
pub(crate) use place::{Place, find_machine, host, of_openshift, place};
pub(crate) use quorum::control_plane;
pub(crate) use record::stored_state;
pub(crate) use request::{RequestId, RequestView};
pub(crate) use rivals::{
    OPENSHIFT_ETCD, OPENSHIFT_NODE_LABEL, active, ask_guard, etcd_guard, guard, has_guard, rival,
};

use crate::{
    agents::Agents,
    api::{ApiError, call},
    cluster::{LeaseMemory, Workloads},
    config::Config,
    events::Events,
    index::{Change, Inbox, Index},
    metrics::Metrics,
    object::{Key, Kind, Served, api},
    watch::pause,
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
    /// Remediations by UID as they last looked, for the right of way (F6).
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
    pub(crate) machine: Option<Key>,
    /// Its BareMetalHost.
    pub(crate) host: Option<Key>,
    /// Its host is chosen: no other Machine or BareMetalHost concerns it. Until then, and before a
    /// further attempt, a link may appear or a control plane recover anywhere.
    pub(crate) settled: bool,
}

/// How soon a remediation looks at what has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    No,
    Now,
    /// With whatever else changes in a while: in a storm the objects of all others do, and each look
    /// is a read of the Node.
    Later,
}

impl Interest {
    fn hears(&self, id: &RequestId, kind: Kind, object: &Key) -> Heard {
        let own = match kind {
            // Nothing is decided by these; agents speak for themselves.
            Kind::MachineHealthCheck | Kind::OpenShiftCheck | Kind::RackAgent => return Heard::No,
            Kind::Machine => self.machine.as_ref() == Some(object),
            Kind::BareMetalHost => self.host.as_ref() == Some(object),
            Kind::Metal3Machine | Kind::OpenShiftMachine => false,
            Kind::Cluster | Kind::Metal3Remediation | Kind::PowerRemediation => true,
        };
        // What a request by Node hangs on may lie in any namespace.
        let near =
            id.key.namespace == object.namespace || self.cluster.as_ref() == Some(&Key::local());
        match (near, own, self.settled) {
            (true, true, _) => Heard::Now,
            (true, false, false) => Heard::Later,
            _ => Heard::No,
        }
    }
}

/// How long what is heard later is gathered, with so many remediations about.
fn gathered_for(remediations: usize) -> Duration {
    let count = u32::try_from(remediations).unwrap_or(u32::MAX);
    (LATER.0 + LATER.1.saturating_mul(count)).min(LATER.2)
}

/// The shortest, more for each remediation, and the longest.
const LATER: (Duration, Duration, Duration) = (
    Duration::from_millis(500),
    Duration::from_millis(10),
    Duration::from_secs(10),
);

/// Wait before requests are listed again.
const LIST_RETRY: Duration = Duration::from_secs(1);

struct Task {
    uid: String,
    bell: Arc<Notify>,
    interest: Arc<Mutex<Interest>>,
    stop: CancellationToken,
}

/// Runs every remediation until `cancel`, and releases what earlier ones have left at agents.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    tokio::join!(
        run_tasks(context.clone(), inbox, cancel.clone()),
        left_holds::run(context, cancel),
    );
}

async fn run_tasks(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
    while let Err(error) = read_anew(&context).await {
        tracing::warn!(%error, "requests cannot be listed; nothing is begun before that");
        if pause(&cancel, LIST_RETRY).await {
            return;
        }
    }
    let mut tasks: BTreeMap<RequestId, Task> = BTreeMap::new();
    let mut running = JoinSet::new();
    for (id, _) in context.index.requests() {
        inbox.push(Change::Object(id.kind, id.key));
    }
    let mut later: BTreeSet<RequestId> = BTreeSet::new();
    let mut later_at: Option<Instant> = None;
    loop {
        let changes = tokio::select! {
            () = cancel.cancelled() => break,
            changes = inbox.take() => changes,
            () = sleep_until(later_at.unwrap_or_else(Instant::now)), if later_at.is_some() => {
                later_at = None;
                ring(&tasks, &std::mem::take(&mut later));
                continue;
            }
            Some(done) = running.join_next() => {
                if let Err(error) = done {
                    tracing::error!(%error, "a remediation's task ended badly");
                }
                continue;
            }
        };
        let mut touched: BTreeSet<RequestId> = BTreeSet::new();
        for change in changes {
            match change {
                Change::Object(kind, key) if Kind::REQUESTS.contains(&kind) => {
                    let id = RequestId::new(kind, key);
                    refresh(&context, &mut tasks, &mut running, &id, &cancel);
                    touched.insert(id);
                }
                Change::Object(kind, object) => {
                    for (id, task) in &tasks {
                        match task.interest.lock().hears(id, kind, &object) {
                            Heard::No => {}
                            Heard::Now => drop(touched.insert(id.clone())),
                            Heard::Later => drop(later.insert(id.clone())),
                        }
                    }
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
        ring(&tasks, &touched);
        if later_at.is_none() && !later.is_empty() {
            later_at = Some(Instant::now() + gathered_for(tasks.len()));
        }
    }
    while running.join_next().await.is_some() {}
}

fn ring(tasks: &BTreeMap<RequestId, Task>, who: &BTreeSet<RequestId>) {
    for task in who.iter().filter_map(|id| tasks.get(id)) {
        task.bell.notify_one();
    }
}

/// What another process has begun up to now must be known (F6): a watch that hangs would not tell.
async fn read_anew(context: &Context) -> Result<(), ApiError> {
    for kind in Kind::REQUESTS {
        let Some(resource) = context.served.known(kind) else {
            continue;
        };
        let namespace = context.config.namespace.as_deref().unwrap_or_default();
        let objects = api(&context.client, &resource, namespace);
        let every = ListParams::default();
        for mut object in call(kind.kind(), objects.list(&every)).await? {
            // The items of a list do not name their kind.
            object.types = Some(TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            });
            object.metadata.managed_fields = None;
            context.index.apply(kind, object);
        }
    }
    Ok(())
}

fn interested(
    tasks: &BTreeMap<RequestId, Task>,
    fits: impl Fn(&Interest) -> bool,
) -> Vec<RequestId> {
    tasks
        .iter()
        .filter(|(_, t)| fits(&t.interest.lock()))
        .map(|(k, _)| k.clone())
        .collect()
}

/// Starts the task of a new object, ends that of one that is gone.
fn refresh(
    context: &Arc<Context>,
    tasks: &mut BTreeMap<RequestId, Task>,
    running: &mut JoinSet<()>,
    id: &RequestId,
    cancel: &CancellationToken,
) {
    let uid = context
        .index
        .request(id)
        .and_then(|e| e.object.metadata.uid.clone());
    if let Some(task) = tasks.get(id)
        && Some(&task.uid) != uid.as_ref()
    {
        task.stop.cancel();
        context.active.lock().remove(&task.uid);
        context.metrics.blocked(&task.uid, None);
        tasks.remove(id);
    }
    let Some(uid) = uid else { return };
    if tasks.contains_key(id) {
        return;
    }
    let task = Task {
        uid: uid.clone(),
        bell: Arc::default(),
        interest: Arc::default(),
        stop: cancel.child_token(),
    };
    let engine = {
        let (context, id) = (context.clone(), id.clone());
        let (bell, interest) = (task.bell.clone(), task.interest.clone());
        move || {
            let (context, id, uid) = (context.clone(), id.clone(), uid.clone());
            engine::Engine::new(context, id, uid, bell.clone(), interest.clone())
        }
    };
    let (metrics, stop) = (context.metrics.clone(), task.stop.clone());
    let what = id.to_string();
    running.spawn(async move {
        let run = || Box::pin(engine().run(stop.clone()));
        supervise::supervise(&what, &metrics, &stop, run).await;
    });
    tasks.insert(id.clone(), task);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_remediations_the_longer_what_concerns_all_is_gathered() {
        assert_eq!(gathered_for(0), Duration::from_millis(500));
        assert_eq!(gathered_for(100), Duration::from_millis(1500));
        assert_eq!(gathered_for(usize::MAX), Duration::from_secs(10));
    }

    #[test]
    fn once_its_host_is_chosen_a_remediation_hears_its_own_objects_only() {
        let key = |name: &str| Key::new("ns", name);
        let id = RequestId::new(Kind::Metal3Remediation, key("m1"));
        let mut interest = Interest {
            machine: Some(key("m1")),
            host: Some(key("h1")),
            ..Interest::default()
        };
        let heard = |interest: &Interest| {
            [
                (Kind::Machine, "m1"),
                (Kind::BareMetalHost, "h1"),
                (Kind::Cluster, "c"),
                (Kind::Machine, "m2"),
                (Kind::BareMetalHost, "h2"),
                (Kind::Metal3Machine, "m1"),
                (Kind::MachineHealthCheck, "check"),
            ]
            .map(|(kind, name)| interest.hears(&id, kind, &key(name)))
        };
        let (no, now, later) = (Heard::No, Heard::Now, Heard::Later);
        // A link may appear anywhere.
        assert_eq!(heard(&interest), [now, now, now, later, later, later, no]);
        interest.settled = true;
        assert_eq!(heard(&interest), [now, now, now, no, no, no, no]);
        let elsewhere = Key::new("other", "c");
        assert_eq!(interest.hears(&id, Kind::Cluster, &elsewhere), no);
    }
}
