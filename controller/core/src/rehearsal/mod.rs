//! Rehearsal: what health checks and power policies would have done with a recorded history.
//!
//! Owns the virtual time and the assumed remediations. Must never restate a rule: verdicts and limits are those
//! of [`health::Fleet`] and [`crate::nodes::Fleet`], the order of remediations and the policies those of [`check_concurrency`] and [`evaluate`].
//!
//! What a remediation does is assumed: it ends after a fixed time, and the Node is Ready from then on, until
//! the history shows another change of it.

mod facts;
mod fleet;
mod report;

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    handover::SETTLE,
    health,
    power_policy::{
        Hold, PastAttempt, PowerPolicy, Rule, Subject, Verdict as PolicyVerdict, evaluate,
    },
    remediation::{ActiveRemediation, Progress, check_concurrency},
};

use fleet::{CheckFleet, NodeFleet, Wanted};

pub use facts::{CheckRules, HostFacts, MemberFacts, RehearsedCheck};
pub use report::{
    Difference, HeldSpan, LimitSpan, Outcome, RehearsalReport, RehearsedRemediation, Totals,
    compare,
};

/// A member in the history.
#[derive(Debug, Clone)]
struct Host {
    recorded: MemberFacts,
    facts: HostFacts,
    /// The Node is taken for Ready, or the Machine for handed over, until the history shows a change.
    is_settled: bool,
    /// The present remediation.
    remediation: Option<Assumed>,
    past: Vec<PastAttempt>,
}

