//! Collects the observation that a step is decided on.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::views::ViewError;
use rackhand_core::remediation::{
    ActiveRemediation, AgentFacts, BareMetalHostFacts, BmcAccess, Collected, EtcdGuard, HostRef,
    HostView, JournalFacts, Observation, PodDeletions, PolicyError, Progress, Reason, State, Step,
    WorkloadView,
};

use super::{
    concurrency::{active, competing_controller, overrules_quorum},
    engine::{Engine, ReconcileError},
    facts::{bmh_facts, machine_facts, openshift_machine, request_facts, wanted_node_action},
    orphaned_holds::{gone, traces},
    other_nodes::{Subject, node_named_by_inventory},
    power_policy::{KnownNode, ObservedPolicies, PolicyInput, is_approved, policy_input},
};
use crate::{
    hosts::{Target, find_machine, host, of_openshift, target},
    store::{
        api::{ApiError, call, optional},
        clock,
        index::Index,
        object::{Key, Kind, api},
        request::RequestView,
    },
};

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
    /// Its power policies, and what they need to know of it.
    pub(super) policies: PolicyInput,
    /// What these rest on.
    pub(super) policy_basis: ObservedPolicies,
}

impl Engine {
    /// Observes everything. `Ok(Err(..))` if the object cannot be parsed, so that nothing is
    /// decided.
    pub(super) async fn observe(
        &mut self,
        now: Timestamp,
    ) -> Result<Result<Observed, Reason>, ReconcileError> {
        let entry = self.snapshot.request.clone().ok_or(ReconcileError::Gone)?;
        let state = self.shell.state.clone();
        let (view, unread) = match &entry.view {
            Ok(view) => (view.clone(), None),
            Err(error) => match self.without_spec(&entry.object, state.as_ref()) {
                Some(view) => (Arc::new(view), Some(error.clone())),
                None => {
                    self.register_active(&entry.object);
                    return Ok(Err(Reason::InvalidSpec(error.to_string())));
                }
            },
        };
        self.report_unread_spec(unread.as_ref());
        self.read_absent(&view, state.as_ref()).await?;
        let context = self.context.clone();
        let index = &context.index;
        let mut target = target(index, &self.id.key, &view, state.as_ref());
        if let Some(reason) = self
            .read_openshift(&mut target, &view, state.as_ref())
            .await
        {
            self.register_active(&entry.object);
            return Ok(Err(reason));
        }
        {
            let mut interest = self.interest.lock();
            interest.cluster.clone_from(&target.cluster);
            interest.node.clone_from(&target.node);
        }
        let removed = self.removed_cluster(&target).await?;
        self.keep_connected(&target, state.as_ref());
        let workload = self.workload(&target, removed).await;
        find_machine(&self.context.index, &mut target);
        self.read_absent_of_node(&target, state.as_ref()).await?;
        find_machine(&self.context.index, &mut target);
        self.read_absent_check(&target).await?;
        // A Machine of OpenShift is not handed over to an owner.
        self.machine = target.machine_key().filter(|_| target.openshift.is_none());
        self.snapshot.machine = target
            .machine
            .clone()
            .filter(|_| target.openshift.is_none());
        self.node.clone_from(&target.node);
        let node = match &workload {
            WorkloadView::Present(node) => Some(node),
            _ => None,
        };
        let resolved = {
            let racks = self.context.agents.racks();
            host(&self.context.index, &racks, &target, node, state.as_ref())
        };
        self.log_ignored(resolved.ignored);
        let (host, bmh_key) = (resolved.view, resolved.bmh);
        let host = if target.by_node && target.machine().is_none() {
            let cluster = target.cluster.as_ref();
            let connecting = cluster.is_some_and(|c| self.context.index.is_connecting(c));
            or_unread(host, &workload, connecting)
        } else {
            host
        };
        let host = self.or_silent(host);
        let found = match &host {
            HostView::Found(host) => Some(host.clone()),
            HostView::NotFound(_) => None,
        };
        {
            let mut interest = self.interest.lock();
            interest.machine.clone_from(&self.machine);
            interest.host.clone_from(&bmh_key);
            interest.rack = found.as_ref().map(|host| host.rack.clone());
            let early = |s: &State| matches!(s.step, Step::Pending | Step::Retrying);
            interest.settled = state.as_ref().is_some_and(|s| !early(s));
        }
        let workload = match self.named_by_inventory(&target, found.as_ref(), &bmh_key, &workload) {
            Some(node) => {
                target.node = Some(node);
                self.workload(&target, removed).await
            }
            None => workload,
        };
        self.snapshot.host = None;
        let bmh = match &bmh_key {
            Some(key) => self.bare_metal_host(key).await,
            None => None,
        };
        self.held = bmh.as_ref().is_some_and(|b| b.our_hold);
        let AgentFacts {
            agent,
            agent_id,
            operation,
        } = self.agent_facts(found.as_ref()).await;
        let other_nodes = {
            let power = self.shell.power.clone();
            let subject = Subject {
                target: &target,
                host: found.as_ref(),
                bmh: bmh_key.as_ref(),
                workload: &workload,
                state: state.as_ref(),
                power: power.as_ref(),
            };
            self.other_nodes(&subject, operation.as_ref(), now).await
        };
        let draining = state.as_ref().is_some_and(|s| s.step == Step::Draining);
        let (workload, drain) = match (draining, &target.cluster, &target.node) {
            (true, Some(cluster), Some(node)) => match self.context.workloads.get(cluster) {
                Some(client) => match client.drain(node).await {
                    Ok(drain) => (workload, Some(drain)),
                    Err(e) => {
                        let why = format!("cluster {cluster}: {e}");
                        (WorkloadView::Unreachable { why }, None)
                    }
                },
                None => (workload, None),
            },
            _ => (workload, None),
        };
        self.read_access(found.as_ref()).await?;
        let pinned = self.pinned_operation(agent_id.as_ref(), now).await;
        let guard = self.etcd_guard(&target, state.as_ref()).await;
        let config = &context.config;
        let policy_basis = ObservedPolicies::of(&context.index, &target, found.as_ref());
        let node = KnownNode::of(&workload, self.snapshot.node.as_ref());
        let mut input = policy_input(
            &context.index,
            &target,
            found.as_ref(),
            &node,
            state.as_ref(),
        );
        if Progress::of(state.as_ref()) == Progress::Ready {
            self.read_past(found.as_ref(), &mut input).await;
            self.read_host_workload(&target, &mut input, now).await;
        }
        input.subject.approved = is_approved(&view);
        let mut me = active(
            &self.context.index,
            &self.id,
            &view,
            &target,
            found.as_ref(),
            state.as_ref(),
        );
        me.policy = input.facts.clone();
        if Progress::of(state.as_ref()) == Progress::Ready
            && let Some(host) = &me.node
        {
            let failing = is_failing(&context.index, &target, &workload);
            let causes = &context.live.causes;
            let rack = found.as_ref().map(|host| host.rack.as_str());
            // Causes are judged by times of the API server.
            let wall = clock::wall_now();
            input.subject.cause_holds = causes.holds(&input.policies, (host, rack), failing, wall);
        }
        let mut request = request_facts(&self.context.index, config, &self.id, &view, &target);
        if let Some(error) = unread {
            request.policy = Err(PolicyError::Field {
                field: error.field,
                message: error.problem,
            });
        }
        let host_identity = found.as_ref().and_then(|host| self.host_identity(host));
        let observation = Observation {
            request,
            machine: machine_facts(&self.context.index, &target),
            cluster: target.cluster_of_machine(),
            cluster_removed: removed,
            host,
            host_identity,
            conflict: competing_controller(&self.uid, bmh.as_ref()),
            bmh,
            workload,
            other_nodes,
            agent,
            access: BmcAccess::Known,
            agent_id,
            answered: None,
            pinned,
            held: found.as_ref().is_some_and(|host| {
                let agents = &self.context.agents;
                !agents.holding(&host.rack, &self.uid).is_empty()
            }),
            journal: JournalFacts::default(),
            outlets: found.as_ref().map_or_else(Vec::new, |host| {
                self.context.agents.outlets(&host.rack, &host.host)
            }),
            operation,
            power: None,
            silent_since: None,
            drain,
            pod_deletions: PodDeletions::default(),
            collected: Collected::default(),
            node_action: wanted_node_action(&self.context.index, config, &view, &target),
            completed: BTreeSet::new(),
        };
        let observation = self.shell.observed(observation, now);
        Ok(Ok(Observed {
            observation,
            me,
            target,
            guard,
            overrules_quorum: overrules_quorum(&view),
            policies: input,
            policy_basis,
        }))
    }

