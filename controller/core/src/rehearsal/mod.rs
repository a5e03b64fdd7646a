//! Rehearsal: what health checks and power policies would have done with a recorded history.
//!
//! Owns the virtual time and the assumed remediations. Must never restate a rule: verdicts and limits are those
//! of [`machines::Fleet`] and [`crate::checks::nodes::Fleet`]; what begins is decided as in production, by the concurrency
//! check, the policies and the judgement of shared causes.
//!
//! What a remediation does is assumed: it ends after a fixed time, and the Node is Ready from then on, until
//! the history shows another change of it.

mod begin;
mod causes;
mod compare;
mod facts;
mod fleet;
mod past;
mod report;
mod updates;

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    checks::handover::SETTLE,
    checks::machines,
    limits::concurrency::{ActiveRemediation, Urgency},
    limits::power_policy::{PastAttempt, PowerPolicy, Rule},
    remediation::Progress,
};

use causes::SharedCauses;
use fleet::{CheckFleet, NodeFleet, Wanted};
use past::Past;
use updates::AssumedUpdates;

pub use compare::{Difference, compare};
pub use facts::{CheckRules, HostFacts, MemberFacts, NodeRecord, RehearsedCheck};
pub use report::{
    CauseSpan, HeldSpan, LimitSpan, RehearsalOutcome, RehearsalReport, RehearsedRemediation, Totals,
};

/// A member in the history.
#[derive(Debug, Clone)]
struct Host {
    recorded: MemberFacts,
    facts: HostFacts,
    /// The Node is taken for Ready, or the Machine for handed over, until the history shows a change.
    is_done: bool,
    /// The present remediation.
    remediation: Option<Assumed>,
}

/// A remediation that is assumed to take its time and to succeed.
#[derive(Debug, Clone)]
struct Assumed {
    active: ActiveRemediation,
    /// Name of its Node.
    node: Option<String>,
    begun: Option<Timestamp>,
    /// The policy and rule that hold it, and when that ends by itself.
    held: Option<(String, HeldBy, Option<Timestamp>)>,
    /// When an update of the firmware of its host was seen first.
    update_seen: Option<Timestamp>,
    /// Its number in the report.
    number: usize,
}

/// What holds a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldBy {
    Rule(Rule),
    FirmwareUpdate,
}

/// Name of a Machine or Node.
type Member = String;

/// A member of a check, which is known by its number.
type HostKey = (usize, Member);

/// Health checks and policies in virtual time.
pub struct Rehearsal {
    takes: SignedDuration,
    names: Vec<String>,
    fleets: Vec<CheckFleet>,
    policies: Vec<PowerPolicy>,
    hosts: BTreeMap<HostKey, Host>,
    past: Past,
    causes: SharedCauses,
    updates: AssumedUpdates,
    now: Timestamp,
    /// When changes that were not evaluated yet have settled.
    settled_at: Option<Timestamp>,
    report: RehearsalReport,
}

impl Rehearsal {
    /// Starts at the first moment of the history. Each remediation is assumed to take `takes`.
    pub fn new(
        checks: Vec<RehearsedCheck>,
        policies: Vec<PowerPolicy>,
        takes: Duration,
        start: Timestamp,
    ) -> Self {
        let (names, rules): (Vec<String>, Vec<CheckRules>) =
            checks.into_iter().map(|c| (c.name, c.rules)).unzip();
        let fleet = |rules| match rules {
            CheckRules::Machines(check, cluster) => {
                CheckFleet::Machines(Box::new(machines::Fleet::new(check, cluster, None, start)))
            }
            CheckRules::OpenShift(check) => {
                let cluster = machines::ready_cluster();
                CheckFleet::OpenShift(Box::new(machines::Fleet::new(check, cluster, None, start)))
            }
            CheckRules::Nodes(check) => CheckFleet::Nodes(Box::new(NodeFleet::new(check, start))),
        };
        Self {
            takes: SignedDuration::try_from(takes).unwrap_or(SignedDuration::MAX),
            names,
            fleets: rules.into_iter().map(fleet).collect(),
            causes: SharedCauses::new(&policies),
            policies,
            hosts: BTreeMap::new(),
            past: Past::default(),
            updates: AssumedUpdates::default(),
            now: start,
            settled_at: None,
            report: RehearsalReport::new(start),
        }
    }

