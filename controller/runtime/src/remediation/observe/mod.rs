//! Collects the observation that a step is decided on.

pub(super) mod concurrency;
pub(super) mod facts;
pub(super) mod live_reads;
mod node_lease;
mod operation;
pub(super) mod other_nodes;
pub(super) mod power_policy;
pub(super) mod quorum;
pub(super) mod snapshot;
mod workload;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use rackhand_api::views::ViewError;
use rackhand_core::{
    fleet::placement::HostWorkload,
    limits::concurrency::{ActiveRemediation, EtcdGuard, Urgency},
    remediation::{
        AgentFacts, BareMetalHostFacts, BmcAccess, Collected, Evictions, HostRef, HostView,
        JournalFacts, Observation, PodDeletions, PolicyError, Progress, Reason, State, Step,
        WorkloadView, is_stopped_by_marks,
    },
    signals::Signal,
};
use tokio::time::Instant;

use self::{
    concurrency::{active, competing_controller, overrules_quorum},
    facts::{bmh_facts, machine_facts, object_facts, wanted_node_action},
    operation::OperationStream,
    other_nodes::{NamedHosts, NodeLookup, Subject, node_named_by_inventory},
    power_policy::{KnownNode, ObservedPolicies, PolicyInput, is_approved, policy_input},
};
use super::{
    endpoint::Endpoints,
    engine::ReconcileError,
    scope::{self, Memory},
};
use crate::{
    agents::{AgentConnections, AgentQueries},
    clusters::{LeaseObservations, NodeComparisons, RetainedConnection, WorkloadReader},
    config::Config,
    history::{History, HistoryReader},
    hosts::{ActiveRemediations, Target, find_machine, host, of_openshift, target, traces},
    shared_causes::SharedCauses,
    store::{
        clock,
        index::Index,
        live_reader::LiveReader,
        maintenance::unmarked,
        object::Key,
        remediation::{RemediationId, RemediationObject},
    },
};

/// The conditions of a Node which say that its host does not run.
const DOWN: [&str; 2] = [
    Signal::PowerLost.condition_type(),
    Signal::OsStopped.condition_type(),
];

/// What an observation needs. It has no writer, no client of a cluster, and commands no agent.
pub(crate) struct Context {
    pub(crate) reader: Arc<LiveReader>,
    pub(crate) endpoints: Arc<Endpoints>,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: WorkloadReader,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) config: Arc<Config>,
    /// For the concurrency check (F6).
    pub(crate) active: Arc<ActiveRemediations>,
    pub(crate) unevaluated: Arc<Unevaluated>,
    pub(crate) causes: Arc<SharedCauses>,
    /// What people are shown of remediations.
    pub(crate) history: Arc<History>,
    /// What earlier remediations did to each host.
    pub(crate) past: HistoryReader,
    /// Compares the Nodes of clusters with live lists.
    pub(crate) comparisons: NodeComparisons,
    /// The hosts of Nodes that many remediations compare themselves with.
    pub(crate) named_hosts: NamedHosts,
    /// What was observed of the Leases of Nodes.
    pub(crate) leases: Arc<LeaseObservations>,
}

/// Remediations that are not among the active ones, because this process has not evaluated them yet, or they are of
/// another shard. Locked after the active ones.
pub(crate) type Unevaluated = Mutex<BTreeSet<RemediationId>>;

/// A remediation that is observed.
pub(super) type Scope = scope::Scope<Context>;

/// The result of one observation.
pub(super) struct Observed {
    /// Without the result of the concurrency check, which depends on the decision.
    pub(super) observation: Observation,
    /// This remediation as the concurrency check of others needs it.
    pub(super) me: ActiveRemediation,
    pub(super) target: Target,
    pub(super) guard: Option<Result<EtcdGuard, String>>,
    /// Whether a person has overruled the quorum.
    pub(super) overrules_quorum: bool,
    /// Why it does not begin although everything else lets it.
    pub(super) unmarked: Option<Reason>,
    /// Its power policies, and what they need to know of it.
    pub(super) policies: PolicyInput,
    /// What these rest on.
    pub(super) policy_basis: ObservedPolicies,
}

/// Observes one remediation.
#[derive(Default)]
pub(super) struct Observer {
    /// The events of the operation that the shell follows.
    events: Option<OperationStream>,
    /// Entries of inventories that do not count, as logged last.
    ignored: Vec<String>,
    /// What waits for the host, and when that was read.
    host_workload: Option<(Timestamp, HostWorkload)>,
    /// Keeps the connection to the workload cluster.
    connection: Option<RetainedConnection>,
    /// When the Machine and the BareMetalHost were read for the policies.
    labels_read: Option<Instant>,
    /// Why the spec cannot be read, as reported last.
    pub(super) unread_spec: Option<ViewError>,
}

