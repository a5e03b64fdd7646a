//! One outage, second by second.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use jiff::Timestamp;
use rackhand_core::{
    fleet::placement::PolicyFacts,
    fleet::shared_cause::{
        BmcReading, Domain, Failures, HostName, Judgement, SharedCauseRules, judge,
    },
    limits::concurrency::{ActiveRemediation, Urgency},
    limits::power_policy::{PowerPolicy, Rule, Subject, Verdict, evaluate},
    remediation::Progress,
};

use super::{
    Figures, Kind,
    outage::{END, HOSTS, Outage, host_name, others, placement},
};

const POLICY: &str = "policy";

/// A kubelet renews its Lease in this interval.
const RENEWAL: u64 = 10_000;
/// The controller manager waits so long for it, and looks in this interval.
const GRACE: u64 = 50_000;
const LOOK: u64 = 5_000;
/// From a cause to the reading of a BMC.
const READING: Duration = Duration::from_secs(3);
/// From the beginning of a remediation until its Node is Ready, outside of the outage.
const REMEDIATION: Duration = Duration::from_secs(180);

/// A held remediation is decided on again after this time.
const RECHECK: Duration = Duration::from_secs(15);

pub(super) struct Trial {
    kind: Kind,
    check: Duration,
    policy: PowerPolicy,
    rules: SharedCauseRules,
    rng: Rng,
    outage: Outage,
    of_outage: BTreeSet<usize>,
    failures: Failures,
    judgement: Judgement,
    readings: BTreeMap<HostName, BmcReading>,
    read_at: BTreeMap<HostName, Duration>,
    hosts: BTreeMap<usize, Host>,
}

/// A host that has failed.
struct Host {
    name: HostName,
    not_ready: Duration,
    /// When it is Ready again.
    back: Option<Duration>,
    begun: bool,
    held: bool,
    /// When its remediation is decided on next.
    next: Duration,
}

fn timestamp(time: Duration) -> Timestamp {
    Timestamp::UNIX_EPOCH + time
}

impl Trial {
    pub(super) fn new(kind: Kind, check: Duration, rules: SharedCauseRules, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let outage = kind.outage(&mut rng);
        let of_outage: BTreeSet<usize> = outage.failures.iter().map(|(_, host)| *host).collect();
        let mut failures = Failures::default();
        for host in 0..HOSTS {
            failures.place(&host_name(host), Domain::of(&placement(host, false)));
        }
        let mut trial = Self {
            kind,
            check,
            policy: PowerPolicy {
                name: POLICY.to_owned(),
                shared_causes: Some(rules.clone()),
                ..PowerPolicy::default()
            },
            rules,
            outage,
            failures,
            judgement: Judgement::default(),
            readings: BTreeMap::new(),
            read_at: BTreeMap::new(),
            hosts: BTreeMap::new(),
            of_outage,
            rng,
        };
        trial.schedule();
        trial
    }

    /// When each failure shows in Kubernetes, and when the outage's end does.
    fn schedule(&mut self) {
        let others = others(&mut self.rng, &self.of_outage);
        let ends = self.outage.ends;
        for (fails, host) in self.outage.failures.iter().copied().chain(others) {
            let fails = u64::try_from(fails.as_millis()).unwrap_or(u64::MAX);
            let renewed = fails.saturating_sub(self.rng.u64(0..RENEWAL));
            let not_ready = (renewed + GRACE).div_ceil(LOOK) * LOOK;
            let back = ends.filter(|_| self.of_outage.contains(&host)).map(|ends| {
                let (least, most) = self.outage.back;
                ends + Duration::from_secs(self.rng.u64(least..most))
            });
            // One of twenty hosts does not come back by itself.
            let back = back.filter(|_| self.rng.f64() < 0.95);
            let state = Host {
                name: host_name(host),
                not_ready: Duration::from_millis(not_ready),
                back,
                begun: false,
                held: false,
                next: Duration::ZERO,
            };
            self.hosts.insert(host, state);
        }
    }