/// A remediation that is assumed to take its time and to succeed.
#[derive(Debug, Clone)]
struct Assumed {
    active: ActiveRemediation,
    begun: Option<Timestamp>,
    /// The policy and rule that hold it, and when that ends by itself.
    held: Option<(String, Rule, Option<Timestamp>)>,
    /// Its number in the report.
    number: usize,
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
                CheckFleet::Machines(Box::new(health::Fleet::new(check, cluster, None, start)))
            }
            CheckRules::Nodes(check) => CheckFleet::Nodes(Box::new(NodeFleet::new(check, start))),
        };
        Self {
            takes: SignedDuration::try_from(takes).unwrap_or(SignedDuration::MAX),
            names,
            fleets: rules.into_iter().map(fleet).collect(),
            policies,
            hosts: BTreeMap::new(),
            now: start,
            settled_at: None,
            report: RehearsalReport::new(start),
        }
    }

    /// A member of a check appears or changes. `check` is the number of the check.
    pub fn put(&mut self, check: usize, member: MemberFacts, facts: HostFacts, at: Timestamp) {
        self.advance(at);
        let key = (check, member.name().to_owned());
        let known = self.hosts.remove(&key);
        let is_settled = known
            .as_ref()
            .is_some_and(|host| host.is_settled && host.recorded == member);
        let shown = match is_settled {
            true => member.ready(facts.node.as_deref(), self.now),
            false => member.clone(),
        };
        let (remediation, past) = known.map(|h| (h.remediation, h.past)).unwrap_or_default();
        if let Some(fleet) = self.fleets.get_mut(check) {
            fleet.put(shown, remediation.is_some(), self.now);
        }
        let host = Host {
            recorded: member,
            facts,
            is_settled,
            remediation,
            past,
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
                .end(assumed.number, Outcome::MachineDeleted, self.now);
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
        let all = deadlines.chain(of_remediations).chain(self.settled_at);
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
        self.begin_remediations();
    }

    fn end_remediations(&mut self) {
        for ((check, member), host) in &mut self.hosts {
            let over = host.remediation.take_if(|assumed| {
                let ends = assumed.begun.and_then(|b| b.checked_add(self.takes).ok());
                ends.is_some_and(|ends| ends <= self.now)
            });
            let Some(assumed) = over else { continue };
            host.is_settled = true;
            host.past.push(PastAttempt {
                begun: assumed.begun.unwrap_or(self.now),
                ended: self.now,
                succeeded: true,
            });
            self.report
                .end(assumed.number, Outcome::Remediated, self.now);
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
        let requested = self.hosts.iter().filter(|((of, _), _)| *of == check);
        let requested = requested.filter(|(_, host)| host.remediation.is_some());
        let requested = requested.map(|((_, member), _)| member.clone()).collect();
        for wanted in fleet.wanted(requested, self.now) {
            let member = wanted.member().clone();
            let Some(host) = self.hosts.get_mut(&(check, member.clone())) else {
                continue;
            };
            let node = host.facts.node.clone();
            match wanted {
                Wanted::Request { causes, .. }
                    if !host.is_settled && host.remediation.is_none() =>
                {
                    let number = self.report.request(name, &member, node, causes, self.now);
                    host.remediation = Some(Assumed {
                        active: active(name, &member, number, host, self.now),
                        begun: None,
                        held: None,
                        number,
                    });
                    fleet.requested(&member, self.now);
                    has_changed = true;
                }
                Wanted::HandOver { causes, .. } if !host.is_settled => {
                    let number = self.report.request(name, &member, node, causes, self.now);
                    self.report.end(number, Outcome::HandedOver, self.now);
                    host.is_settled = true;
                }
                Wanted::Request { .. } | Wanted::HandOver { .. } => {}
                // One that has begun is finished first (F11).
                Wanted::Withdraw { .. } | Wanted::TimeOut { .. } => {
                    let outcome = match wanted {
                        Wanted::TimeOut { .. } => Outcome::TimedOut,
                        _ => Outcome::RecoveredBefore,
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
        // As it is after the requests of this moment.
        self.report.limit(name, fleet.limit(), self.now);
        has_changed
    }

    /// Lets those begin that may, in the order of production.
    fn begin_remediations(&mut self) {
        let mut waiting: Vec<(Timestamp, String, HostKey)> = Vec::new();
        for (member, host) in &self.hosts {
            let Some(assumed) = host.remediation.as_ref().filter(|r| r.begun.is_none()) else {
                continue;
            };
            let (at, uid) = assumed.active.precedence();
            waiting.push((at, uid.to_owned(), member.clone()));
        }
        waiting.sort();
        for (_, _, member) in waiting {
            self.begin_remediation(&member);
        }
    }

    fn begin_remediation(&mut self, member: &HostKey) {
        let Some(host) = self.hosts.get(member) else {
            return;
        };
        let Some(mut assumed) = host.remediation.clone() else {
            return;
        };
        assumed.active.progress = Progress::Ready;
        assumed.active.policy = host.facts.policy.clone();
        let others: Vec<&ActiveRemediation> = self
            .hosts
            .iter()
            .filter(|(other, _)| *other != member)
            .filter_map(|(_, host)| host.remediation.as_ref())
            .map(|assumed| &assumed.active)
            .collect();
        let decision = check_concurrency(&assumed.active, others.iter().copied(), None);
        assumed.active.progress = decision.progress;
        if let Some(reason) = decision.reason {
            let message = reason.to_string();
            self.report
                .hold(assumed.number, "", &message, None, self.now);
            assumed.held = None;
        } else {
            let subject = Subject {
                annotations: host.facts.annotations.clone(),
                past: host.past.clone(),
                ..Subject::default()
            };
            let selected = &host.facts.policy.policies;
            let policies = self.policies.iter().filter(|p| selected.contains(&p.name));
            let policies: Vec<PowerPolicy> = policies.cloned().collect();
            match evaluate(&policies, &assumed.active, &subject, &others, self.now) {
                PolicyVerdict::Begin { warnings } => {
                    assumed.begun = Some(self.now);
                    assumed.held = None;
                    self.report.begin(assumed.number, warnings, self.now);
                }
                PolicyVerdict::Hold(hold) => self.hold(&mut assumed, &hold),
                PolicyVerdict::Exhausted(hold) => {
                    self.report
                        .hold(assumed.number, &hold.policy, &hold.detail, None, self.now);
                    self.report
                        .end(assumed.number, Outcome::Exhausted, self.now);
                    self.settle(member);
                    return;
                }
            }
        }
        if let Some(host) = self.hosts.get_mut(member) {
            host.remediation = Some(assumed);
        }
    }

    fn hold(&mut self, assumed: &mut Assumed, hold: &Hold) {
        assumed.active.progress = match hold.rule {
            Rule::Budget => Progress::Ready,
            _ => Progress::Waiting,
        };
        let new = (hold.policy.clone(), hold.rule, hold.until);
        if assumed.held.as_ref() != Some(&new) {
            let (policy, detail) = (&hold.policy, &hold.detail);
            self.report
                .hold(assumed.number, policy, detail, hold.until, self.now);
        }
        assumed.held = Some(new);
    }

    /// The remediation of a Machine ends without an attempt, and nothing more is done before it changes.
    fn settle(&mut self, member: &HostKey) {
        if let Some(host) = self.hosts.get_mut(member) {
            host.remediation = None;
            host.is_settled = true;
        }
        if let Some(fleet) = self.fleets.get_mut(member.0) {
            fleet.ended(&member.1, self.now);
        }
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
        control_plane_of: None,
        policy: host.facts.policy.clone(),
    }
}

#[cfg(test)]
mod tests;