    /// What is known of a remediation whose spec cannot be read: it names its Machine or Node in its metadata, and one
    /// that has begun goes on with the settings with which it began. `None`: it has not begun.
    fn without_spec(&self, object: &DynamicObject, state: Option<&State>) -> Option<RequestView> {
        state.filter(|s| s.step != Step::Pending)?;
        RequestView::without_spec(self.id.kind, object).ok()
    }

    /// Reports, once for each mistake, that a spec cannot be read although the remediation goes on.
    fn report_unread_spec(&mut self, unread: Option<&ViewError>) {
        if unread == self.unread_spec.as_ref() {
            return;
        }
        self.unread_spec = unread.cloned();
        if let Some(error) = unread {
            let message = format!(
                "the spec cannot be read ({error}); the remediation goes on with the settings with which it began, and \
                 begins no further attempt before the spec is corrected"
            );
            self.emit_event(true, "InvalidSpec", &message);
        }
    }

    /// Reads the Machine of OpenShift of the request. These are few and not watched. A remediation
    /// that has begun knows its host and Node and does not wait for the Machine.
    async fn read_openshift(
        &self,
        target: &mut Target,
        view: &RequestView,
        state: Option<&State>,
    ) -> Option<Reason> {
        let key = target.openshift.clone()?;
        let begun = Progress::of(state) == Progress::Begun;
        if begun && target.node.is_some() {
            return None;
        }
        match openshift_machine(&self.context.client, &self.context.served, &key).await {
            Ok(machine) => {
                of_openshift(target, view, machine);
                None
            }
            Err(_) if begun => None,
            Err(error) => Some(Reason::MachineNotFound(error)),
        }
    }