    pub(super) fn run(mut self, figures: &mut Figures) {
        figures.trials += 1;
        let mut invented = BTreeSet::new();
        let (mut recognised, mut named, mut likely) = (None, false, false);
        let mut cycled = 0;
        let last = END.as_secs()
            + match self.kind {
                Kind::Kernel => 3600,
                _ => 900,
            };
        for second in 0..last {
            let time = Duration::from_secs(second);
            self.advance(time);
            let now = timestamp(time);
            self.judgement = judge(
                &self.failures,
                &self.rules,
                &self.judgement,
                &self.readings,
                now,
            );
            for cause in self.judgement.causes.values() {
                let contains = |host: &usize| {
                    let domains = self.failures.domains(&host_name(*host));
                    domains.is_some_and(|domains| domains.contains(&cause.domain))
                };
                let is_failed = |host: &&usize| {
                    let host = self.hosts.get(host);
                    host.is_some_and(|host| host.not_ready <= time)
                };
                let failed = self.of_outage.iter().filter(is_failed);
                let inside = failed.clone().filter(|host| contains(host)).count();
                if inside * 2 > failed.count() {
                    recognised.get_or_insert(time);
                    named |= self.outage.domain.as_ref() == Some(&cause.domain);
                    likely |= self.outage.likely.contains(&cause.likely());
                } else if inside == 0 {
                    invented.insert(cause.domain.clone());
                }
            }
            cycled += self.decide(time);
        }
        let outage_hosts: Vec<&Host> = self
            .of_outage
            .iter()
            .filter_map(|h| self.hosts.get(h))
            .collect();
        let first = outage_hosts.iter().map(|host| host.not_ready).min();
        if self.kind != Kind::Independent {
            figures.recognised += u32::from(recognised.is_some());
            figures.named += u32::from(named);
            figures.likely += u32::from(likely);
            let delay = recognised
                .zip(first)
                .map(|(at, first)| at.saturating_sub(first));
            figures.delays.extend(delay);
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        figures.hosts += number(outage_hosts.len());
        figures.cycled += cycled;
        let others = self
            .hosts
            .iter()
            .filter(|(host, _)| !self.of_outage.contains(host));
        let held = others.clone().filter(|(_, host)| host.held).count();
        figures.others += number(others.count());
        figures.held += number(held);
        figures.invented += number(invented.len());
    }

    /// Updates of kernels, failures, recoveries and readings up to a time.
    fn advance(&mut self, time: Duration) {
        let now = timestamp(time);
        for (_, host) in self.outage.updates.iter().filter(|(at, _)| *at == time) {
            let domains = Domain::of(&placement(*host, true));
            self.failures.place(&host_name(*host), domains);
        }
        for host in self.hosts.values() {
            let name = &host.name;
            if host.not_ready <= time && time < host.not_ready + Duration::from_secs(1) {
                self.failures.fail(name, timestamp(host.not_ready), now);
            }
            if host.back.is_some_and(|back| back <= time) {
                self.failures.recover(name);
                self.readings.remove(name);
            }
        }
        for cause in self.judgement.causes.values() {
            for name in Judgement::sample(&self.failures, cause) {
                self.read_at.entry(name).or_insert(time + READING);
            }
        }
        for (number, host) in &self.hosts {
            let name = &host.name;
            if self.read_at.get(name).is_some_and(|at| *at == time) {
                let reading = match self.of_outage.contains(number) {
                    true => self.outage.bmc,
                    false if self.rng.f64() < 0.9 => BmcReading::On,
                    false => BmcReading::NoResponse,
                };
                self.readings.insert(name.clone(), reading);
            }
        }
    }

    /// Lets remediations begin. Returns how many hosts are power-cycled in vain.
    fn decide(&mut self, time: Duration) -> u32 {
        let now = timestamp(time);
        let mut in_vain = 0;
        for (number, host) in &mut self.hosts {
            let is_failed = host.not_ready <= time && host.back.is_none_or(|back| back > time);
            let wants = host.not_ready + self.check <= time && host.next <= time;
            if host.begun || !is_failed || !wants {
                continue;
            }
            let name = &host.name;
            let hold = self
                .judgement
                .hold(&self.failures, &self.rules, name, true, now);
            let subject = Subject {
                cause_holds: hold
                    .map(|hold| (POLICY.to_owned(), hold))
                    .into_iter()
                    .collect(),
                ..Subject::default()
            };
            let policies = std::slice::from_ref(&self.policy);
            let me = remediation(name);
            match evaluate(policies, &me, &subject, &[], now) {
                Verdict::Hold(hold) if hold.rule == Rule::SharedCause => {
                    host.held = true;
                    host.next = time + RECHECK;
                    self.judgement.begin_hold(&self.failures, name, now);
                }
                Verdict::Hold(_) | Verdict::Exhausted(_) => {}
                Verdict::Begin { .. } => {
                    host.begun = true;
                    let is_on = self.outage.ends.is_none_or(|ends| time < ends);
                    if self.of_outage.contains(number) && is_on {
                        // After the time-out it is what the policy wants.
                        in_vain += u32::from(!host.held);
                    } else if host.back.is_none() {
                        host.back = Some(time + REMEDIATION);
                    }
                }
            }
        }
        in_vain
    }
}

fn remediation(host: &HostName) -> ActiveRemediation {
    ActiveRemediation {
        name: host.to_string(),
        uid: host.to_string(),
        created: Timestamp::UNIX_EPOCH,
        progress: Progress::Ready,
        machine: None,
        node: Some(host.to_string()),
        bmc: None,
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: PolicyFacts::default(),
    }
}
