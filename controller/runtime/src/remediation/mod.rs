//! Runs remediations, one task per object: observe, decide in the core, carry out.
//!
//! Manages the tasks and what wakes them.

mod bmc_watch;
mod claim;
mod commands;
mod concurrency;
mod credentials;
mod engine;
mod escalate;
mod evidence_commands;
mod facts;
#[cfg(test)]
mod fixture;
mod history;
mod host_commands;
mod host_evidence;
mod live_facts;
mod live_reads;
mod metrics;
mod node_backup;
mod node_commands;
mod observe;
mod offenders;
mod operation;
mod orphaned_holds;
mod outcome_metrics;
mod pod_commands;
mod policy;
mod power_policy;
mod quorum;
mod shared_causes;
mod snapshot;
mod state_format;
mod status;
mod stored_state;
mod supervise;
mod target;
mod workload;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::{Client, ResourceExt, api::DynamicObject};
use parking_lot::Mutex;
use rackhand_api::names::WATCH_FILTER_LABEL;
use rackhand_core::remediation::{ActiveRemediation, LeaseMemory};
use rackhand_proto::TraceContext;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

pub(crate) use concurrency::{active, competing_controller, etcd_guard, has_guard};
pub(crate) use credentials::bmc_endpoint;
pub(crate) use facts::{
    bmh_facts, machine_facts, openshift_machine, request_facts, wanted_node_action,
};
pub(crate) use history::Recorder;
pub use host_evidence::evidence_of_api;
pub(crate) use live_facts::LiveFacts;
pub(crate) use metrics::RemediationMetrics;
pub use offenders::with_suspect;
pub(crate) use power_policy::shared_names;
pub(crate) use quorum::control_plane;
pub(crate) use stored_state::stored_state;
pub(crate) use target::{
    FleetMember, Target, find_machine, fleet, host, host_of_machine, host_of_openshift,
    of_openshift, target,
};

use crate::{
    agents::Agents,
    clusters::Workloads,
    config::Config,
    leader::{events::Events, writer::Writer},
    store::{
        index::{Change, ChangeQueue, Index},
        object::{Key, Kind, Served},
        request::RequestId,
        watch::pause,
    },
};

/// Dependencies of every remediation.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<Agents>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<RemediationMetrics>,
    pub(crate) config: Config,
    /// The identity of this process in the leader Lease, which no other process has.
    pub(crate) identity: String,
    /// Remediations by UID as last evaluated, for the concurrency check (F6).
    pub(crate) active: Mutex<BTreeMap<String, ActiveRemediation>>,
    /// The inputs of the last decision of each remediation.
    pub(crate) live: Arc<LiveFacts>,
    /// Writes what each did into the history of its host.
    pub(crate) recorder: Recorder,
    /// Since when the Lease of each Node has been observed unchanged, by cluster.
    pub(crate) leases: Mutex<BTreeMap<Key, Arc<Mutex<LeaseMemory>>>>,
}

impl Context {
    pub(crate) fn lease_memory(&self, cluster: &Key) -> Arc<Mutex<LeaseMemory>> {
        self.leases
            .lock()
            .entry(cluster.clone())
            .or_default()
            .clone()
    }
}

/// The objects whose changes wake a remediation.
#[derive(Default)]
pub(crate) struct WatchInterest {
    pub(crate) cluster: Option<Key>,
    pub(crate) node: Option<String>,
    pub(crate) machine: Option<Key>,
    /// The BareMetalHost of the remediation.
    pub(crate) host: Option<Key>,
    /// The rack of the host; `None` while the host is not known, which an agent of any rack may know.
    pub(crate) rack: Option<String>,
    /// The host is chosen, so that no other Machine or BareMetalHost matters. Before that, and
    /// between attempts, a link may appear, or a control plane recover, anywhere.
    pub(crate) settled: bool,
}

/// How soon a change wakes a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakeup {
    No,
    Now,
    /// Batched with other changes: in a storm the objects of all others change, and each
    /// observation reads the Node.
    Later,
}

