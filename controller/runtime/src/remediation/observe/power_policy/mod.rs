//! The power policies of a remediation: which ones select its host, and what they decide.
//!
//! Evaluated under the lock of the concurrency check, so that budgets are exact. After a restart the
//! remediations that an earlier process has begun count before they are evaluated again.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::{
    kinds::host_history::{HostHistoryStatus, HostRemediation, REMEDIATIONS},
    names::APPROVED_ANNOTATION,
};
use rackhand_core::{
    fleet::placement::{Placement, PolicyFacts},
    limits::concurrency::ActiveRemediation,
    limits::power_policy::PolicyDecision,
    limits::power_policy::{
        Counting, Hold, PastAttempt, PowerPolicy, REMEMBERED_REMEDIATIONS, Rule, Subject, evaluate,
    },
    remediation::{HostRef, Reason, State, UpdateRules, WorkloadView},
};
use tokio::time::Instant;

use super::Observer;
use crate::{
    config::Config,
    history::{CauseHeld, cause_record},
    hosts::{Target, shared_names},
    remediation::{
        observe::{Scope, facts::persons_word},
        scope::Memory,
    },
    store::{
        clock,
        index::Index,
        object::{Key, Kind},
        power_policy::{NodeLabels, Selected},
        remediation::RemediationObject,
    },
};

/// How long a remediation waits for the pods of its Node.
const HOST_WORKLOAD_WAIT: Duration = Duration::from_secs(1);
/// How long the Machine and the BareMetalHost count as read.
const LABELS_AGE: Duration = Duration::from_secs(1);
/// How long what was read counts. Each change of another remediation evaluates all that wait.
const HOST_WORKLOAD_AGE: SignedDuration = SignedDuration::from_secs(60);

/// The policies that select a host, and what they need to know of it.
#[derive(Debug, Default)]
pub(in crate::remediation) struct PolicyInput {
    pub(super) policies: Vec<PowerPolicy>,
    pub(super) facts: PolicyFacts,
    pub(super) subject: Subject,
}

/// What the policies of an observation rest on.
#[derive(Debug, Default)]
pub(in crate::remediation) struct ObservedPolicies {
    pub(in crate::remediation) objects: Vec<(Kind, Key)>,
    pub(in crate::remediation) versions: PolicyVersions,
}

impl ObservedPolicies {
    /// The index as it is now. Read it after this.
    pub(super) fn of(index: &Index, target: &Target, host: Option<&HostRef>) -> Self {
        let objects = selecting_objects(target, host);
        let versions = PolicyVersions::of(index, &objects);
        Self { objects, versions }
    }
}

/// What is known of the Node.
pub(super) enum KnownNode<'a> {
    Read(&'a Node),
    /// The host has no Node.
    None,
    Unread,
}

impl<'a> KnownNode<'a> {
    pub(super) fn of(workload: &WorkloadView, read: Option<&'a Node>) -> Self {
        match (workload, read) {
            (_, Some(node)) => Self::Read(node),
            (WorkloadView::Unreachable { .. }, None) => Self::Unread,
            _ => Self::None,
        }
    }

    fn labels(&self) -> NodeLabels<'_> {
        match self {
            Self::Read(node) => NodeLabels::Known(node.labels()),
            Self::None => NodeLabels::NoNode,
            Self::Unread => NodeLabels::Unknown,
        }
    }

    fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        match self {
            Self::Read(node) => Some(node.annotations()),
            Self::None | Self::Unread => None,
        }
    }
}