    /// Adds an earlier remediation of a host, by its attempts that switched it off. `host` is the name of its
    /// Node. Called in the order of time, before the history begins.
    pub fn remember(&mut self, host: &str, attempts: Vec<PastAttempt>) {
        self.past.add(host, attempts);
    }

    /// Assumes that the firmware of a host is updated from `from` to `to`, or that such an update hangs for ever. `host`
    /// is the name of its Node. Called before the history begins, which contains none.
    pub fn assume_update(&mut self, host: &str, from: Timestamp, to: Option<Timestamp>) {
        self.updates.add(host, from, to);
    }

    /// A Node appears or changes, whether or not a check selects it: what fails with others is judged by the
    /// whole fleet. Called before [`Self::put`] for its members.
    pub fn put_node(&mut self, node: &str, record: NodeRecord, at: Timestamp) {
        if self.causes.is_used() {
            self.advance(at);
            self.causes.put(node, record, self.now);
            self.changed();
        }
    }

    /// A Node is deleted.
    pub fn remove_node(&mut self, node: &str, at: Timestamp) {
        if self.causes.is_used() {
            self.advance(at);
            self.causes.remove(node);
            self.changed();
        }
    }

    /// A member of a check appears or changes. `check` is the number of the check.
    pub fn put(&mut self, check: usize, member: MemberFacts, facts: HostFacts, at: Timestamp) {
        self.advance(at);
        let key = (check, member.name().to_owned());
        let known = self.hosts.remove(&key);
        let is_done = known
            .as_ref()
            .is_some_and(|host| host.is_done && host.recorded == member);
        let shown = match is_done {
            true => member.ready(facts.node.as_deref(), self.now),
            false => member.clone(),
        };
        let remediation = known.and_then(|host| host.remediation);
        if let Some(fleet) = self.fleets.get_mut(check) {
            fleet.put(shown, remediation.is_some(), self.now);
        }
        let host = Host {
            recorded: member,
            facts,
            is_done,
            remediation,
        };
        self.hosts.insert(key, host);
        self.changed();
    }

    /// A member is gone, or the check does not select it any more.
    pub fn remove(&mut self, check: usize, member: &str, at: Timestamp) {
        self.advance(at);
        if let Some(fleet) = self.fleets.get_mut(check) {
            fleet.remove(member, self.now);
        }
        let gone = self
            .hosts
            .remove(&(check, member.to_owned()))
            .and_then(|h| h.remediation);
        if let Some(assumed) = gone {
            self.report
                .end(assumed.number, RehearsalOutcome::MachineDeleted, self.now);
        }
        self.changed();
    }

    /// Evaluates once a burst of changes has arrived (F13).
    fn changed(&mut self) {
        let settled = self.now.checked_add(SETTLE).unwrap_or(self.now);
        self.settled_at.get_or_insert(settled);
    }

    /// Goes on to the end of the history, and reports.
    pub fn finish(mut self, at: Timestamp) -> RehearsalReport {
        self.advance(at);
        self.report.finish(self.now);
        self.report
    }

    /// Goes on in time, from one moment at which something is due to the next.
    fn advance(&mut self, to: Timestamp) {
        while let Some(due) = self.next_due().filter(|due| *due <= to) {
            // A deadline of the past was evaluated then.
            self.now = self.now.max(due);
            self.evaluate();
        }
        self.now = self.now.max(to);
    }

    /// When something happens without a change in the history.
    fn next_due(&self) -> Option<Timestamp> {
        let deadlines = self.fleets.iter().filter_map(CheckFleet::next_deadline);
        let assumed = self.hosts.values().filter_map(|h| h.remediation.as_ref());
        let of_remediations = assumed.filter_map(|assumed| match assumed.begun {
            Some(begun) => begun.checked_add(self.takes).ok(),
            None => assumed.held.as_ref().and_then(|(_, _, until)| *until),
        });
        let of_causes = self.causes.next_due();
        let all = deadlines.chain(of_remediations).chain(of_causes);
        let all = all.chain(self.settled_at);
        all.filter(|due| *due > self.now).min()
    }

