//! The decision of a check for its Nodes (docs/reference/medik8s.md, Evaluation).
//!
//! Only Nodes that are unhealthy or remediated are considered one by one; the others are only counted.
//! Must never remediate while the limit is reached, and never keep the remediation of a recovered Node
//! because the check is paused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::check_status::{Flag, NodeCheckStatus, Phase, Tried};
use super::class::Class;
use super::facts::{NodeFacts, NodeRemediation, RemediationId};
use super::lease::HeldLease;
use super::quorum::ControlPlane;
use super::rules::{Check, Step};
use super::storm::Storm;
use super::threshold::fewest_healthy;

/// An action of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Acquire the Lease of the Node and create a remediation.
    Create {
        /// Name of the Node.
        node: String,
        /// The step of the escalation.
        step: Step,
        /// Whether the Node belongs to the control plane.
        control_plane: bool,
        /// Duration of the Lease.
        lease: Duration,
        /// Whether this is the first remediation for this failure, so that the Lease is acquired again
        /// even if this check holds it.
        anew: bool,
        /// Whether this is the first remediation of a Node of the control plane, so that OpenShift's etcd
        /// guard is checked.
        asks_guard: bool,
    },
    /// Delete the remediation with this UID.
    Delete {
        /// Name of the Node.
        node: String,
        /// Remediation object that is created.
        remediation: RemediationId,
        /// UID of the remediation.
        uid: String,
    },
    /// Record on a remediation since when its Node is healthy, or (`None`) that it is not.
    Delay {
        /// Name of the Node.
        node: String,
        /// Remediation object that is deleted.
        remediation: RemediationId,
        /// When the Node became healthy.
        since: Option<Timestamp>,
    },
    /// Set the annotation by which a remediation stops.
    TimeOut {
        /// Name of the Node.
        node: String,
        /// Remediation object that is annotated.
        remediation: RemediationId,
        /// Value of the annotation.
        at: Timestamp,
    },
    /// Report once that a remediation is older than two days.
    TellOld {
        /// Name of the Node.
        node: String,
        /// Remediation object that is older than two days.
        remediation: RemediationId,
    },
    /// Renew the Lease of the Node.
    RenewLease {
        /// Name of the Node.
        node: String,
        /// Duration of the Lease.
        lease: Duration,
    },
    /// Release the Lease of the Node.
    ReleaseLease {
        /// Name of the Node.
        node: String,
    },
    /// Remove the confirmation of a person from the Node, because it has been used.
    Unconfirm {
        /// Name of the Node.
        node: String,
    },
}

/// An Event about the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Whether the Event is of type Warning rather than Normal.
    pub warning: bool,
    /// Reason of the Event, in CamelCase.
    pub reason: &'static str,
    /// Message of the Event, without medik8s' prefix.
    pub message: String,
}

/// A remediation that has ended, for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Name of the Node.
    pub node: String,
    /// Remediation object that has ended.
    pub remediation: RemediationId,
    /// How long the remediation existed.
    pub lasted: Duration,
}

/// Why a check is disabled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// `RemediationTemplateNotFound`, `RemediationTemplateInvalid`,
    /// `ConflictingMachineHealthCheckDetected` or `UnsupportedControlPlaneTopology`.
    pub reason: &'static str,
    /// Message of the condition `Disabled`.
    pub message: String,
}

/// The inputs of the decision besides Nodes and remediations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// Why the check is disabled: its templates cannot be used, or other checks conflict with it.
    pub disabled: Option<Disabled>,
    /// Why OpenShift counts as being upgraded, as a clause for messages.
    pub upgrading: Option<String>,
    /// Nodes whose remediation is being created for this check now.
    pub creating: BTreeSet<String>,
    /// Nodes whose remediation is being created for another check now, with the name of that check.
    pub elsewhere: BTreeMap<String, String>,
    /// Nodes for which no remediation is created before a time, with the cause.
    pub blocked: BTreeMap<String, (Timestamp, String)>,
    /// Nodes on whose host planned work is done, with what does it.
    pub maintenance: BTreeMap<String, String>,
    /// The Leases of Nodes, of any holder; absent if there is none, or it is unknown.
    pub leases: BTreeMap<String, HeldLease>,
}

/// The decision of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Status of the check after the decision.
    pub memory: NodeCheckStatus,
    /// The actions, which are independent of each other.
    pub actions: Vec<Action>,
    /// The Events to publish.
    pub events: Vec<Event>,
    /// The remediations that have ended.
    pub finished: Vec<Finished>,
    /// Why no new remediation may begin for any Node: the limit, or a storm.
    pub closed: Option<String>,
    /// How many more Nodes may fail before remediation stops; 0 if it is not allowed.
    pub allowed: u32,
    /// Why no remediation begins for an unhealthy Node, by Node.
    pub skipped: BTreeMap<String, String>,
    /// When to evaluate again although no object changes.
    pub wake_at: Option<Timestamp>,
}

