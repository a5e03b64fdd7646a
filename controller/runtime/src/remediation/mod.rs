//! Runs remediations: one task per object, observing, asking the core, carrying out.
//!
//! Owns which tasks exist and who is woken by what. Must never decide a step.

mod act;
mod credentials;
mod engine;
mod escalate;
mod legacy;
mod observe;
mod operation;
mod patches;
mod place;
mod record;
mod request;
mod rivals;
mod status;
mod tally;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, api::ListParams, core::TypeMeta};
use parking_lot::Mutex;
use rackhand_core::remediation::Active;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) use observe::{
    bmh_facts, machine_facts, openshift_machine, request_facts, wanted_node_action,
};
pub(crate) use patches::{NewCondition, both_lists};
pub(crate) use place::{Place, find_machine, host, of_openshift, place};
pub(crate) use record::stored_state;
pub(crate) use request::{RequestId, RequestView};
pub(crate) use rivals::{
    OPENSHIFT_ETCD, active, control_plane, etcd_guard, guard, has_guard, rival,
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

impl Interest {
    fn hears(&self, id: &RequestId, kind: Kind, object: &Key) -> bool {
        match kind {
            // Nothing is decided by these; agents speak for themselves.
            Kind::MachineHealthCheck | Kind::OpenShiftCheck | Kind::RackAgent => false,
            Kind::Machine if self.settled => self.machine.as_ref() == Some(object),
            Kind::BareMetalHost if self.settled => self.host.as_ref() == Some(object),
            Kind::Metal3Machine if self.settled => false,
            // What a request by Node hangs on may lie in any namespace.
            _ => {
                id.key.namespace == object.namespace || self.cluster.as_ref() == Some(&Key::local())
            }
        }
    }
}

/// Wait before requests are listed again.
const LIST_RETRY: Duration = Duration::from_secs(1);

struct Task {
    uid: String,
    bell: Arc<Notify>,
    interest: Arc<Mutex<Interest>>,
    stop: CancellationToken,
}

/// Runs every remediation until `cancel`.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<Inbox>, cancel: CancellationToken) {
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
        let mut touched: BTreeSet<RequestId> = BTreeSet::new();
        for change in changes {
            match change {
                Change::Object(kind, key) if Kind::REQUESTS.contains(&kind) => {
                    let id = RequestId::new(kind, key);
                    refresh(&context, &mut tasks, &mut running, &id, &cancel);
                    touched.insert(id);
                }
                Change::Object(kind, object) => {
                    let near = |(id, task): &(&RequestId, &Task)| {
                        task.interest.lock().hears(id, kind, &object)
                    };
                    touched.extend(tasks.iter().filter(near).map(|(id, _)| id.clone()));
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
    let engine = engine::Engine::new(
        context.clone(),
        id.clone(),
        uid,
        task.bell.clone(),
        task.interest.clone(),
    );
    let stop = task.stop.clone();
    running.spawn(async move { engine.run(stop).await });
    tasks.insert(id.clone(), task);
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A link may appear anywhere.
        assert_eq!(
            heard(&interest),
            [true, true, true, true, true, true, false]
        );
        interest.settled = true;
        assert_eq!(
            heard(&interest),
            [true, true, true, false, false, false, false]
        );
        let elsewhere = Key::new("other", "c");
        assert!(!interest.hears(&id, Kind::Cluster, &elsewhere));
    }
}
