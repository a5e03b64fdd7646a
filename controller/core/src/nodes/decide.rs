//! What a check does now: the order of its rules (docs/reference/medik8s.md, Evaluation).
//!
//! Only Nodes that are unhealthy or remediated are considered one by one; the others are two counts. Must
//! never act while the limit is reached, and never leave a recovered Node with its remediation because
//! something else is paused.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::check_status::{Flag, NodeCheckStatus, Phase, Tried};
use super::class::Class;
use super::facts::{NodeFacts, Request, RequestId};
use super::lease::HeldLease;
use super::quorum::ControlPlane;
use super::rules::{Check, Step};
use super::storm::Storm;
use super::threshold::fewest_healthy;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Take the Lease of the Node and make a remediation.
    Create {
        /// The Node.
        node: String,
        /// The step of the escalation.
        step: Step,
        /// It is of the control plane.
        control_plane: bool,
        /// For how long the Lease is taken.
        lease: Duration,
        /// Nothing was tried yet for this failure: the Lease is acquired anew, even where it is ours.
        anew: bool,
        /// It is the first one of a Node of the control plane: OpenShift's guard of etcd has a say.
        asks_guard: bool,
    },
    /// Delete a remediation: the one with this UID.
    Delete {
        /// The Node.
        node: String,
        /// The remediation that it is about.
        request: RequestId,
        /// Its UID.
        uid: String,
    },
    /// Write down since when its Node is healthy, or (`None`) that it is not.
    Delay {
        /// The Node.
        node: String,
        /// The remediation that it is about.
        request: RequestId,
        /// Since when the Node is healthy.
        since: Option<Timestamp>,
    },
    /// Tell a remediation to stop.
    TimeOut {
        /// The Node.
        node: String,
        /// The remediation that it is about.
        request: RequestId,
        /// The time that is written.
        at: Timestamp,
    },
    /// Say once that a remediation is very old.
    TellOld {
        /// The Node.
        node: String,
        /// The remediation that it is about.
        request: RequestId,
    },
    /// Renew the Lease of the Node.
    RenewLease {
        /// The Node.
        node: String,
        /// For how long.
        lease: Duration,
    },
    /// Give the Lease of the Node back.
    ReleaseLease {
        /// The Node.
        node: String,
    },
    /// Take a person's word off the Node: it has done its work.
    Unconfirm {
        /// The Node.
        node: String,
    },
}

/// An Event about the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// It is a warning.
    pub warning: bool,
    /// Reason of the Event, in CamelCase.
    pub reason: &'static str,
    /// In words, without medik8s' prefix.
    pub message: String,
}

/// A remediation that is over, for the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The Node.
    pub node: String,
    /// What it was.
    pub request: RequestId,
    /// How long it was there.
    pub lasted: Duration,
}

/// Why a check can do nothing at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disabled {
    /// `RemediationTemplateNotFound`, `RemediationTemplateInvalid`,
    /// `ConflictingMachineHealthCheckDetected` or `UnsupportedControlPlaneTopology`.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

/// What is known beside Nodes and remediations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outside {
    /// Its templates cannot be used, or others care for its Nodes.
    pub disabled: Option<Disabled>,
    /// OpenShift is being upgraded: in words.
    pub upgrading: Option<String>,
    /// Nodes whose remediation is being made for this check now.
    pub creating: BTreeSet<String>,
    /// Nodes whose remediation is being made for another check now: which.
    pub elsewhere: BTreeMap<String, String>,
    /// Nodes for which nothing is made before then: why.
    pub blocked: BTreeMap<String, (Timestamp, String)>,
    /// The Leases of Nodes, as they read now, whoever holds them; absent: there is none, or it is not
    /// known.
    pub leases: BTreeMap<String, HeldLease>,
}

/// What a check does now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// What its status shall say.
    pub memory: NodeCheckStatus,
    /// What to do, each for itself.
    pub actions: Vec<Action>,
    /// What to say.
    pub events: Vec<Event>,
    /// What is over.
    pub finished: Vec<Finished>,
    /// Why nothing new may be done for any Node: the limit, or a storm.
    pub closed: Option<String>,
    /// How many more Nodes may fail before the limit closes; 0 while it is closed.
    pub allowed: u32,
    /// Why nothing is begun for a Node that is unhealthy.
    pub skipped: BTreeMap<String, String>,
    /// When to look again although nothing happens.
    pub wake_at: Option<Timestamp>,
}

