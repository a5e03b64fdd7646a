//! The faults of the simulated world, from a seed.

use std::time::Duration;

use super::super::*;
use super::world::{Power, World};

/// A splitmix64 generator: one seed, one run.
#[derive(Debug, Clone)]
pub(in crate::remediation::tests) struct Rng(pub(in crate::remediation::tests) u64);

impl Rng {
    pub(in crate::remediation::tests) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` up to, and without, `high`.
    pub(in crate::remediation::tests) fn range(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % u64::try_from(high - low).unwrap()).unwrap()
    }

    /// True once in `n`.
    pub(in crate::remediation::tests) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::remediation::tests) enum Fault {
    Agent(bool),
    AgentRestart,
    /// The agent is restarted with an empty state directory.
    JournalLost,
    /// Another agent of the rack takes over; the first one is out of reach and goes on.
    Takeover,
    Workload(bool),
    Bmc(bool),
    Operator(bool),
    Partition(bool),
    PolicyBroken(bool),
    Paused(bool),
    Conflict(bool),
    ForeignHold(bool),
    /// CAPM3's own controller works on the object, with its hold key.
    Rival(bool),
    HoldRemoved,
    Button,
    /// A person switches the host off at any time.
    SwitchedOff,
    Deleted,
    TimedOut,
    Offline,
    NodeDeleted,
    /// A person takes the power of the host from baremetal-operator.
    Overruled,
    /// A person unplugs the host and confirms that it is off.
    Person,
}

/// The parameters and faults of one run.
#[derive(Debug, Clone, Default)]
pub(in crate::remediation::tests) struct Plan {
    pub(in crate::remediation::tests) seed: u64,
    pub(in crate::remediation::tests) cooperative: bool,
    /// The kubelet hangs: its pods still run, and it does not report.
    pub(in crate::remediation::tests) hung: bool,
    /// The BMC belongs to another host.
    pub(in crate::remediation::tests) wrong_host: bool,
    /// The BMC always reports off and does nothing.
    pub(in crate::remediation::tests) lying: bool,
    /// The BMC reports PoweringOff instead of Off.
    pub(in crate::remediation::tests) stuck: bool,
    /// The BMC never answers.
    pub(in crate::remediation::tests) silent: bool,
    /// No reboot makes the node healthy.
    pub(in crate::remediation::tests) sick: bool,
    pub(in crate::remediation::tests) pod_stuck: bool,
    pub(in crate::remediation::tests) no_volume: bool,
    /// The workload cluster does not know the taint.
    pub(in crate::remediation::tests) legacy: bool,
    pub(in crate::remediation::tests) strategy: Strategy,
    pub(in crate::remediation::tests) on_exhausted: Option<OnExhausted>,
    /// Whether baremetal-operator has a webhook, without which no BareMetalHost can be changed.
    pub(in crate::remediation::tests) webhook: bool,
    /// Whether Rackhand deletes the pods.
    pub(in crate::remediation::tests) deletes_pods: bool,
    /// Whether pods are evicted while the host is on.
    pub(in crate::remediation::tests) evicts: bool,
    /// Whether evidence is collected before the power-off.
    pub(in crate::remediation::tests) collects: bool,
    /// Policy for a drain that does not end; `None`: the default.
    pub(in crate::remediation::tests) drain_blocked: Option<DrainPolicy>,
    pub(in crate::remediation::tests) off_takes: i64,
    pub(in crate::remediation::tests) boot_takes: i64,
    pub(in crate::remediation::tests) read_takes: i64,
    /// How long it takes until a record is written: the API server has much to do.
    pub(in crate::remediation::tests) record_takes: i64,
    /// The controller crashes once in this many turns; 0: never.
    pub(in crate::remediation::tests) crash_one_in: u64,
    /// The result of a command is lost once in this many commands; 0: never.
    pub(in crate::remediation::tests) lose_one_in: u64,
    pub(in crate::remediation::tests) faults: Vec<(i64, Fault)>,
}

impl Plan {
    /// A run in which only the node fails.
    pub(in crate::remediation::tests) fn calm(cooperative: bool) -> Self {
        Self {
            cooperative,
            hung: true,
            off_takes: 2000,
            boot_takes: 30_000,
            read_takes: 0,
            ..Self::default()
        }
    }

    pub(in crate::remediation::tests) fn random(seed: u64) -> Self {
        let mut rng = Rng(seed ^ 0x5eed);
        let r = &mut rng;
        let mut plan = Self {
            seed,
            cooperative: r.one_in(2),
            hung: !r.one_in(4),
            off_takes: r.range(1, 9) * 500,
            boot_takes: r.range(60, 90) * 500,
            read_takes: if r.one_in(5) {
                r.range(0, 17) * 500
            } else {
                r.range(0, 2) * 500
            },
            sick: r.one_in(6),
            pod_stuck: r.one_in(12),
            no_volume: r.one_in(2),
            crash_one_in: if r.one_in(2) { 0 } else { 12 },
            lose_one_in: if r.one_in(2) { 0 } else { 8 },
            ..Self::default()
        };
        match r.range(0, 16) {
            0 | 1 => plan.wrong_host = true,
            2 => plan.lying = true,
            3 => plan.stuck = true,
            4 | 5 => plan.silent = true,
            _ => {}
        }
        if plan.wrong_host {
            plan.hung = r.one_in(4);
        }
        for _ in 0..r.range(0, 5) {
            let t = r.range(0, 400) * 500;
            let end = t + r.range(1, 160) * 500;
            // A time at which the host is likely to be off.
            let early = r.range(4, 80) * 500;
            let span = |f: fn(bool) -> Fault| vec![(t, f(true)), (end, f(false))];
            let more = match r.range(0, 18) {
                0 | 1 => span(Fault::Agent),
                2 | 3 => span(Fault::Workload),
                4 => span(Fault::Bmc),
                5 => span(Fault::Operator),
                6 => span(Fault::PolicyBroken),
                7 => span(Fault::Paused),
                8 => span(Fault::Conflict),
                9 => span(Fault::ForeignHold),
                10 => vec![(t, Fault::AgentRestart)],
                11 => vec![(t, Fault::Partition(false))],
                12 => vec![(early, Fault::HoldRemoved)],
                13 => vec![(early, Fault::Button)],
                14 | 15 => vec![(t, Fault::Deleted)],
                16 => vec![(t, Fault::Offline)],
                _ => vec![(early, Fault::NodeDeleted)],
            };
            plan.faults.extend(more);
        }
        if plan.silent && r.one_in(2) {
            plan.faults.push((r.range(200, 600) * 500, Fault::Person));
        }
        plan.deletes_pods = Rng(seed ^ 0x90d5).one_in(2);
        plan.collects = Rng(seed ^ 0xe71d).one_in(2);
        plan.webhook = !Rng(seed ^ 0x3eb0).one_in(4);
        let mut rival = Rng(seed ^ 0x21fa1);
        if rival.one_in(8) {
            let t = rival.range(0, 120) * 500;
            let end = t + rival.range(4, 120) * 500;
            let span = [(t, Fault::Rival(true)), (end, Fault::Rival(false))];
            plan.faults.extend(span);
        }
        for fault in [Fault::JournalLost, Fault::Takeover] {
            if r.one_in(6) {
                plan.faults.push((r.range(2, 160) * 500, fault));
            }
        }
        let mut slow = Rng(seed ^ 0x510d);
        if slow.one_in(6) {
            plan.record_takes = slow.range(1, 100) * 500;
        }
        plan
    }

    /// The policy of the remediation.
    pub(in crate::remediation::tests) fn policy(&self) -> Policy {
        let usual = super::driver::policy();
        Policy {
            strategy: self.strategy,
            on_exhausted: self.on_exhausted.unwrap_or(usual.on_exhausted),
            drain_blocked: self.drain_blocked.unwrap_or(usual.drain_blocked),
            pod_deletion: if self.deletes_pods {
                PodDeletion::Immediate
            } else {
                PodDeletion::PodGc
            },
            eviction_timeout: Duration::from_secs(if self.evicts { 40 } else { 0 }),
            evidence_timeout: Duration::from_secs(if self.collects { 5 } else { 0 }),
            ..usual
        }
    }

    /// A random run with a random strategy and policy.
    pub(in crate::remediation::tests) fn random_strategy(seed: u64) -> Self {
        let mut plan = Self::random(seed);
        let mut rng = Rng(seed ^ 0xca11);
        let r = &mut rng;
        plan.legacy = r.one_in(5);
        plan.evicts = r.one_in(2);
        plan.strategy = match r.range(0, 4) {
            0 => Strategy::Reboot,
            1 => Strategy::PowerOff,
            2 => Strategy::Evict,
            _ => Strategy::PowerCycleFirst,
        };
        plan.on_exhausted = Some(match r.range(0, 4) {
            0 => OnExhausted::Escalate,
            1 => OnExhausted::Retire,
            2 => OnExhausted::StayOff,
            _ => OnExhausted::Notify,
        });
        plan.drain_blocked = r.one_in(3).then_some(DrainPolicy::GiveUp);
        let t = r.range(0, 1200) * 500;
        match r.range(0, 4) {
            0 => plan.faults.push((t, Fault::TimedOut)),
            1 | 2 => plan.faults.push((t, Fault::Deleted)),
            _ => {}
        }
        plan.faults.sort_by_key(|(t, _)| *t);
        plan
    }

    /// Whether a fault of this run never ends.
    pub(in crate::remediation::tests) fn for_good(&self) -> bool {
        self.silent || self.stuck || self.pod_stuck || self.lying
    }
}

impl World {
    pub(in crate::remediation::tests) fn apply(&mut self, fault: Fault) {
        self.log(&format!("*** {fault:?}"));
        match fault {
            Fault::Agent(down) => self.agent_up = !down,
            Fault::AgentRestart => {
                for op in self.ops.values_mut().filter(|op| op.outcome.is_none()) {
                    op.outcome = Some(OperationOutcome::Interrupted);
                }
            }
            Fault::JournalLost => {
                let mine = self.op_key("");
                self.ops.retain(|key, _| !key.starts_with(&mine));
                self.serving.1 += 1;
                self.agent_holds = false;
            }
            Fault::Takeover => {
                self.serving = (1, 100);
                self.agent_holds = false;
            }
            Fault::Workload(down) => self.workload_down = down,
            Fault::Bmc(dead) => self.silent = dead || self.plan.silent,
            Fault::Operator(down) => self.bmo_down = down,
            Fault::Partition(yes) => self.partitioned = yes,
            Fault::PolicyBroken(true) => self.object.policy = Err(PolicyError::NoStrategy),
            Fault::PolicyBroken(false) => self.object.policy = Ok(self.plan.policy()),
            Fault::Paused(yes) => self.object.paused = yes,
            Fault::Conflict(yes) => self.conflict = yes,
            Fault::ForeignHold(yes) | Fault::Rival(yes) => {
                self.rival = yes && matches!(fault, Fault::Rival(_));
                if let Some(bmh) = &mut self.bmh {
                    self.switched_by_others |= yes;
                    bmh.foreign_holds.clear();
                    if yes {
                        bmh.foreign_holds.insert("reboot.metal3.io/firmware".into());
                    }
                }
            }
            Fault::HoldRemoved | Fault::Button => self.meddle(fault),
            Fault::SwitchedOff => self.switch(0, false),
            Fault::Deleted => self.object.deleting = true,
            Fault::TimedOut => self.object.timed_out = true,
            Fault::Offline => {
                if let Some(bmh) = &mut self.bmh {
                    bmh.online = false;
                }
            }
            Fault::NodeDeleted => self.delete_node(),
            Fault::Overruled => {
                self.object.override_owner = Some(self.object.uid.clone());
            }
            Fault::Person => {
                let host = &mut self.hosts[0];
                host.power = Power::Off;
                host.up_from = None;
                self.cluster.process = false;
                self.object.confirm_fenced = Some(self.object.uid.clone());
            }
        }
    }

    /// A person switches the host on. Only where it can be detected in time, and then nothing else fails
    /// until it must have been detected, because an undetectable power-on cannot be prevented.
    fn meddle(&mut self, fault: Fault) {
        let seen = self.agent_up && !self.silent && !self.plan.stuck && self.plan.read_takes < 1000;
        if !seen || self.object.confirm_fenced.is_some() {
            return;
        }
        match (fault, &mut self.bmh) {
            (Fault::HoldRemoved, Some(bmh)) => bmh.our_hold = false,
            (Fault::HoldRemoved, None) => return,
            _ => self.switch(0, true),
        }
        self.meddled_at = Some(self.now);
        for (t, _) in &mut self.plan.faults {
            *t += 40_000;
        }
    }
}