impl Observer {
    /// Observes everything, and the Node live if the decision rests on it. `Ok(Err(..))` if the object cannot be
    /// parsed, so that nothing is decided.
    pub(super) async fn observe(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<Result<Observed, Reason>, ReconcileError> {
        let seen = Box::pin(self.observe_once(scope, memory, now)).await?;
        let state = memory.shell.state.as_ref();
        let suffices = |seen: &Observed| {
            let decision = memory.shell.decide(&seen.observation, now);
            memory.shell.node.suffices(state, &decision, now)
        };
        if seen.as_ref().is_ok_and(|seen| !suffices(seen)) {
            memory.shell.node.forget();
            return Box::pin(self.observe_once(scope, memory, now)).await;
        }
        Ok(seen)
    }

    async fn observe_once(
        &mut self,
        scope: &Scope,
        memory: &mut Memory,
        now: Timestamp,
    ) -> Result<Result<Observed, Reason>, ReconcileError> {
        let entry = memory.snapshot.object.clone().ok_or(ReconcileError::Gone)?;
        let state = memory.shell.state.clone();
        let (view, unread) = match &entry.view {
            Ok(view) => (view.clone(), None),
            Err(error) => match without_spec(scope, &entry.object, state.as_ref()) {
                Some(view) => (Arc::new(view), Some(error.clone())),
                None => {
                    concurrency::register_active(scope, &entry.object);
                    return Ok(Err(Reason::InvalidSpec(error.to_string())));
                }
            },
        };
        self.report_unread_spec(scope, unread.as_ref());
        live_reads::read_absent(scope, &view, state.as_ref()).await?;
        let context = scope.context.clone();
        let index = &context.index;
        let mut target = target(index, &scope.id.key, &view, state.as_ref());
        if let Some(reason) = read_openshift(scope, &mut target, &view, state.as_ref()).await {
            concurrency::register_active(scope, &entry.object);
            return Ok(Err(reason));
        }
        {
            let mut interest = scope.interest.lock();
            interest.cluster.clone_from(&target.cluster);
            interest.node.clone_from(&target.node);
        }
        let removed = workload::removed_cluster(scope, &target).await?;
        self.keep_connected(scope, &target, state.as_ref());
        let workload = workload::read(scope, memory, &target, removed, now).await;
        find_machine(&scope.context.index, &mut target);
        live_reads::read_absent_of_node(scope, &target, state.as_ref()).await?;
        find_machine(&scope.context.index, &mut target);
        live_reads::read_absent_check(scope, &target).await?;
        // A Machine of OpenShift is not handed over to an owner.
        memory.machine = target.machine_key().filter(|_| target.openshift.is_none());
        memory.snapshot.machine = target
            .machine
            .clone()
            .filter(|_| target.openshift.is_none());
        memory.node.clone_from(&target.node);
        let node = match &workload {
            WorkloadView::Present(node) => Some(node),
            _ => None,
        };
        let resolved = {
            let racks = scope.context.agents.racks();
            host(&scope.context.index, &racks, &target, node, state.as_ref())
        };
        self.log_ignored(scope, resolved.ignored);
        let (host, bmh_key) = (resolved.view, resolved.bmh);
        let host = if target.by_node && target.machine().is_none() {
            let cluster = target.cluster.as_ref();
            let connecting = cluster.is_some_and(|c| scope.context.index.is_connecting(c));
            host.or_unread(&workload, connecting)
        } else {
            host
        };
        let host = host.or_silent(&scope.context.agents.never_seen());
        let found = match &host {
            HostView::Found(host) => Some(host.clone()),
            HostView::NotFound(_) => None,
        };
        {
            let mut interest = scope.interest.lock();
            interest.machine.clone_from(&memory.machine);
            interest.host.clone_from(&bmh_key);
            interest.rack = found.as_ref().map(|host| host.rack.clone());
            let early = |s: &State| matches!(s.step, Step::Pending | Step::Retrying);
            interest.settled = state.as_ref().is_some_and(|s| !early(s));
        }
        let workload =
            match named_by_inventory(scope, memory, &target, found.as_ref(), &bmh_key, &workload)
                .await
            {
                Some(node) => {
                    target.node = Some(node);
                    workload::read(scope, memory, &target, removed, now).await
                }
                None => workload,
            };
        memory.snapshot.host = None;
        let bmh = match &bmh_key {
            Some(key) => bare_metal_host(scope, memory, key).await,
            None => None,
        };
        memory.held = bmh.as_ref().is_some_and(|b| b.our_hold);
        let AgentFacts {
            agent,
            agent_id,
            operation,
        } = self.agent_facts(scope, memory, found.as_ref()).await;
        let other_nodes = {
            let power = memory.shell.power.clone();
            let subject = Subject {
                target: &target,
                host: found.as_ref(),
                bmh: bmh_key.as_ref(),
                workload: &workload,
                state: state.as_ref(),
                power: power.as_ref(),
            };
            let is_read = memory.shell.read_since_end().is_some();
            other_nodes::compare(scope, &subject, (operation.as_ref(), is_read), now).await
        };
        let (workload, drain) = workload::left(scope, &target, state.as_ref(), workload).await;
        let endpoints = &scope.context.endpoints;
        endpoints.read_access(memory, found.as_ref()).await?;
        let pinned = operation::pinned_operation(scope, memory, agent_id.as_ref(), now).await;
        let guard = concurrency::begun_etcd_guard(scope, &target, state.as_ref()).await;
        let config = &context.config;
        let policy_basis = ObservedPolicies::of(&context.index, &target, found.as_ref());
        let node = KnownNode::of(&workload, memory.snapshot.node.as_ref());
        let mut input = policy_input(
            &context.index,
            &target,
            found.as_ref(),
            &node,
            state.as_ref(),
        );
        if Progress::of(state.as_ref()) == Progress::Ready {
            power_policy::read_past(scope, found.as_ref(), &mut input).await;
            self.read_host_workload(scope, &target, &mut input, now)
                .await;
        }
        input.subject.approved = is_approved(config, &view);
        let mut me = active(
            &scope.context.index,
            &scope.id,
            &view,
            &target,
            found.as_ref(),
            state.as_ref(),
        );
        me.policy = input.facts.clone();
        me.urgency = Urgency::of(&workload, &DOWN);
        if Progress::of(state.as_ref()) == Progress::Ready
            && let Some(host) = &me.node
        {
            let failing = is_failing(&context.index, &target, &workload);
            let causes = &context.causes;
            let rack = found.as_ref().map(|host| host.rack.as_str());
            // Causes are judged by times of the API server.
            let wall = clock::wall_now();
            input.subject.cause_holds = causes.holds(&input.policies, (host, rack), failing, wall);
        }
        let mut object = object_facts(&scope.context.index, config, &scope.id, &view, &target);
        if let Some(error) = unread {
            object.policy = Err(PolicyError::Field {
                field: error.field,
                message: error.problem,
            });
        }
        let host_identity = found.as_ref().and_then(|host| host_identity(scope, host));
        let is_begun = operation.is_some();
        // What the maintenance says goes first: it names why a mark is refused, and costs no call.
        let unmarked = match unmarked(&context.index, &scope.id.key, &entry.object) {
            Some(why) => Some(why),
            None => node_lease::unmarked_now(scope, &entry.object, state.as_ref(), is_begun).await,
        };
        // Before it begins, the marks are asked for last.
        let may_be_stopped = (state.as_ref()).is_some_and(|s| is_stopped_by_marks(s, is_begun));
        let observation = Observation {
            object,
            machine: machine_facts(&scope.context.index, &target),
            cluster: target.cluster_of_machine(),
            cluster_removed: removed,
            host,
            host_identity,
            conflict: competing_controller(&scope.uid, bmh.as_ref())
                .or_else(|| unmarked.clone().filter(|_| may_be_stopped)),
            bmh,
            workload,
            other_nodes,
            agent,
            access: BmcAccess::Known,
            agent_id,
            answered: None,
            pinned,
            held: found.as_ref().is_some_and(|host| {
                let agents = &scope.context.agents;
                !agents.holding(&host.rack, &scope.uid).is_empty()
            }),
            journal: JournalFacts::default(),
            outlets: found.as_ref().map_or_else(Vec::new, |host| {
                scope.context.agents.outlets(&host.rack, &host.host)
            }),
            operation,
            power: None,
            updates: None,
            update_rules: power_policy::update_rules(&input),
            approved: input.subject.approved,
            silent_since: None,
            drain,
            pod_deletions: PodDeletions::default(),
            evictions: Evictions::default(),
            collected: Collected::default(),
            node_action: wanted_node_action(&scope.context.index, config, &view, &target),
            completed: BTreeSet::new(),
            wall_ahead: clock::wall_ahead(),
        };
        let observation = memory.shell.observed(observation, now);
        Ok(Ok(Observed {
            observation,
            me,
            target,
            guard,
            overrules_quorum: overrules_quorum(config, &view),
            unmarked,
            policies: input,
            policy_basis,
        }))
    }

    /// Reports, once for each mistake, that a spec cannot be read although the remediation goes on.
    fn report_unread_spec(&mut self, scope: &Scope, unread: Option<&ViewError>) {
        if unread == self.unread_spec.as_ref() {
            return;
        }
        self.unread_spec = unread.cloned();
        if let Some(error) = unread {
            let message = format!(
                "the spec cannot be read ({error}); the remediation goes on with the settings with which it began, and \
                 begins no further attempt before the spec is corrected"
            );
            scope.emit_event(true, "InvalidSpec", &message);
        }
    }

    /// Logs the entries of inventories that do not count, once.
    fn log_ignored(&mut self, scope: &Scope, ignored: Vec<String>) {
        if !ignored.is_empty() && ignored != self.ignored {
            tracing::warn!(remediation = %scope.id, ?ignored, "ignored entries of inventories");
        }
        self.ignored = ignored;
    }
}

/// What is known of a remediation whose spec cannot be read: it names its Machine or Node in its metadata, and one
/// that has begun goes on with the settings with which it began. `None`: it has not begun.
fn without_spec(
    scope: &Scope,
    object: &DynamicObject,
    state: Option<&State>,
) -> Option<RemediationObject> {
    state.filter(|s| s.step != Step::Pending)?;
    RemediationObject::without_spec(scope.id.kind, object).ok()
}

/// Reads the Machine of OpenShift of the remediation. These are few and not watched. A remediation
/// that has begun knows its host and Node and does not wait for the Machine.
async fn read_openshift(
    scope: &Scope,
    target: &mut Target,
    view: &RemediationObject,
    state: Option<&State>,
) -> Option<Reason> {
    let key = target.openshift.clone()?;
    let begun = Progress::of(state) == Progress::Begun;
    if begun && target.node.is_some() {
        return None;
    }
    match scope.context.reader.openshift_machine(&key).await {
        Ok(machine) => {
            of_openshift(target, view, machine);
            None
        }
        Err(_) if begun => None,
        Err(error) => Some(Reason::MachineNotFound(error)),
    }
}

async fn named_by_inventory(
    scope: &Scope,
    memory: &Memory,
    target: &Target,
    host: Option<&HostRef>,
    bmh: &Option<Key>,
    workload: &WorkloadView,
) -> Option<String> {
    let subject = Subject {
        target,
        host,
        bmh: bmh.as_ref(),
        workload,
        state: memory.shell.state.as_ref(),
        power: memory.shell.power.as_ref(),
    };
    let lookup = NodeLookup {
        index: &scope.context.index,
        racks: || scope.context.agents.racks(),
        named: &scope.context.named_hosts,
    };
    node_named_by_inventory(&lookup, &subject).await
}

/// What the inventory entry or the BareMetalHost of the host says about its identity.
fn host_identity(scope: &Scope, host: &HostRef) -> Option<String> {
    let known = scope.context.agents.identity_of(&host.rack, &host.host);
    if known.is_some() {
        return known;
    }
    let key = host.bmh.as_deref().map(Key::parse);
    let view = key.and_then(|key| scope.context.index.host(&key)?.view.ok());
    view.map(|view| {
        let serial = view.serial_number.as_deref().unwrap_or_default();
        format!(
            "serial {serial:?}, no system UUID: {}",
            view.has_no_system_uuid()
        )
    })
}

async fn bare_metal_host(
    scope: &Scope,
    memory: &mut Memory,
    key: &Key,
) -> Option<BareMetalHostFacts> {
    let entry = scope.context.index.host(key);
    memory.snapshot.host = entry.clone().map(|entry| (key.clone(), entry));
    let view = entry?.view.ok()?;
    let mut others = traces(&view);
    others.remove(&scope.uid);
    let gone = match scope.context.reader.gone(others).await {
        Ok(gone) => gone,
        Err(error) => {
            // Until they can be listed, the keys count as those of others.
            tracing::warn!(remediation = %scope.id, %error, "the remediations cannot be listed, so hold keys that may be orphaned are left");
            BTreeSet::new()
        }
    };
    Some(bmh_facts(&view, key, &scope.uid, &gone))
}

/// Whether the index shows the Node, and the Node is not Ready. Where the index does not show it, nobody
/// judges whether others fail with it.
fn is_failing(index: &Index, target: &Target, workload: &WorkloadView) -> bool {
    let node = target.cluster.as_ref().zip(target.node.as_ref());
    let is_shown = node.is_some_and(|(cluster, node)| index.seen_node(cluster, node).is_some());
    is_shown && matches!(workload, WorkloadView::Present(node) if !node.ready)
}