/// A Node that is unhealthy, or that has a remediation or an entry in the status.
pub(super) struct NodeState<'a> {
    /// The Node; `None`: it is gone.
    pub(super) node: Option<&'a NodeFacts>,
    pub(super) selected: bool,
    pub(super) class: Class,
    /// The remediations of this check.
    pub(super) requests: Vec<&'a Request>,
    /// A remediation of somebody else.
    pub(super) foreign: Option<&'a Request>,
}

/// The fleet of a check, as far as the decision needs it.
pub(super) struct FleetView<'a> {
    pub(super) check: &'a Check,
    pub(super) selected: u32,
    /// Selected, healthy, and without a remediation of this check.
    pub(super) clean: u32,
    /// Some selected Node is unhealthy.
    pub(super) unhealthy: bool,
    pub(super) nodes: BTreeMap<&'a str, NodeState<'a>>,
    pub(super) control_plane: ControlPlane,
}

/// A decision that is being made.
pub(super) struct Decision<'a> {
    pub(super) check: &'a Check,
    pub(super) outside: &'a Outside,
    pub(super) control_plane: ControlPlane,
    /// OpenShift is being upgraded: in words.
    pub(super) upgrading: Option<String>,
    pub(super) now: Timestamp,
    pub(super) plan: Plan,
}

// === impl Action ===

impl Action {
    /// The Node that it is about.
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

    /// Takes a Node out of the status.
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

    /// A remediation is over.
    pub(super) fn finish(&mut self, node: &str, tried: &Tried) {
        let lasted = self.now.duration_since(tried.started);
        self.plan.finished.push(Finished {
            node: node.to_owned(),
            request: tried.id.clone(),
            lasted: Duration::try_from(lasted).unwrap_or_default(),
        });
    }

    /// Writes down remediations that are there and were not: the process that made them died before
    /// it could. What they say of themselves counts.
    fn reconcile(&mut self, name: &str, requests: &[&Request]) {
        if requests.is_empty() {
            return;
        }
        let entry = self.plan.memory.nodes.entry(name.to_owned()).or_default();
        for request in requests {
            let known = entry.tried.iter_mut().find(|t| t.uid == request.uid);
            match known {
                Some(tried) => tried.timed_out = tried.timed_out.or(request.timed_out),
                None => entry.tried.push(Tried {
                    id: request.id.clone(),
                    uid: request.uid.clone(),
                    template: request.template.clone(),
                    started: request.created,
                    timed_out: request.timed_out,
                }),
            }
        }
        entry.tried.sort_by_key(|t| t.started);
    }

    fn decide_node(&mut self, name: &str, state: &NodeState<'_>) {
        self.reconcile(name, &state.requests);
        match (state.node, &state.class) {
            (Some(node), Class::Healthy) if state.selected => self.healthy(node, state),
            // Its selector label was taken off while it was being remediated: that is no reason to
            // cut the remediation off in the middle.
            (Some(node), class) if !state.selected => match class {
                Class::Healthy => self.healthy(node, state),
                _ => self.keep(name, state),
            },
            (Some(node), Class::Matching(cause)) => self.matching(node, state, cause),
            (Some(_), _) => {}
            (None, _) => self.orphan(name, state),
        }
    }

    /// Opens or closes by the limit, and by what is left of a storm.
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
                "{} of {} selected Nodes are healthy, and {needed} have to be",
                view.clean, view.selected
            )),
            Ok(_) => effect.closed,
        };
        if self.plan.closed.is_none() {
            self.plan.allowed = u32::try_from(spare).unwrap_or(u32::MAX);
        }
    }

    /// The condition Disabled; returns whether it is True.
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

    /// The phase, which is the first that fits (docs/reference/medik8s.md, Fields).
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

/// An unhealthy Node that gets another configuration reboots for that, and comes back.
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

/// Decides what a check does next.
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