    fn named_by_inventory(
        &self,
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
            state: self.shell.state.as_ref(),
            power: self.shell.power.as_ref(),
        };
        let racks = self.context.agents.racks();
        node_named_by_inventory(&self.context.index, &racks, &subject)
    }

    /// Whether an object is absent by a live read (F12). For a kind that is not served the answer
    /// is no.
    pub(super) async fn is_absent(&self, kind: Kind, key: &Key) -> Result<bool, ApiError> {
        let what = format!("{} {key}", kind.kind());
        let Some(resource) = self.context.served.known(kind) else {
            return Ok(false);
        };
        let objects = api(&self.context.client, &resource, &key.namespace);
        let found = optional(call(what, objects.get(&key.name)).await)?;
        Ok(found.is_none())
    }

    /// Logs the entries of inventories that do not count, once.
    fn log_ignored(&mut self, ignored: Vec<String>) {
        if !ignored.is_empty() && ignored != self.ignored {
            tracing::warn!(remediation = %self.id, ?ignored, "ignored entries of inventories");
        }
        self.ignored = ignored;
    }

    /// A host that was not found may belong to an agent that has not connected yet.
    fn or_silent(&self, host: HostView) -> HostView {
        let HostView::NotFound(Reason::HostNotFound(why)) = host else {
            return host;
        };
        let silent = self.context.agents.never_seen();
        HostView::NotFound(if silent.is_empty() {
            Reason::HostNotFound(why)
        } else {
            Reason::AgentUnreachable(format!("{} ({why})", silent.join("; ")))
        })
    }

    /// What the inventory entry or the BareMetalHost of the host says about its identity.
    fn host_identity(&self, host: &HostRef) -> Option<String> {
        let known = self.context.agents.identity_of(&host.rack, &host.host);
        if known.is_some() {
            return known;
        }
        let key = host.bmh.as_deref().map(Key::parse);
        let view = key.and_then(|key| self.context.index.host(&key)?.view.ok());
        view.map(|view| {
            let serial = view.serial_number.as_deref().unwrap_or_default();
            format!(
                "serial {serial:?}, no system UUID: {}",
                view.has_no_system_uuid()
            )
        })
    }

    async fn bare_metal_host(&mut self, key: &Key) -> Option<BareMetalHostFacts> {
        let entry = self.context.index.host(key);
        self.snapshot.host = entry.clone().map(|entry| (key.clone(), entry));
        let view = entry?.view.ok()?;
        let mut others = traces(&view);
        others.remove(&self.uid);
        let gone = match gone(&self.context, others).await {
            Ok(gone) => gone,
            Err(error) => {
                // Until they can be listed, the keys count as those of others.
                tracing::warn!(remediation = %self.id, %error, "the remediations cannot be listed, so hold keys that may be orphaned are left");
                BTreeSet::new()
            }
        };
        Some(bmh_facts(&view, key, &self.uid, &gone))
    }
}