    /// Everything that is due now.
    fn evaluate(&mut self) {
        self.settled_at = None;
        self.end_remediations();
        for check in 0..self.fleets.len() {
            // A remediation that was requested or withdrawn changes when the check is evaluated next.
            while self.evaluate_check(check) {}
        }
        self.causes.judge(&mut self.report, self.now);
        self.begin_remediations();
    }

    fn end_remediations(&mut self) {
        for ((check, member), host) in &mut self.hosts {
            let over = host.remediation.take_if(|assumed| {
                let ends = assumed.begun.and_then(|b| b.checked_add(self.takes).ok());
                ends.is_some_and(|ends| ends <= self.now)
            });
            let Some(assumed) = over else { continue };
            host.is_done = true;
            let attempt = PastAttempt {
                begun: assumed.begun.unwrap_or(self.now),
                ended: self.now,
                succeeded: true,
            };
            self.past.add(host.facts.host(member), vec![attempt]);
            if let Some(node) = &host.facts.node {
                self.causes.recover(node);
            }
            self.report
                .end(assumed.number, RehearsalOutcome::Remediated, self.now);
            if let Some(fleet) = self.fleets.get_mut(*check) {
                fleet.ended(member, self.now);
                let ready = host.recorded.ready(host.facts.node.as_deref(), self.now);
                fleet.put(ready, false, self.now);
            }
        }
    }

    /// Requests and withdraws remediations as the check wants. Returns whether there were any.
    fn evaluate_check(&mut self, check: usize) -> bool {
        let (Some(fleet), Some(name)) = (self.fleets.get_mut(check), self.names.get(check)) else {
            return false;
        };
        let mut has_changed = false;
        let remediated = self.hosts.iter().filter(|((of, _), _)| *of == check);
        let remediated = remediated.filter(|(_, host)| host.remediation.is_some());
        let remediated = remediated.map(|((_, member), _)| member.clone()).collect();
        for wanted in fleet.wanted(&remediated, self.now) {
            let member = wanted.member().clone();
            let Some(host) = self.hosts.get_mut(&(check, member.clone())) else {
                continue;
            };
            let node = host.facts.node.clone();
            match wanted {
                Wanted::Create { causes, .. } if !host.is_done && host.remediation.is_none() => {
                    let number = self.report.add(name, &member, node, causes, self.now);
                    host.remediation = Some(Assumed {
                        active: active(name, &member, number, host, self.now),
                        node: host.facts.node.clone(),
                        begun: None,
                        held: None,
                        update_seen: None,
                        number,
                    });
                    fleet.created(&member, self.now);
                    has_changed = true;
                }
                Wanted::HandOver { causes, .. } if !host.is_done => {
                    let number = self.report.add(name, &member, node, causes, self.now);
                    self.report
                        .end(number, RehearsalOutcome::HandedOver, self.now);
                    host.is_done = true;
                }
                Wanted::Create { .. } | Wanted::HandOver { .. } => {}
                // One that has begun is finished first (F11).
                Wanted::Withdraw { .. } | Wanted::TimeOut { .. } => {
                    let outcome = match wanted {
                        Wanted::TimeOut { .. } => RehearsalOutcome::TimedOut,
                        _ => RehearsalOutcome::RecoveredBefore,
                    };
                    let waiting = host.remediation.take_if(|r| r.begun.is_none());
                    if let Some(assumed) = waiting {
                        self.report.end(assumed.number, outcome, self.now);
                        fleet.ended(&member, self.now);
                        has_changed = true;
                    }
                }
            }
        }
        // As it is once the remediations of this moment are created.
        self.report.limit(name, fleet.limit(), self.now);
        has_changed
    }
}

/// The remediation as others see it.
fn active(
    check: &str,
    machine: &str,
    number: usize,
    host: &Host,
    now: Timestamp,
) -> ActiveRemediation {
    let cluster = host.facts.policy.placement.cluster.clone();
    let node = host.facts.node.clone();
    ActiveRemediation {
        name: format!("the remediation of {machine}, requested by {check}"),
        uid: format!("{number:08}"),
        created: now,
        progress: Progress::Ready,
        machine: Some(machine.to_owned()),
        node: cluster
            .zip(node)
            .map(|(cluster, node)| format!("{cluster}/{node}")),
        bmc: None,
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: host.facts.policy.clone(),
    }
}

#[cfg(test)]
mod tests;