/// Collects what the policies need to know.
pub(super) fn policy_input(
    index: &Index,
    target: &Target,
    host: Option<&HostRef>,
    node: &KnownNode<'_>,
    state: Option<&State>,
) -> PolicyInput {
    let counted = match Counting::of(state, matches!(node, KnownNode::Read(_))) {
        Counting::Nothing => return PolicyInput::default(),
        Counting::Now => None,
        Counting::SinceBeginning(counted) => Some(counted),
    };
    let bmh = host.and_then(|h| h.bmh.as_deref()).map(Key::parse);
    let bmh = bmh.and_then(|key| index.host(&key));
    let of_bmh = bmh.as_ref().map(|entry| entry.object.annotations());
    let annotations: Vec<&BTreeMap<String, String>> =
        node.annotations().into_iter().chain(of_bmh).collect();
    let (pdus, switches) = shared_names(annotations.iter().copied());
    let rack = host.map(|h| h.rack.clone());
    let mut input = PolicyInput::default();
    let pinned = counted.and_then(|counted| counted.placement.labels.as_ref());
    let labels = pinned.map_or(node.labels(), NodeLabels::Known);
    let machine = target.machine().map(|m| &m.meta.labels);
    for entry in index.power_policies() {
        let Ok(stored) = &entry.view else { continue };
        let name = &stored.policy.name;
        match stored.selects(labels, machine, rack.as_deref()) {
            Selected::No => continue,
            Selected::Yes => {}
            Selected::Unknown => {
                input.subject.assumed.insert(name.clone());
            }
        }
        input.facts.policies.insert(name.clone());
        input.policies.push(stored.policy.clone());
    }
    input.subject.annotations = annotations.iter().flat_map(|a| a.keys().cloned()).collect();
    // As those of the history of the host.
    let displayed = state.map(|s| s.on_wall(clock::wall_ahead()));
    input.subject.past = displayed.iter().flat_map(PastAttempt::of_state).collect();
    input.facts.placement = Placement {
        cluster: target.cluster.as_ref().map(ToString::to_string),
        rack,
        pdus,
        switches,
        kernel: None,
        labels: match node {
            KnownNode::Read(node) => Some(node.labels().clone()),
            KnownNode::None => Some(BTreeMap::new()),
            KnownNode::Unread => None,
        },
    };
    if let Some(counted) = counted {
        input.facts = std::mem::take(&mut input.facts).since_beginning(counted);
    }
    input
}

/// The versions of the objects in the index by which policies select and hold a host. The labels of its Node are read
/// with each observation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::remediation) struct PolicyVersions(BTreeMap<(Kind, Key), Option<String>>);

impl PolicyVersions {
    pub(in crate::remediation) fn of(index: &Index, objects: &[(Kind, Key)]) -> Self {
        let policies = index.keys(Kind::PowerPolicy).into_iter();
        let policies = policies.map(|key| (Kind::PowerPolicy, key));
        let all = policies.chain(objects.iter().cloned());
        let versions = all.map(|(kind, key)| {
            let version = index.version_of(kind, &key);
            ((kind, key), version)
        });
        Self(versions.collect())
    }
}

/// The Machine and the BareMetalHost whose metadata policies read.
pub(super) fn selecting_objects(target: &Target, host: Option<&HostRef>) -> Vec<(Kind, Key)> {
    // A Machine of OpenShift is read with each observation.
    let machine = target.machine_key().filter(|_| target.openshift.is_none());
    let bmh = host.and_then(|h| h.bmh.as_deref()).map(Key::parse);
    let machine = machine.map(|key| (Kind::Machine, key));
    let bmh = bmh.map(|key| (Kind::BareMetalHost, key));
    machine.into_iter().chain(bmh).collect()
}

/// The earlier attempts on the host that switched it off, of all other remediations.
fn past_attempts(history: &HostHistoryStatus, uid: &str) -> Vec<PastAttempt> {
    let others = history.remediations.iter().filter(|r| r.uid != uid);
    others.flat_map(attempts_of).collect()
}

/// The attempts of a remediation that switched its host off. The last one of a remediation that succeeded
/// ended with it.
pub(crate) fn attempts_of(remediation: &HostRemediation) -> Vec<PastAttempt> {
    let succeeded = remediation.outcome.as_deref() == Some("succeeded");
    let attempts = remediation.attempts.iter();
    let switched_off = attempts.filter(|a| a.powered_off_at.is_some());
    let mut past: Vec<PastAttempt> = switched_off
        .map(|attempt| PastAttempt {
            begun: attempt.started_at,
            ended: attempt.finished_at.unwrap_or(attempt.started_at),
            succeeded: false,
        })
        .collect();
    let ended = remediation.finished_at.filter(|_| succeeded);
    if let (Some(ended), Some(last)) = (ended, past.last_mut()) {
        last.ended = ended;
        last.succeeded = true;
    }
    past
}

/// The core counts as many remediations as a history lists.
const _: () = assert!(REMEDIATIONS == REMEMBERED_REMEDIATIONS);

/// What the policies say about a host whose firmware is being updated. One that may select the host counts.
pub(super) fn update_rules(input: &PolicyInput) -> UpdateRules {
    UpdateRules::of_all(
        input
            .policies
            .iter()
            .filter_map(|p| p.firmware_update.as_ref()),
    )
}

/// Whether a person has approved this remediation.
pub(super) fn is_approved(config: &Config, view: &RemediationObject) -> bool {
    let meta = view.meta();
    persons_word(config, meta, APPROVED_ANNOTATION).as_ref() == Some(&meta.uid)
}