/// Whether the index shows the Node, and the Node is not Ready. Where the index does not show it, nobody
/// judges whether others fail with it.
fn is_failing(index: &Index, target: &Target, workload: &WorkloadView) -> bool {
    let node = target.cluster.as_ref().zip(target.node.as_ref());
    let is_shown = node.is_some_and(|(cluster, node)| index.seen_node(cluster, node).is_some());
    is_shown && matches!(workload, WorkloadView::Present(node) if !node.ready)
}

/// A host that an inventory knows by the system UUID of its Node is not missing while the Node
/// cannot be read. While the connection is being made, which starts with the first request, nothing
/// is reported.
fn or_unread(host: HostView, workload: &WorkloadView, connecting: bool) -> HostView {
    match (host, workload) {
        (HostView::NotFound(Reason::HostNotFound(_)), WorkloadView::Unreachable { .. })
            if connecting =>
        {
            HostView::NotFound(Reason::Working)
        }
        (HostView::NotFound(Reason::HostNotFound(what)), WorkloadView::Unreachable { why }) => {
            HostView::NotFound(Reason::WorkloadUnreachable(format!("{why} ({what})")))
        }
        (host, _) => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_missing() -> HostView {
        HostView::NotFound(Reason::HostNotFound("no inventory has node n".into()))
    }

    fn mk_unreachable() -> WorkloadView {
        WorkloadView::Unreachable {
            why: "not connected".into(),
        }
    }

    #[test]
    fn host_is_not_missing_before_node_was_read() {
        let waits = or_unread(mk_missing(), &mk_unreachable(), true);
        assert_eq!(waits, HostView::NotFound(Reason::Working));
        let HostView::NotFound(why) = or_unread(mk_missing(), &mk_unreachable(), false) else {
            panic!("it was found");
        };
        assert_eq!(why.label(), "WorkloadUnreachable");
        let text = why.to_string();
        assert!(text.contains("not connected (no inventory has"), "{text}");
    }

    #[test]
    fn host_without_link_from_node_is_missing() {
        let gone = WorkloadView::Missing { name: "n".into() };
        assert_eq!(or_unread(mk_missing(), &gone, true), mk_missing());
        let several = HostView::NotFound(Reason::HostAmbiguous("a/x, b/x".into()));
        assert_eq!(or_unread(several.clone(), &mk_unreachable(), true), several);
    }
}
