//! The remediation of one Node: creation, escalation, timeout and deletion.
//!
//! Must never begin a remediation of a Node that another holder works on.

use std::time::Duration;

use jiff::Timestamp;

use super::check_status::Tried;
use super::class::Cause;
use super::decide::{Action, Decision, Event, NodeState};
use super::facts::{Exclusion, NodeFacts, NodeRemediation};
use super::lease::lease_holder;
use super::rules::{CLASSIC, Delay, Step};
use crate::checks::machines::deadline;

/// Age from which a remediation is reported once (docs/reference/medik8s.md, Remediation of one Node).
const OLD: Duration = Duration::from_secs(48 * 3600);
/// Time by which a Lease outlasts the timeout of its remediation.
const LEASE_BUFFER: Duration = Duration::from_secs(60);
/// Time until a refused remediation is evaluated again, although no object has changed.
const REFUSED: Duration = Duration::from_secs(60);

fn lease(step: &Step) -> Duration {
    step.lasts() + LEASE_BUFFER
}

impl Decision<'_> {
    /// A Node with healthy conditions: its remediations are deleted, after the delay.
    pub(super) fn healthy(&mut self, node: &NodeFacts, state: &NodeState<'_>) {
        if state.remediations.is_empty() {
            let entry = self.plan.memory.nodes.get(&node.name);
            if entry.is_some_and(|e| !e.tried.is_empty()) && node.confirmed {
                self.plan.actions.push(Action::Unconfirm {
                    node: node.name.clone(),
                });
            }
            self.forget(&node.name);
            return;
        }
        let now = self.now;
        let mut delayed = false;
        for remediation in state.remediations.iter().filter(|r| !r.deleting) {
            let until = match self.check.delay {
                _ if node.confirmed => None,
                Delay::None => None,
                Delay::For(delay) => {
                    let since = remediation.delayed_since.unwrap_or(now);
                    Some(deadline(since, delay)).filter(|until| now < *until)
                }
                Delay::UntilConfirmed => Some(Timestamp::MAX),
            };
            let Some(until) = until else {
                self.delete(node, remediation);
                continue;
            };
            delayed = true;
            if remediation.delayed_since.is_none() {
                self.plan.actions.push(Action::Delay {
                    node: node.name.clone(),
                    remediation: remediation.id.clone(),
                    since: Some(now),
                });
            }
            if until < Timestamp::MAX {
                self.requeue_at(until);
            }
        }
        let entry = self.plan.memory.nodes.entry(node.name.clone()).or_default();
        entry.healthy_since.get_or_insert(now);
        entry.delayed = delayed;
    }

    fn delete(&mut self, node: &NodeFacts, remediation: &NodeRemediation) {
        self.plan.actions.push(Action::Delete {
            node: node.name.clone(),
            remediation: remediation.id.clone(),
            uid: remediation.uid.clone(),
        });
        let message = format!(
            "Node {} is healthy; its {} {} is deleted",
            node.name, remediation.id.kind, remediation.id.name
        );
        self.emit_event(Event::normal("RemediationRemoved", message));
    }

    /// A Node that does not exist: its remediations are deleted, except one that expects the deletion of
    /// the Node and has not succeeded yet.
    pub(super) fn orphan(&mut self, name: &str, state: &NodeState<'_>) {
        if state.remediations.is_empty() {
            self.forget(name);
        }
        for remediation in &state.remediations {
            let waits = remediation.node_goes && remediation.succeeded != Some(true);
            if remediation.deleting || waits {
                continue;
            }
            self.plan.actions.push(Action::Delete {
                node: name.to_owned(),
                remediation: remediation.id.clone(),
                uid: remediation.uid.clone(),
            });
            let message = format!(
                "Node {name} is gone; its {} {} is deleted",
                remediation.id.kind, remediation.id.name
            );
            self.emit_event(Event::normal("RemediationRemoved", message));
        }
    }

    /// An unhealthy Node that is no longer selected: its remediation continues.
    pub(super) fn keep(&mut self, name: &str, state: &NodeState<'_>) {
        if state.remediations.is_empty() {
            self.forget(name);
        }
    }

    /// An unhealthy Node: its remediation begins, continues or escalates.
    pub(super) fn matching(&mut self, node: &NodeFacts, state: &NodeState<'_>, cause: &Cause) {
        let name = &node.name;
        let known = self.plan.memory.nodes.contains_key(name);
        let entry = self.plan.memory.nodes.entry(name.clone()).or_default();
        entry.healthy_since = None;
        entry.delayed = false;
        if !known {
            let message = format!("Node {name} is unhealthy: {cause}");
            self.emit_event(Event::normal("DetectedUnhealthy", message));
        }
        let gone = self.drop_gone(name, state);
        for remediation in state.remediations.iter().filter(|r| !r.deleting) {
            // The Node failed during the delay, which begins again after recovery.
            if remediation.delayed_since.is_some() {
                self.plan.actions.push(Action::Delay {
                    node: name.clone(),
                    remediation: remediation.id.clone(),
                    since: None,
                });
            }
            if !remediation.told_old && self.now > deadline(remediation.created, OLD) {
                self.plan.actions.push(Action::TellOld {
                    node: name.clone(),
                    remediation: remediation.id.clone(),
                });
            }
        }
        if node.exclusion == Exclusion::Unclear {
            let message = format!(
                "the label remediation.medik8s.io/exclude-from-remediation of Node {name} is not \
                 \"true\", so it excludes nothing"
            );
            self.emit_event(Event::warning("InvalidNodeLabel", message));
        }
        let skipped = if let Some(why) = &self.upgrading {
            Some((false, format!("the cluster is being upgraded: {why}")))
        } else if !self.check.pauses.is_empty() {
            let why = format!("the check is paused: {}", self.check.pauses.join(", "));
            Some((false, why))
        } else if let Some(by) = self.outside.maintenance.get(name) {
            Some((false, format!("{by} works on its host")))
        } else if let Some(why) = &self.plan.closed {
            Some((true, why.clone()))
        } else if node.exclusion == Exclusion::Excluded {
            let why = "the label remediation.medik8s.io/exclude-from-remediation excludes it";
            Some((true, why.to_owned()))
        } else {
            None
        };
        if let Some((warning, why)) = skipped {
            self.skip(name, warning, &why);
            // A remediation that has begun continues, and its Lease is renewed.
            if let Some(step) = self.running(state) {
                self.renew(name, &step);
            } else if gone && state.remediations.is_empty() {
                self.plan
                    .actions
                    .push(Action::ReleaseLease { node: name.clone() });
            }
            return;
        }
        self.remediate(node, state);
    }

    fn skip(&mut self, node: &str, warning: bool, why: &str) {
        self.plan.skipped.insert(node.to_owned(), why.to_owned());
        let message = format!("Node {node} is not remediated: {why}");
        let event = if warning {
            Event::warning("RemediationSkipped", message)
        } else {
            Event::normal("RemediationSkipped", message)
        };
        self.emit_event(event);
    }

    /// The step whose remediation exists and has not timed out.
    fn running(&self, state: &NodeState<'_>) -> Option<Step> {
        let is_there = |step: &&Step| {
            let of = |r: &&&NodeRemediation| r.is_of(&step.template) && r.timed_out.is_none();
            state.remediations.iter().any(|r| of(&r))
        };
        self.check.steps.iter().find(is_there).cloned()
    }

    fn remediate(&mut self, node: &NodeFacts, state: &NodeState<'_>) {
        let name = &node.name;
        self.signal_timeouts(name, state);
        for step in self.check.steps.clone() {
            let existing = state.remediations.iter().find(|r| r.is_of(&step.template));
            if self.timed_out(name, &step, existing.copied()) {
                continue;
            }
            let Some(remediation) = existing else {
                self.begin(node, state, &step);
                return;
            };
            if remediation.deleting {
                return;
            }
            let overdue = self.lease_overdue(name, &step);
            let until = match step.timeout {
                Some(timeout) => {
                    let own = deadline(remediation.created, timeout);
                    overdue.map_or(own, |overdue| overdue.min(own))
                }
                None => overdue.unwrap_or_else(|| deadline(remediation.created, CLASSIC * 3)),
            };
            let failed = step.timeout.is_some() && remediation.succeeded == Some(false);
            if self.now <= until && !failed {
                // The timeout has passed strictly after its time.
                self.requeue_at(deadline(until, Duration::from_millis(1)));
                self.renew(name, &step);
                return;
            }
            self.time_out(name, remediation);
            if step.timeout.is_none() {
                self.plan
                    .actions
                    .push(Action::ReleaseLease { node: name.clone() });
            }
        }
        let is_single = self.check.steps.iter().all(|step| step.timeout.is_none());
        let remedy = if is_single {
            "its remediation has timed out. Repair the host, or delete that remediation for another attempt"
        } else {
            "all of them have failed or timed out. Repair the host"
        };
        let why = format!("no template is left for Node {name}: {remedy}");
        self.plan.skipped.insert(name.clone(), why.clone());
        self.emit_event(Event::warning("NoTemplateLeft", why));
    }

    fn nothing_tried(&self, node: &str) -> bool {
        let entry = self.plan.memory.nodes.get(node);
        entry.is_none_or(|entry| entry.tried.is_empty())
    }

    /// Whether a step is not tried any more. A single template is tried again when somebody has deleted its
    /// remediation.
    fn timed_out(&self, node: &str, step: &Step, existing: Option<&NodeRemediation>) -> bool {
        let entry = self.plan.memory.nodes.get(node);
        let is_single = step.timeout.is_none();
        let counts = |t: &&Tried| !is_single || existing.is_some_and(|r| r.uid == t.uid);
        entry.is_some_and(|entry| {
            let mut tried = entry.tried.iter().filter(counts);
            tried.any(|t| t.timed_out.is_some() && t.is_of(&step.template))
        })
    }

    fn time_out(&mut self, node: &str, remediation: &NodeRemediation) {
        if let Some(entry) = self.plan.memory.nodes.get_mut(node) {
            for tried in entry.tried.iter_mut().filter(|t| t.uid == remediation.uid) {
                tried.timed_out.get_or_insert(self.now);
            }
        }
        if remediation.timed_out.is_none() && remediation.succeeded != Some(true) {
            self.plan.actions.push(Action::TimeOut {
                node: node.to_owned(),
                remediation: remediation.id.clone(),
                at: self.now,
            });
        }
    }

    /// Sets the annotation of remediations whose timeout is recorded only in the status, because the
    /// process ended between the two writes.
    fn signal_timeouts(&mut self, node: &str, state: &NodeState<'_>) {
        let Some(entry) = self.plan.memory.nodes.get(node) else {
            return;
        };
        let unsignalled = |r: &&&NodeRemediation| {
            let over = |t: &Tried| t.uid == r.uid && t.timed_out.is_some();
            entry.tried.iter().any(over) && !r.deleting
        };
        let unsignalled: Vec<&NodeRemediation> = state
            .remediations
            .iter()
            .filter(|r| unsignalled(r))
            .copied()
            .collect();
        for remediation in unsignalled {
            self.time_out(node, remediation);
        }
    }

    fn renew(&mut self, node: &str, step: &Step) {
        let lease = lease(step);
        let me = lease_holder(&self.check.name);
        let held = self.outside.leases.get(node);
        match held.and_then(|held| held.due(&me, lease, self.now)) {
            Some(due) => self.requeue_at(due),
            None => self.plan.actions.push(Action::RenewLease {
                node: node.to_owned(),
                lease,
            }),
        }
    }

    /// When the remediation of a step is overdue by the Lease of its Node: three times its own timeout, and
    /// the timeouts of the steps before it, after the Lease was acquired (docs/reference/medik8s.md,
    /// Remediation of one Node).
    fn lease_overdue(&self, node: &str, step: &Step) -> Option<Timestamp> {
        let me = lease_holder(&self.check.name);
        let held = self.outside.leases.get(node)?;
        let acquired = held.acquired.filter(|at| *at <= self.now)?;
        let steps = self.check.steps.iter();
        let earlier: Duration = steps
            .take_while(|earlier| *earlier != step)
            .map(Step::lasts)
            .sum();
        held.is_held_by(&me)
            .then(|| deadline(acquired, step.lasts() * 3 + earlier))
    }

    fn begin(&mut self, node: &NodeFacts, state: &NodeState<'_>, step: &Step) {
        let name = &node.name;
        if self.outside.creating.contains(name) {
            return;
        }
        let other = state
            .foreign
            .map(|r| format!("{} {} of another owner exists for it", r.id.kind, r.id.name));
        let other = other.or_else(|| {
            let who = self.outside.elsewhere.get(name)?;
            Some(format!("NodeHealthCheck {who} remediates it"))
        });
        let other = other.or_else(|| {
            let r = self.stray(state)?;
            Some(format!(
                "{} {} exists, and the check no longer names its template; delete it, or wait until \
                 the Node is healthy",
                r.id.kind, r.id.name
            ))
        });
        if let Some(why) = other {
            self.skip(name, true, &why);
            return;
        }
        let control_plane = node.roles.is_control_plane();
        let first = control_plane && state.remediations.is_empty();
        let refused = match (first, control_plane) {
            (true, _) => self.control_plane.refusal(name),
            (false, true) => self.control_plane.precedence(name),
            (false, false) => None,
        };
        if let Some(why) = refused {
            self.skip(name, true, &why);
            self.requeue_at(deadline(self.now, REFUSED));
            return;
        }
        if let Some((until, why)) = self.outside.blocked.get(name)
            && self.now < *until
        {
            let (until, why) = (*until, why.clone());
            self.skip(name, true, &why);
            self.requeue_at(until);
            return;
        }
        // Nodes later in this evaluation count it.
        self.control_plane.remediates(name);
        self.plan.actions.push(Action::Create {
            node: name.clone(),
            step: step.clone(),
            control_plane,
            lease: lease(step),
            anew: state.remediations.is_empty() && self.nothing_tried(name),
            asks_guard: first,
        });
    }

    /// A running remediation from a template that the check no longer names.
    fn stray<'l>(&self, state: &NodeState<'l>) -> Option<&'l NodeRemediation> {
        let named =
            |r: &NodeRemediation| self.check.steps.iter().any(|step| r.is_of(&step.template));
        let runs = |r: &NodeRemediation| r.timed_out.is_none() && r.succeeded != Some(false);
        state
            .remediations
            .iter()
            .copied()
            .find(|r| runs(r) && !named(r))
    }

    /// Removes remediations from the status that were deleted before their timeout, so that they may be
    /// created again. Returns whether there were any.
    fn drop_gone(&mut self, node: &str, state: &NodeState<'_>) -> bool {
        let Some(entry) = self.plan.memory.nodes.get_mut(node) else {
            return false;
        };
        let there = |t: &Tried| state.remediations.iter().any(|r| r.uid == t.uid);
        let keep = |t: &Tried| t.timed_out.is_some() || there(t);
        let gone: Vec<Tried> = entry.tried.iter().filter(|t| !keep(t)).cloned().collect();
        entry.tried.retain(keep);
        for tried in &gone {
            self.finish(node, tried);
        }
        !gone.is_empty()
    }
}
