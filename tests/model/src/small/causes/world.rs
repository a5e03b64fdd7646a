//! The hosts, what the leader knows of them, and what happens to both.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use rackhand_core::{
    fleet::placement::{HostWorkload, Placement, PolicyFacts},
    fleet::shared_cause::{
        BmcCounts, Cause, Domain, Failures, HostName, Judgement, OnTimeout, SharedCauseRules, judge,
    },
    limits::concurrency::{ActiveRemediation, Urgency},
    limits::power_policy::{
        Budget, Domain as BudgetDomain, PowerPolicy, Rule, Subject, Verdict, evaluate,
    },
    remediation::Progress,
};

use super::Breakage;
use crate::time::after;

/// Hosts in the world.
pub(super) const COUNT: usize = 3;
/// The rack of each.
const RACKS: [&str; COUNT] = ["a", "a", "b"];
const MOST_IN_RACK: usize = 1;
const MOST: usize = 2;

/// Seconds of a step.
const STEP: u64 = 10;
/// Steps that are followed.
const STEPS: u8 = 6;
/// Steps after the last fault within which everything must have ended.
const BOUND: u8 = 12;
/// The rules of the policy, in steps: how long a failure settles, failures that count as one cause, and how long
/// it holds.
const SETTLING: u8 = 1;
const WINDOW: u8 = 2;
const HOLD: u8 = 3;
const RECOVERY: u8 = 1;
/// Failures that are followed.
const FAILURES: u8 = 2;

/// What a hold by a cause names.
const APPROVE: &str = "kubectl rackhand approve";

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// More remediations are under way than a budget allows.
    Budget,
    /// A remediation began before its failure had settled.
    NotSettled,
    /// A remediation began while a shared cause held it.
    NotHeld,
    /// A hold that neither ends in time nor names who ends it.
    Endless,
}

/// What the API server has of the remediation of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// There is none.
    Absent,
    /// It has begun nothing.
    Waiting,
    /// Its host may be switched off.
    Begun,
}

/// The hosts and the leader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    on_timeout: OnTimeout,
    /// The steps that have passed.
    time: u8,
    /// Since when each host has failed.
    failed: [Option<u8>; COUNT],
    remediations: [Stage; COUNT],
    /// Those that a person has approved.
    approved: [bool; COUNT],
    /// What the leader has seen of the hosts.
    failures: Failures,
    judgement: Judgement,
    /// The causes in the status of the policy.
    stored: BTreeMap<Domain, Cause>,
    /// Since when remediations of a rack are held by a cause, truly.
    held: [Option<u8>; COUNT],
    /// Hosts that may still fail.
    may_fail: u8,
    /// Faults that may still happen.
    pub(super) budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// Everything that can happen; a number is that of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A host fails, and its check makes a remediation.
    Fail(usize),
    /// The leader sees what has become of a host.
    Observe(usize),
    /// The leader judges the failures, and stores the causes.
    Judge,
    /// The leader evaluates a remediation.
    Evaluate(usize),
    /// A remediation ends, and its host works.
    End(usize),
    /// Time passes.
    Time,
    /// Another process leads.
    Restart,
    /// A host recovers by itself.
    Recover(usize),
    /// A person approves a remediation.
    Approve(usize),
}

fn steps(count: u8) -> Duration {
    Duration::from_secs(u64::from(count) * STEP)
}

fn at(time: u8) -> Timestamp {
    after(u64::from(time) * STEP)
}

fn name(host: usize) -> HostName {
    format!("local/n{host}").into()
}

fn placement(host: usize) -> Placement {
    Placement {
        rack: RACKS.get(host).map(|rack| (*rack).to_owned()),
        ..Placement::default()
    }
}

fn rules(on_timeout: OnTimeout) -> SharedCauseRules {
    SharedCauseRules {
        window: steps(WINDOW),
        min_hosts: 2,
        min_percent: 50,
        settling: steps(SETTLING),
        hold: steps(HOLD),
        recovery: steps(RECOVERY),
        on_timeout,
    }
}

fn policy(on_timeout: OnTimeout) -> PowerPolicy {
    let budget = |per, most| Budget {
        per,
        max_concurrent: u32::try_from(most).unwrap_or(0),
    };
    PowerPolicy {
        name: "racks".into(),
        budgets: vec![
            budget(BudgetDomain::Rack, MOST_IN_RACK),
            budget(BudgetDomain::Policy, MOST),
        ],
        shared_causes: Some(rules(on_timeout)),
        ..PowerPolicy::default()
    }
}

fn active(host: usize, progress: Progress) -> ActiveRemediation {
    ActiveRemediation {
        name: format!("r{host}"),
        uid: format!("r{host}"),
        created: at(0),
        progress,
        machine: None,
        node: Some(format!("local/n{host}")),
        bmc: None,
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: PolicyFacts {
            policies: BTreeSet::from(["racks".to_owned()]),
            placement: placement(host),
            workload: HostWorkload::default(),
            held_by: None,
        },
    }
}

