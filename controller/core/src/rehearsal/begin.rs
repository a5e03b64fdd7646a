//! Which of the assumed remediations begin, and what holds the others.
//!
//! Must never decide: [`check_concurrency`] and [`evaluate`] do.

use jiff::Timestamp;

use super::{Assumed, HeldBy, HostKey, Rehearsal, RehearsalOutcome, updates::UpdateHeld};
use crate::{
    fleet::shared_cause::CauseHold,
    limits::concurrency::{ActiveRemediation, check_concurrency},
    limits::power_policy::{Hold, PowerPolicy, Rule, Subject, Verdict, evaluate},
    remediation::Progress,
};

impl Rehearsal {
    /// Lets those begin that may, in the order of production.
    pub(super) fn begin_remediations(&mut self) {
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
            let selected = &host.facts.policy.policies;
            let policies = self.policies.iter().filter(|p| selected.contains(&p.name));
            let policies: Vec<PowerPolicy> = policies.cloned().collect();
            let node = host.facts.node.as_deref();
            let cause_holds = node.map(|node| self.causes.holds(&policies, node, self.now));
            let subject = Subject {
                annotations: host.facts.annotations.clone(),
                past: self.past.of(host.facts.host(&member.1)),
                cause_holds: cause_holds.unwrap_or_default(),
                ..Subject::default()
            };
            match evaluate(&policies, &assumed.active, &subject, &others, self.now) {
                Verdict::Begin { warnings } => match self.held_by_update(&assumed, &policies) {
                    Some(held) => {
                        assumed.update_seen.get_or_insert(self.now);
                        assumed.active.progress = Progress::Waiting;
                        self.report
                            .hold(assumed.number, "", &held.message, held.until, self.now);
                        assumed.held = Some((String::new(), HeldBy::FirmwareUpdate, held.until));
                    }
                    None => {
                        assumed.begun = Some(self.now);
                        assumed.held = None;
                        self.report.begin(assumed.number, warnings, self.now);
                    }
                },
                Verdict::Hold(hold) => {
                    let cause = subject.cause_holds.get(&hold.policy);
                    self.hold(&mut assumed, &hold, cause);
                }
                Verdict::Exhausted(hold) => {
                    self.report
                        .hold(assumed.number, &hold.policy, &hold.detail, None, self.now);
                    self.report
                        .end(assumed.number, RehearsalOutcome::Exhausted, self.now);
                    self.end_without_attempt(member);
                    return;
                }
            }
        }
        if let Some(host) = self.hosts.get_mut(member) {
            host.remediation = Some(assumed);
        }
    }

    fn held_by_update(&self, assumed: &Assumed, policies: &[PowerPolicy]) -> Option<UpdateHeld> {
        let seen = assumed.update_seen.unwrap_or(self.now);
        let node = assumed.node.as_deref()?;
        self.updates.hold(node, policies, seen, self.now)
    }

    fn hold(&mut self, assumed: &mut Assumed, hold: &Hold, cause: Option<&CauseHold>) {
        assumed.active.progress = match hold.rule {
            Rule::Budget => Progress::Ready,
            _ => Progress::Waiting,
        };
        let rule = HeldBy::Rule(hold.rule);
        let (policy, detail, number) = (&hold.policy, &hold.detail, assumed.number);
        let cause = cause.filter(|_| hold.rule == Rule::SharedCause);
        if let Some(cause) = cause.and_then(|hold| hold.cause.as_ref()) {
            if let Some(node) = &assumed.node {
                self.causes.begin_hold(policy, node, self.now);
            }
            let cause = cause.domain.to_string();
            self.report
                .hold_by_cause(number, policy, detail, &cause, hold.until, self.now);
        } else if assumed.held.as_ref() != Some(&(policy.clone(), rule, hold.until)) {
            self.report
                .hold(number, policy, detail, hold.until, self.now);
        }
        assumed.held = Some((policy.clone(), rule, hold.until));
    }

    /// The remediation of a Machine ends without an attempt, and nothing more is done before it changes.
    fn end_without_attempt(&mut self, member: &HostKey) {
        if let Some(host) = self.hosts.get_mut(member) {
            host.remediation = None;
            host.is_done = true;
        }
        if let Some(fleet) = self.fleets.get_mut(member.0) {
            fleet.ended(&member.1, self.now);
        }
    }
}