impl WatchInterest {
    /// Whether an agent of a rack matters.
    fn concerns_rack(&self, rack: &str) -> bool {
        self.rack.as_deref().is_none_or(|own| own == rack)
    }

    fn wakeup_for(&self, id: &RequestId, kind: Kind, object: &Key) -> Wakeup {
        let own = match kind {
            // No decision depends on these; changes of agents are announced separately.
            Kind::MachineHealthCheck
            | Kind::OpenShiftCheck
            | Kind::NodeHealthCheck
            | Kind::RackAgent => return Wakeup::No,
            Kind::Machine => self.machine.as_ref() == Some(object),
            Kind::BareMetalHost => self.host.as_ref() == Some(object),
            Kind::Metal3Machine | Kind::OpenShiftMachine => false,
            // It may select any host, and matters to those that have begun nothing.
            Kind::PowerPolicy if self.settled => return Wakeup::No,
            Kind::PowerPolicy => return Wakeup::Now,
            Kind::Cluster | Kind::Metal3Remediation | Kind::PowerRemediation => true,
        };
        // The objects of a request by Node may be in any namespace.
        let near =
            id.key.namespace == object.namespace || self.cluster.as_ref() == Some(&Key::local());
        match (near, own, self.settled) {
            (true, true, _) => Wakeup::Now,
            (true, false, false) => Wakeup::Later,
            _ => Wakeup::No,
        }
    }
}

/// How long changes are batched, by the number of remediations.
fn batch_delay(remediations: usize) -> Duration {
    let count = u32::try_from(remediations).unwrap_or(u32::MAX);
    (LATER.0 + LATER.1.saturating_mul(count)).min(LATER.2)
}

/// Shortest time, time added per remediation, and longest time.
const LATER: (Duration, Duration, Duration) = (
    Duration::from_millis(500),
    Duration::from_millis(10),
    Duration::from_secs(10),
);

/// Pause before the remediations are listed and claimed again.
const LIST_RETRY: Duration = Duration::from_secs(1);

struct Task {
    uid: String,
    wake: Arc<Notify>,
    interest: Arc<Mutex<WatchInterest>>,
    stop: CancellationToken,
}

/// Runs every remediation, releases holds that earlier ones left at agents, keeps the status of power
/// policies, judges which hosts fail together, writes the histories of hosts, and reads their BMCs between
/// remediations, until `cancel`.
pub(crate) async fn run(context: Arc<Context>, inbox: Arc<ChangeQueue>, cancel: CancellationToken) {
    let listed = CancellationToken::new();
    let of_causes = Arc::<ChangeQueue>::default();
    tokio::join!(
        run_tasks(
            context.clone(),
            inbox.clone(),
            of_causes.clone(),
            listed.clone(),
            cancel.clone()
        ),
        Box::pin(shared_causes::run(
            context.clone(),
            of_causes,
            inbox,
            cancel.clone()
        )),
        orphaned_holds::run(context.clone(), cancel.clone()),
        Box::pin(history::run(context.clone(), listed, cancel.clone())),
        bmc_watch::run(context.clone(), cancel.clone()),
        power_policy::status::run(context, cancel),
    );
}