/// A Node that is unhealthy, or that has a remediation or an entry in the status.
pub(super) struct NodeState<'a> {
    /// `None`: the Node does not exist.
    pub(super) node: Option<&'a NodeFacts>,
    pub(super) selected: bool,
    pub(super) class: Class,
    /// The remediations of this check.
    pub(super) remediations: Vec<&'a NodeRemediation>,
    /// A remediation of another owner.
    pub(super) foreign: Option<&'a NodeRemediation>,
}

/// The facts about the fleet of a check that a decision needs.
pub(super) struct FleetView<'a> {
    pub(super) check: &'a Check,
    pub(super) selected: u32,
    /// Number of Nodes that are selected, healthy, and without a remediation of this check.
    pub(super) clean: u32,
    /// Whether a selected Node is unhealthy.
    pub(super) unhealthy: bool,
    pub(super) nodes: BTreeMap<&'a str, NodeState<'a>>,
    pub(super) control_plane: ControlPlane,
}

/// The state of a decision in progress.
pub(super) struct Decision<'a> {
    pub(super) check: &'a Check,
    pub(super) outside: &'a Outside,
    pub(super) control_plane: ControlPlane,
    /// Why OpenShift counts as being upgraded, as a clause for messages.
    pub(super) upgrading: Option<String>,
    pub(super) now: Timestamp,
    pub(super) plan: Plan,
}

// === impl Action ===

impl Action {
    /// Name of the Node.
    pub fn node(&self) -> &str {
        match self {
            Self::Create { node, .. }
            | Self::Delete { node, .. }
            | Self::Delay { node, .. }
            | Self::TimeOut { node, .. }
            | Self::TellOld { node, .. }
            | Self::RenewLease { node, .. }
            | Self::ReleaseLease { node }
            | Self::Unconfirm { node } => node,
        }
    }
}

// === impl Event ===

impl Event {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            message: message.into(),
        }
    }
}

// === impl Decision ===

