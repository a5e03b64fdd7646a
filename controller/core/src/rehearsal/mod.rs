//! Rehearsal: what health checks and power policies would have done with a recorded history.
//!
//! Owns the virtual time and the assumed remediations. Must never restate a rule: verdicts and limits are those
//! of [`Fleet`], the order of remediations and the policies those of [`check_concurrency`] and [`evaluate`].
//!
//! What a remediation does is assumed: it ends after a fixed time, and the Node is Ready from then on, until
//! the history shows another change of it.

mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use crate::{
    handover::SETTLE,
    health::{
        Action, Check, ClusterFacts, Condition, Fleet, MachineFacts, NodeFacts, NodeView,
        RequestView, Target, Verdict,
    },
    power_policy::{
        Hold, PastAttempt, PolicyFacts, PowerPolicy, Rule, Subject, Verdict as PolicyVerdict,
        evaluate,
    },
    remediation::{ActiveRemediation, Progress, check_concurrency},
};

pub use report::{
    Difference, HeldSpan, LimitSpan, Outcome, RehearsalReport, RehearsedRemediation, Totals,
    compare,
};

/// A health check of Cluster API that is rehearsed.
#[derive(Debug, Clone)]
pub struct RehearsedCheck {
    /// `namespace/name`.
    pub name: String,
    /// The rules of the check.
    pub rules: Check,
    /// Its Cluster.
    pub cluster: ClusterFacts,
}

/// The host of a Machine, as the policies see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Name of the Node.
    pub node: Option<String>,
    /// The policies that select the host, and where it is.
    pub policy: PolicyFacts,
    /// Annotations of its Node.
    pub annotations: BTreeSet<String>,
}