impl Observer {
    /// Reads the policies, and what they select by, live before the remediation begins (F13). Returns whether anything
    /// differs from what was observed, so that a new observation is required.
    ///
    /// # Errors
    /// They cannot be read, so that it is not known whether one holds the host.
    pub(in crate::remediation) async fn read_policies(
        &mut self,
        scope: &Scope,
        observed: &ObservedPolicies,
    ) -> Result<bool, Reason> {
        let unread = |why: &dyn std::fmt::Display| {
            Reason::HeldByPolicy(format!(
                "it is not known whether a PowerPolicy holds this host, because they cannot be read now: {why}; it \
                 begins once they are read"
            ))
        };
        let read = scope.context.comparisons.reach_policies().await;
        read.map_err(|why| unread(&why))?;
        let asked = Instant::now();
        let is_read = self
            .labels_read
            .is_some_and(|at| asked.duration_since(at) < LABELS_AGE);
        // Without a policy, as the list has shown, no label selects anything.
        let may_select = !scope.context.index.power_policies().is_empty();
        if may_select && !is_read {
            for (kind, key) in &observed.objects {
                let read = scope.context.reader.read(*kind, key).await;
                read.map_err(|why| unread(&why))?;
            }
            self.labels_read = Some(asked);
        }
        let now = PolicyVersions::of(&scope.context.index, &observed.objects);
        Ok(now != observed.versions)
    }

    /// Reads what waits for the host, if one of its policies has a budget. What is not known within a second
    /// does not delay the remediation.
    pub(super) async fn read_host_workload(
        &mut self,
        scope: &Scope,
        target: &Target,
        input: &mut PolicyInput,
        now: Timestamp,
    ) {
        let depends = input.policies.iter().any(PowerPolicy::depends_on_workload);
        let (Some(cluster), Some(node), true) = (&target.cluster, &target.node, depends) else {
            return;
        };
        let recent = self
            .host_workload
            .filter(|(at, _)| now.duration_since(*at) < HOST_WORKLOAD_AGE);
        if let Some((_, workload)) = recent {
            input.facts.workload = workload;
            return;
        }
        let Some(client) = scope.context.workloads.get(cluster) else {
            return;
        };
        let read = tokio::time::timeout(HOST_WORKLOAD_WAIT, client.host_workload(node)).await;
        if let Ok(Ok(workload)) = read {
            self.host_workload = Some((now, workload));
            input.facts.workload = workload;
        }
    }
}

/// Reads the earlier remediations of the host, if one of its policies depends on them.
pub(super) async fn read_past(scope: &Scope, host: Option<&HostRef>, input: &mut PolicyInput) {
    let depends = input.policies.iter().any(PowerPolicy::depends_on_past);
    let Some(host) = host.filter(|_| depends) else {
        return;
    };
    match scope.context.past.read(&host.rack, &host.host).await {
        Ok(found) => input.subject.past.extend(past_attempts(&found, &scope.uid)),
        Err(error) => input.subject.past_unread = Some(error.to_string()),
    }
}

/// Keeps the shared cause that holds this remediation, for the history of its host.
fn record_cause_hold(
    scope: &Scope,
    memory: &Memory,
    hold: &Hold,
    input: &PolicyInput,
    now: Timestamp,
) {
    let held = input.subject.cause_holds.get(&hold.policy);
    if let Some(cause) = held.and_then(|held| held.cause.as_ref()) {
        let held = CauseHeld {
            policy: &hold.policy,
            since: now,
            until: hold.until,
        };
        let (created, record) = (memory.created(), cause_record(cause, Some(held)));
        let history = &scope.context.history;
        history.put_shared_cause(&scope.uid, created.unwrap_or(now), record);
    }
}

/// Evaluates the policies that select the host.
pub(super) fn decide_by_policies(
    scope: &Scope,
    memory: &Memory,
    me: &ActiveRemediation,
    input: &PolicyInput,
    others: &[&ActiveRemediation],
    now: Timestamp,
) -> PolicyDecision {
    let state = memory.shell.state.as_ref();
    let keep_off = state.is_some_and(|s| s.keep_off.is_some());
    let verdict = evaluate(&input.policies, me, &input.subject, others, now);
    let decision = PolicyDecision::of(verdict, keep_off);
    if let PolicyDecision::Refuse {
        hold: Some(hold), ..
    } = &decision
        && let (Rule::SharedCause, Some(host)) = (hold.rule, &me.node)
    {
        let causes = &scope.context.causes;
        causes.begin_hold(&hold.policy, host, now);
        record_cause_hold(scope, memory, hold, input, now);
    }
    decision
}

#[cfg(test)]
mod tests;