impl Decision<'_> {
    pub(super) fn emit_event(&mut self, event: Event) {
        self.plan.events.push(event);
    }

    pub(super) fn requeue_at(&mut self, at: Timestamp) {
        let first = self.plan.wake_at.map_or(at, |known| known.min(at));
        self.plan.wake_at = Some(first);
    }

    /// Removes a Node from the status.
    pub(super) fn forget(&mut self, name: &str) {
        let Some(entry) = self.plan.memory.nodes.remove(name) else {
            return;
        };
        for tried in &entry.tried {
            self.finish(name, tried);
        }
        if !entry.tried.is_empty() {
            self.plan.actions.push(Action::ReleaseLease {
                node: name.to_owned(),
            });
        }
    }

    /// Records that a remediation has ended.
    pub(super) fn finish(&mut self, node: &str, tried: &Tried) {
        let lasted = self.now.duration_since(tried.started);
        self.plan.finished.push(Finished {
            node: node.to_owned(),
            remediation: tried.id.clone(),
            lasted: Duration::try_from(lasted).unwrap_or_default(),
        });
    }

    /// Adds remediations to the status that exist and are not recorded: the process that created them
    /// ended before it wrote the status. Their own annotations are adopted.
    fn reconcile(&mut self, name: &str, remediations: &[&NodeRemediation]) {
        if remediations.is_empty() {
            return;
        }
        let entry = self.plan.memory.nodes.entry(name.to_owned()).or_default();
        for remediation in remediations {
            let known = entry.tried.iter_mut().find(|t| t.uid == remediation.uid);
            match known {
                Some(tried) => tried.timed_out = tried.timed_out.or(remediation.timed_out),
                None => entry.tried.push(Tried {
                    id: remediation.id.clone(),
                    uid: remediation.uid.clone(),
                    template: remediation.template.clone(),
                    started: remediation.created,
                    timed_out: remediation.timed_out,
                }),
            }
        }
        entry.tried.sort_by_key(|t| t.started);
    }

    fn decide_node(&mut self, name: &str, state: &NodeState<'_>) {
        self.reconcile(name, &state.remediations);
        match (state.node, &state.class) {
            (Some(node), Class::Healthy) if state.selected => self.healthy(node, state),
            // The Node lost its label while it was being remediated; the remediation is not interrupted.
            (Some(node), class) if !state.selected => match class {
                Class::Healthy => self.healthy(node, state),
                _ => self.keep(name, state),
            },
            (Some(node), Class::Matching(cause)) => self.matching(node, state, cause),
            (Some(_), _) => {}
            (None, _) => self.orphan(name, state),
        }
    }

    /// Evaluates the limit and the storm.
    fn weigh(&mut self, view: &FleetView<'_>) {
        let needed = fewest_healthy(self.check.limit, view.selected);
        let breached = needed
            .as_ref()
            .map_or(true, |needed| u64::from(view.clean) < *needed);
        let mut storm = Storm {
            active: self.plan.memory.storm.take(),
            cooldown: self.plan.memory.cooldown.take(),
        };
        let cooldown = self.check.storm_cooldown;
        let effect = storm.step(cooldown, breached, view.unhealthy, self.now);
        self.plan.memory.storm = storm.active;
        self.plan.memory.cooldown = storm.cooldown;
        self.plan.events.extend(effect.events);
        if let Some(until) = effect.until {
            self.requeue_at(until);
        }
        let spare = needed
            .as_ref()
            .map_or(0, |needed| u64::from(view.clean).saturating_sub(*needed));
        self.plan.closed = match needed {
            Err(error) => Some(error.to_string()),
            Ok(needed) if breached => Some(format!(
                "{} of {} selected Nodes are healthy, and {needed} must be healthy",
                view.clean, view.selected
            )),
            Ok(_) => effect.closed,
        };
        if self.plan.closed.is_none() {
            self.plan.allowed = u32::try_from(spare).unwrap_or(u32::MAX);
        }
    }

    /// Sets the condition Disabled. Returns whether it is True.
    fn disabled(&mut self) -> bool {
        let before = self.plan.memory.disabled.take();
        let was = before.as_ref().is_some_and(|(flag, ..)| flag.on);
        let on = self.outside.disabled.is_some();
        let since = match &before {
            Some((flag, ..)) if flag.on == on => flag.since,
            _ => self.now,
        };
        let (reason, message) = match &self.outside.disabled {
            Some(why) => (why.reason, why.message.clone()),
            None => ("NodeHealthCheckEnabled", "the check is enabled".to_owned()),
        };
        if on && !was {
            self.emit_event(Event::warning(
                "Disabled",
                format!("the check is disabled: {message}"),
            ));
        }
        if !on && was {
            self.emit_event(Event::normal("Enabled", "the check is enabled again"));
        }
        self.plan.memory.disabled = Some((Flag { on, since }, reason.to_owned(), message));
        on
    }

    /// Sets the phase: the first that applies (docs/reference/medik8s.md, Fields).
    fn phase(&mut self) {
        let memory = &mut self.plan.memory;
        let remediated = memory.nodes.values().filter(|e| !e.tried.is_empty());
        let remediated = remediated.count();
        let why = memory.disabled.as_ref().filter(|(flag, ..)| flag.on);
        let (phase, reason) = if let Some((_, _, why)) = why {
            (Phase::Disabled, format!("the check is disabled: {why}"))
        } else if !self.check.pauses.is_empty() {
            let why = self.check.pauses.join(", ");
            (Phase::Paused, format!("the check is paused: {why}"))
        } else if remediated > 0 {
            let plural = if remediated == 1 { "" } else { "s" };
            (
                Phase::Remediating,
                format!("the check is remediating {remediated} node{plural}"),
            )
        } else {
            (
                Phase::Enabled,
                "the check is enabled, nothing is being remediated".to_owned(),
            )
        };
        memory.phase = Some(phase);
        memory.reason = reason;
    }
}

/// Why the check waits for OpenShift to reconfigure an unhealthy Node: such a Node reboots and recovers.
fn reconfiguring(view: &FleetView<'_>) -> Option<String> {
    let unhealthy =
        |state: &&NodeState<'_>| state.selected && matches!(state.class, Class::Matching(_));
    let nodes = view
        .nodes
        .values()
        .filter(unhealthy)
        .filter_map(|state| state.node);
    let mut nodes = nodes.filter(|node| node.reconfiguring);
    nodes
        .next()
        .map(|node| format!("the configuration of Node {} is being changed", node.name))
}

/// Decides for all Nodes of a check.
pub(super) fn decide(
    view: &FleetView<'_>,
    outside: &Outside,
    memory: &NodeCheckStatus,
    now: Timestamp,
) -> Plan {
    let mut decision = Decision {
        check: view.check,
        outside,
        control_plane: view.control_plane.clone(),
        upgrading: outside.upgrading.clone().or_else(|| reconfiguring(view)),
        now,
        plan: Plan {
            memory: memory.clone(),
            ..Plan::default()
        },
    };
    decision.plan.memory.observed = view.selected;
    decision.plan.memory.healthy = view.clean;
    if !decision.disabled() {
        decision.weigh(view);
        for (name, state) in &view.nodes {
            decision.decide_node(name, state);
        }
    }
    decision.phase();
    decision.plan
}