async fn run_tasks(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    of_causes: Arc<ChangeQueue>,
    listed: CancellationToken,
    cancel: CancellationToken,
) {
    while let Err(error) = claim::claim_requests(&context).await {
        tracing::warn!(%error, "the remediations cannot be listed and claimed; none begins before that");
        if pause(&cancel, LIST_RETRY).await {
            return;
        }
    }
    listed.cancel();
    let mut tasks: BTreeMap<RequestId, Task> = BTreeMap::new();
    let mut running = JoinSet::new();
    for (id, _) in context.index.requests() {
        inbox.push(Change::Object(id.kind, id.key));
    }
    let mut unclaimed: BTreeSet<String> = BTreeSet::new();
    let mut later: BTreeSet<RequestId> = BTreeSet::new();
    let mut later_at: Option<Instant> = None;
    loop {
        let changes = tokio::select! {
            () = cancel.cancelled() => break,
            changes = inbox.take() => changes,
            () = sleep_until(later_at.unwrap_or_else(Instant::now)), if later_at.is_some() => {
                later_at = None;
                wake_tasks(&tasks, &std::mem::take(&mut later));
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
            if shared_causes::concerns(&change) {
                of_causes.push(change.clone());
            }
            match change {
                Change::Object(kind, key) if Kind::REQUESTS.contains(&kind) => {
                    let id = RequestId::new(kind, key);
                    if let Some(entry) = context.index.request(&id) {
                        report_unclaimed(&context, &entry.object, &mut unclaimed);
                    }
                    refresh(&context, &mut tasks, &mut running, &id, &cancel);
                    touched.insert(id);
                }
                Change::Object(kind, object) => {
                    for (id, task) in &tasks {
                        match task.interest.lock().wakeup_for(id, kind, &object) {
                            Wakeup::No => {}
                            Wakeup::Now => drop(touched.insert(id.clone())),
                            Wakeup::Later => drop(later.insert(id.clone())),
                        }
                    }
                }
                Change::Node(cluster, node) => touched.extend(interested(&tasks, |i| {
                    i.cluster.as_ref() == Some(&cluster) && i.node.as_ref() == Some(&node)
                })),
                Change::Workload(cluster) => {
                    touched.extend(interested(&tasks, |i| i.cluster.as_ref() == Some(&cluster)));
                }
                Change::Agent(rack) => {
                    touched.extend(interested(&tasks, |i| i.concerns_rack(&rack)));
                }
            }
        }
        wake_tasks(&tasks, &touched);
        if later_at.is_none() && !later.is_empty() {
            later_at = Some(Instant::now() + batch_delay(tasks.len()));
        }
    }
    while running.join_next().await.is_some() {}
}

fn wake_tasks(tasks: &BTreeMap<RequestId, Task>, who: &BTreeSet<RequestId>) {
    for task in who.iter().filter_map(|id| tasks.get(id)) {
        task.wake.notify_one();
    }
}

fn interested(
    tasks: &BTreeMap<RequestId, Task>,
    fits: impl Fn(&WatchInterest) -> bool,
) -> Vec<RequestId> {
    tasks
        .iter()
        .filter(|(_, t)| fits(&t.interest.lock()))
        .map(|(k, _)| k.clone())
        .collect()
}

/// Whether this controller works on a remediation, where several share a management cluster by
/// `--watch-filter`.
fn is_of_shard(filter: Option<&str>, object: &DynamicObject) -> bool {
    filter.is_none_or(|filter| shard(object) == Some(filter))
}

fn shard(object: &DynamicObject) -> Option<&str> {
    object.labels().get(WATCH_FILTER_LABEL).map(String::as_str)
}

/// Says of a remediation that every shard ignores what its maker has to do (L1).
fn report_unclaimed(context: &Context, object: &DynamicObject, told: &mut BTreeSet<String>) {
    let is_filtered = context.config.watch_filter.is_some();
    if is_filtered && shard(object).is_none() && told.insert(object.uid().unwrap_or_default()) {
        let message = format!(
            "no controller with --watch-filter works on this remediation, because it does not carry the \
             label {WATCH_FILTER_LABEL}; set it to the value of the shard that is to carry it out"
        );
        context.events.send(object, true, "NoShard", &message);
    }
}

/// Starts the task of a new object and ends that of an object that is gone, or another shard's.
fn refresh(
    context: &Arc<Context>,
    tasks: &mut BTreeMap<RequestId, Task>,
    running: &mut JoinSet<()>,
    id: &RequestId,
    cancel: &CancellationToken,
) {
    let filter = context.config.watch_filter.as_deref();
    let uid = context
        .index
        .request(id)
        .filter(|e| is_of_shard(filter, &e.object))
        .and_then(|e| e.object.metadata.uid.clone());
    if let Some(task) = tasks.get(id)
        && Some(&task.uid) != uid.as_ref()
    {
        task.stop.cancel();
        context.active.lock().remove(&task.uid);
        context.metrics.forget(&task.uid);
        tasks.remove(id);
    }
    let Some(uid) = uid else { return };
    if tasks.contains_key(id) {
        return;
    }
    let task = Task {
        uid: uid.clone(),
        wake: Arc::default(),
        interest: Arc::default(),
        stop: cancel.child_token(),
    };
    let engine = {
        let (context, id) = (context.clone(), id.clone());
        let (wake, interest) = (task.wake.clone(), task.interest.clone());
        move || {
            let (context, id, uid) = (context.clone(), id.clone(), uid.clone());
            engine::Engine::new(context, id, uid, wake.clone(), interest.clone())
        }
    };
    let (metrics, stop) = (context.metrics.clone(), task.stop.clone());
    let what = id.to_string();
    let run = async move {
        let run = || Box::pin(engine().run(stop.clone()));
        supervise::supervise(&what, &metrics, &stop, run).await;
    };
    running.spawn(run.instrument(trace_span(&task.uid, id)));
    tasks.insert(id.clone(), task);
}

/// The trace span that the log lines of a remediation share with those of the agents, at every log level.
fn trace_span(uid: &str, id: &RequestId) -> Span {
    let Some(trace) = TraceContext::of_remediation(uid, "") else {
        return Span::none();
    };
    let span = tracing::error_span!("remediation", trace_id = trace.trace_id());
    trace.adopt(&span, [("rackhand.remediation", id.to_string())]);
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_delay_grows_with_number_of_remediations() {
        assert_eq!(batch_delay(0), Duration::from_millis(500));
        assert_eq!(batch_delay(100), Duration::from_millis(1500));
        assert_eq!(batch_delay(usize::MAX), Duration::from_secs(10));
    }

    #[test]
    fn f6_a_remediation_is_of_one_shard() {
        let labelled = |labels: serde_json::Value| -> DynamicObject {
            serde_json::from_value(serde_json::json!({ "metadata": { "labels": labels } })).unwrap()
        };
        let blue = labelled(serde_json::json!({ WATCH_FILTER_LABEL: "blue" }));
        let plain = labelled(serde_json::json!({}));
        for (filter, of_blue, of_plain) in [
            (None, true, true),
            (Some("blue"), true, false),
            (Some("red"), false, false),
        ] {
            assert_eq!(is_of_shard(filter, &blue), of_blue, "{filter:?}");
            assert_eq!(is_of_shard(filter, &plain), of_plain, "{filter:?}");
        }
    }

    #[test]
    fn remediation_with_chosen_host_wakes_for_its_own_objects_only() {
        let key = |name: &str| Key::new("ns", name);
        let id = RequestId::new(Kind::Metal3Remediation, key("m1"));
        let mut interest = WatchInterest {
            machine: Some(key("m1")),
            host: Some(key("h1")),
            ..WatchInterest::default()
        };
        let wakeups = |interest: &WatchInterest| {
            [
                (Kind::Machine, "m1"),
                (Kind::BareMetalHost, "h1"),
                (Kind::Cluster, "c"),
                (Kind::Machine, "m2"),
                (Kind::BareMetalHost, "h2"),
                (Kind::Metal3Machine, "m1"),
                (Kind::MachineHealthCheck, "check"),
            ]
            .map(|(kind, name)| interest.wakeup_for(&id, kind, &key(name)))
        };
        let (no, now, later) = (Wakeup::No, Wakeup::Now, Wakeup::Later);
        // A link to the Machine may appear in any object.
        assert_eq!(wakeups(&interest), [now, now, now, later, later, later, no]);
        interest.settled = true;
        assert_eq!(wakeups(&interest), [now, now, now, no, no, no, no]);
        let elsewhere = Key::new("other", "c");
        assert_eq!(interest.wakeup_for(&id, Kind::Cluster, &elsewhere), no);
    }

    #[test]
    fn agent_of_another_rack_wakes_only_while_no_host_is_found() {
        let mut interest = WatchInterest::default();
        assert!(interest.concerns_rack("r1"));
        interest.rack = Some("r2".into());
        assert!(!interest.concerns_rack("r1"));
        assert!(interest.concerns_rack("r2"));
    }
}