/// A Machine in the history.
#[derive(Debug, Clone)]
struct Host {
    recorded: NodeView,
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

/// A Machine of a check.
type Member = (usize, String);

/// Health checks and policies in virtual time.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    takes: SignedDuration,
    checks: Vec<RehearsedCheck>,
    fleets: Vec<Fleet<Check>>,
    policies: Vec<PowerPolicy>,
    hosts: BTreeMap<Member, Host>,
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
        let fleet = |check: &RehearsedCheck| {
            Fleet::new(check.rules.clone(), check.cluster.clone(), None, start)
        };
        Self {
            takes: SignedDuration::try_from(takes).unwrap_or(SignedDuration::MAX),
            fleets: checks.iter().map(fleet).collect(),
            checks,
            policies,
            hosts: BTreeMap::new(),
            now: start,
            settled_at: None,
            report: RehearsalReport::new(start),
        }
    }

    /// A Machine of a check appears or changes, or its Node does. `check` is the number of the check.
    pub fn put(
        &mut self,
        check: usize,
        machine: MachineFacts,
        node: NodeView,
        facts: HostFacts,
        at: Timestamp,
    ) {
        self.advance(at);
        let member = (check, machine.name.clone());
        let known = self.hosts.remove(&member);
        let request = match known.as_ref().and_then(|host| host.remediation.as_ref()) {
            Some(_) => RequestView::Open,
            None => RequestView::None,
        };
        let is_settled = known
            .as_ref()
            .is_some_and(|host| host.is_settled && host.recorded == node);
        let host = Host {
            recorded: node.clone(),
            facts,
            is_settled,
            remediation: known.as_ref().and_then(|host| host.remediation.clone()),
            past: known.map(|host| host.past).unwrap_or_default(),
        };
        let node = match is_settled {
            true => ready(&host, self.now),
            false => node,
        };
        self.hosts.insert(member, host);
        if let Some(fleet) = self.fleets.get_mut(check) {
            let target = Target {
                machine,
                node,
                request,
            };
            fleet.put(target, self.now);
        }
        self.changed();
    }

    /// A Machine is gone, or the check does not select it any more.
    pub fn remove(&mut self, check: usize, machine: &str, at: Timestamp) {
        self.advance(at);
        let member = (check, machine.to_owned());
        if let Some(fleet) = self.fleets.get_mut(check) {
            fleet.remove(machine, self.now);
        }
        let gone = self.hosts.remove(&member).and_then(|h| h.remediation);
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
        let deadlines = self.fleets.iter().filter_map(Fleet::next_deadline);
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
            self.evaluate_check(check);
        }
        self.begin_remediations();
    }

    fn end_remediations(&mut self) {
        for (member, host) in &mut self.hosts {
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
            if let Some(fleet) = self.fleets.get_mut(member.0) {
                fleet.set_request(&member.1, RequestView::None, self.now);
                fleet.set_node(&member.1, ready(host, self.now), self.now);
            }
        }
    }

    /// Requests and withdraws remediations as the check wants.
    fn evaluate_check(&mut self, check: usize) {
        let (Some(fleet), Some(about)) = (self.fleets.get_mut(check), self.checks.get(check))
        else {
            return;
        };
        fleet.advance(self.now);
        let requested = self.hosts.iter().filter(|((of, _), _)| *of == check);
        let requested = requested.filter(|(_, host)| host.remediation.is_some());
        let mut names: BTreeSet<String> = requested.map(|((_, name), _)| name.clone()).collect();
        names.extend(fleet.unhealthy().map(ToString::to_string));
        for name in names {
            let Some(host) = self.hosts.get_mut(&(check, name.clone())) else {
                continue;
            };
            let Some(wanted) = fleet.wanted(&name) else {
                continue;
            };
            match (wanted.action, wanted.verdict) {
                (Some(Action::CreateRequest { .. }), Verdict::Unhealthy { causes })
                    if !host.is_settled =>
                {
                    let causes = causes.iter().map(ToString::to_string).collect();
                    let number = self.report.request(
                        &about.name,
                        &name,
                        host.facts.node.clone(),
                        causes,
                        self.now,
                    );
                    host.remediation = Some(Assumed {
                        active: active(&about.name, &name, number, host, self.now),
                        begun: None,
                        held: None,
                        number,
                    });
                    fleet.set_request(&name, RequestView::Open, self.now);
                }
                (Some(Action::MarkOwnerRemediated { .. }), Verdict::Unhealthy { causes })
                    if !host.is_settled =>
                {
                    let causes = causes.iter().map(ToString::to_string).collect();
                    let number = self.report.request(
                        &about.name,
                        &name,
                        host.facts.node.clone(),
                        causes,
                        self.now,
                    );
                    self.report.end(number, Outcome::HandedOver, self.now);
                    host.is_settled = true;
                }
                // One that has begun is finished first (F11).
                (Some(Action::DeleteRequest { .. }), _) => {
                    let waiting = host.remediation.take_if(|r| r.begun.is_none());
                    if let Some(assumed) = waiting {
                        self.report
                            .end(assumed.number, Outcome::RecoveredBefore, self.now);
                        fleet.set_request(&name, RequestView::None, self.now);
                    }
                }
                _ => {}
            }
        }
        // Counted after the requests of this moment.
        let gate = fleet.gate();
        let holds = !gate.open && fleet.tally().unhealthy > 0;
        self.report.limit(&about.name, &gate, holds, self.now);
    }

    /// Lets those begin that may, in the order of production.
    fn begin_remediations(&mut self) {
        let mut waiting: Vec<(Timestamp, String, Member)> = Vec::new();
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

    fn begin_remediation(&mut self, member: &Member) {
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
    fn settle(&mut self, member: &Member) {
        if let Some(host) = self.hosts.get_mut(member) {
            host.remediation = None;
            host.is_settled = true;
        }
        if let Some(fleet) = self.fleets.get_mut(member.0) {
            fleet.set_request(&member.1, RequestView::None, self.now);
        }
    }
}

/// The Node after a remediation.
fn ready(host: &Host, since: Timestamp) -> NodeView {
    let name = match (&host.recorded, &host.facts.node) {
        (NodeView::Present(node), _) => node.name.clone(),
        (_, Some(name)) => name.clone(),
        (other, None) => return other.clone(),
    };
    let ready = Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "KubeletReady".to_owned(),
        last_transition: Some(since),
    };
    NodeView::Present(NodeFacts {
        name,
        conditions: vec![ready],
    })
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