fn placed() -> Failures {
    let mut failures = Failures::default();
    for host in 0..COUNT {
        failures.place(&name(host), Domain::of(&placement(host)));
    }
    failures
}

impl World {
    pub(super) fn new(on_timeout: OnTimeout, budget: u8) -> Self {
        Self {
            on_timeout,
            time: 0,
            failed: [None; COUNT],
            remediations: [Stage::Absent; COUNT],
            approved: [false; COUNT],
            failures: placed(),
            judgement: Judgement::default(),
            stored: BTreeMap::new(),
            held: [None; COUNT],
            may_fail: FAILURES,
            budget,
            wrong: None,
        }
    }

    pub(super) fn seconds(&self) -> u64 {
        u64::from(self.time) * STEP
    }

    pub(super) fn is_followed(&self) -> bool {
        self.time < STEPS
    }

    pub(super) fn begun(&self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(|host| self.remediations[*host] == Stage::Begun)
    }

    pub(super) fn is_holding(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }

    fn is_seen(&self, host: usize) -> bool {
        self.failures.of_host(&name(host)).is_some() == self.failed[host].is_some()
    }

    fn is_judged(&self) -> bool {
        self.judgement.at == Some(at(self.time))
    }

    fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        let mut all = Vec::new();
        if self.wrong.is_some() {
            return all;
        }
        for host in 0..COUNT {
            let (stage, has_failed) = (self.remediations[host], self.failed[host].is_some());
            // To a leader that has not seen its recovery, a host that fails again has failed all the time.
            if !has_failed && self.may_fail > 0 && self.is_seen(host) {
                all.push(Action::Fail(host));
            }
            if !self.is_seen(host) {
                all.push(Action::Observe(host));
            }
            if stage == Stage::Waiting {
                all.push(Action::Evaluate(host));
            }
            if stage == Stage::Begun {
                all.push(Action::End(host));
            }
            if self.budget > 0 && stage == Stage::Waiting {
                all.push(Action::Recover(host));
                if !self.approved[host] {
                    all.push(Action::Approve(host));
                }
            }
        }
        let all_seen = (0..COUNT).all(|host| self.is_seen(host));
        if !self.is_judged() {
            all.push(Action::Judge);
        } else if all_seen {
            // Watches and judgements take less time than a failure settles.
            all.push(Action::Time);
        }
        if self.budget > 0 {
            all.push(Action::Restart);
        }
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Fail(host) => {
                self.failed[host] = Some(self.time);
                self.remediations[host] = Stage::Waiting;
                self.may_fail -= 1;
            }
            Action::Observe(host) => {
                match self.failed[host] {
                    Some(since) => self.failures.fail(&name(host), at(since), at(self.time)),
                    None => self.failures.recover(&name(host)),
                }
                // It is judged again.
                self.judge(breakage);
            }
            Action::Judge => self.judge(breakage),
            Action::Evaluate(host) => self.evaluate(host, breakage),
            Action::End(host) | Action::Recover(host) => {
                self.failed[host] = None;
                self.remediations[host] = Stage::Absent;
                (self.approved[host], self.held[host]) = (false, None);
            }
            Action::Time => self.time += 1,
            Action::Restart => {
                // A leader lists the whole fleet before it judges for the first time.
                self.failures = placed();
                let failed = self.failed.into_iter().enumerate();
                for (host, since) in failed.filter_map(|(host, since)| Some((host, since?))) {
                    self.failures.fail(&name(host), at(since), at(self.time));
                }
                self.judgement = Judgement::default();
                if breakage != Some(Breakage::CausesForgotten) {
                    self.judgement.causes = self.stored.clone();
                }
            }
            Action::Approve(host) => self.approved[host] = true,
        }
    }

    fn judge(&mut self, breakage: Option<Breakage>) {
        let now = at(self.time);
        let mut rules = rules(self.on_timeout);
        if breakage == Some(Breakage::NotSettled) {
            rules.settling = Duration::ZERO;
        }
        let readings = BTreeMap::new();
        self.judgement = judge(&self.failures, &rules, &self.judgement, &readings, now);
        if breakage == Some(Breakage::HoldBeginsAnew) {
            for cause in self.judgement.causes.values_mut() {
                cause.held_since = None;
            }
        }
        self.store();
    }

    fn store(&mut self) {
        self.stored = self.judgement.causes.clone();
        for cause in self.stored.values_mut() {
            (cause.bmcs, cause.few_since) = (BmcCounts::default(), None);
        }
    }

    fn evaluate(&mut self, host: usize, breakage: Option<Breakage>) {
        let now = at(self.time);
        let policy = policy(self.on_timeout);
        let mut rules = rules(self.on_timeout);
        if breakage == Some(Breakage::NotSettled) {
            rules.settling = Duration::ZERO;
        }
        let hold = self
            .judgement
            .hold(&self.failures, &rules, &name(host), true, now);
        let ignored = breakage == Some(Breakage::CauseIgnored);
        let hold = hold.filter(|hold| !ignored || !hold.detail.contains(APPROVE));
        let released = self.held[host].is_some() && hold.is_none();
        let subject = Subject {
            approved: self.approved[host],
            cause_holds: hold
                .into_iter()
                .map(|hold| (policy.name.clone(), hold))
                .collect(),
            ..Subject::default()
        };
        let others: Vec<_> = self
            .begun()
            .filter(|_| !(released && breakage == Some(Breakage::ReleasedBeyondBudget)))
            .map(|other| active(other, Progress::Begun))
            .collect();
        let others: Vec<&ActiveRemediation> = others.iter().collect();
        let me = active(host, Progress::Ready);
        match evaluate(&[policy], &me, &subject, &others, now) {
            Verdict::Begin { .. } => {
                self.judge_begin(host);
                self.remediations[host] = Stage::Begun;
                self.judge_budgets();
            }
            Verdict::Hold(hold) if hold.rule == Rule::SharedCause => {
                self.judgement.begin_hold(&self.failures, &name(host), now);
                self.store();
                self.held[host].get_or_insert(self.time);
                self.judge_hold(host, hold.until, &hold.detail);
            }
            Verdict::Hold(hold) if hold.rule == Rule::Settling => self.judge_settling(hold.until),
            Verdict::Hold(_) | Verdict::Exhausted(_) => {}
        }
    }

    /// The hosts of the rack of a host that have failed, with it.
    fn failed_with(&self, host: usize) -> impl Iterator<Item = (usize, u8)> {
        let all = (0..COUNT).filter(move |other| RACKS[*other] == RACKS[host]);
        all.filter_map(|other| Some((other, self.failed[other]?)))
    }

    fn judge_begin(&mut self, host: usize) {
        let (now, Some(failed)) = (self.time, self.failed[host]) else {
            return;
        };
        if self.approved[host] {
            return;
        }
        if now < failed + SETTLING {
            self.broken(Wrong::NotSettled);
        }
        // Those that the leader had the time to see, and that failed within the window.
        let together = self.failed_with(host).map(|(_, since)| since);
        let together: Vec<u8> = together
            .filter(|since| since.abs_diff(failed) <= WINDOW && since + SETTLING <= now)
            .collect();
        let hosts = RACKS.iter().filter(|rack| **rack == RACKS[host]).count();
        let last = together.iter().max().copied().unwrap_or(0);
        let is_cause = together.len() >= 2 && together.len() * 2 >= hosts;
        if is_cause && now < last + HOLD {
            self.broken(Wrong::NotHeld);
        }
    }

    fn judge_budgets(&mut self) {
        let in_rack = |rack| self.begun().filter(|n| RACKS[*n] == rack).count();
        let is_within = RACKS.iter().all(|rack| in_rack(*rack) <= MOST_IN_RACK);
        if self.begun().count() > MOST || !is_within {
            self.broken(Wrong::Budget);
        }
    }

    /// A failure has settled within the time of the policy. Another process begins that time anew, because it
    /// cannot know which failures the former one has seen.
    fn judge_settling(&mut self, until: Option<Timestamp>) {
        if until.is_none_or(|until| until > at(self.time + SETTLING)) {
            self.broken(Wrong::Endless);
        }
    }

    /// A hold by a cause ends by itself within the time of the policy, counted from the first one that the cause
    /// holds or from the failure of the host; or it names a person.
    fn judge_hold(&mut self, host: usize, until: Option<Timestamp>, detail: &str) {
        let Some(until) = until else {
            let names_somebody = detail.contains(APPROVE);
            if self.on_timeout == OnTimeout::Proceed || !names_somebody {
                self.broken(Wrong::Endless);
            }
            return;
        };
        let together = self.failed_with(host);
        let held = together.filter_map(|(other, _)| self.held[other]).min();
        let from = held
            .unwrap_or(self.time)
            .max(self.failed[host].unwrap_or(0));
        if until > at(from + HOLD) {
            self.broken(Wrong::Endless);
        }
    }

    /// L1: once nothing fails, every remediation has its turn; where a hold names a person, that person
    /// approves it.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        (world.budget, world.may_fail) = (0, 0);
        for round in 0..BOUND {
            for host in 0..COUNT {
                world.act(Action::Observe(host), breakage);
            }
            world.judge(breakage);
            for host in 0..COUNT {
                let waits = world.remediations[host] == Stage::Waiting;
                if waits && round > HOLD + RECOVERY && self.on_timeout == OnTimeout::Stop {
                    world.act(Action::Approve(host), breakage);
                }
                if waits {
                    world.act(Action::Evaluate(host), breakage);
                }
                if world.remediations[host] == Stage::Begun {
                    world.act(Action::End(host), breakage);
                }
            }
            if world.remediations == [Stage::Absent; COUNT] {
                return true;
            }
            world.time += 1;
        }
        false
    }
}
