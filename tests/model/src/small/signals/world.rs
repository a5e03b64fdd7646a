//! The hosts, what agent and controller know of them, and what happens to both.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_core::{
    fleet::shared_cause::HostName,
    remediation::{LeaseMemory, PowerState, renewal_limit},
    signals::{
        ClusterLeases, ConditionStatus, NotAFailure, PowerLoss, PowerLostFacts, Published,
        RackLosses, SharedLoss, WatchedReading,
    },
};

use super::Breakage;
use crate::time::after;

/// Hosts of the rack. The first one is followed in detail.
const HOSTS: usize = 3;
/// Nodes of the cluster: those of the rack, and others.
const NODES: usize = 6;
/// Seconds of a step: two readings of different steps are far enough apart, and a Lease that is not renewed in a step
/// is silent.
const STEP: u64 = 5;
/// Duration of a Lease, of which a quarter and 2 s are a step.
const LEASE: Duration = Duration::from_secs(12);
/// Steps that are followed.
const STEPS: u8 = 5;
/// Steps after the last fault within which everything must have ended.
const BOUND: u8 = 8;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// The host runs.
    HostIsOn,
    /// A remediation has switched it off.
    Switched,
    /// A person has shut it down.
    InOrder,
    /// The whole rack has no power.
    NotJudged,
    /// A Lease counts as silent for longer than it is.
    Silence,
}

/// What a BMC reports that is not true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lie {
    /// It has restarted, and does not know its host yet.
    Restarted,
    /// One reading is wrong.
    Once,
}

/// What a remediation does with the first host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Remediation {
    Absent,
    Off,
    Boots,
}

/// The hosts, the agent and the controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    time: u8,
    /// Which hosts of the rack have power and run.
    on: [bool; HOSTS],
    /// The first host boots: its kubelet does not run yet.
    boots: bool,
    /// The BMC of the first host is that of another one; whether that one is on.
    other_bmc: Option<bool>,
    /// Number of the observation of the first host's BMC.
    observation: u64,
    lie: Option<Lie>,
    /// The kubelet of the first host does not renew its Lease.
    lags: bool,
    /// The API server takes no renewals.
    stalls: bool,
    /// A person works on the first host, whose Node is cordoned.
    cordoned: bool,
    remediation: Remediation,
    /// When the agent switched the first host last.
    switched: Option<u8>,
    /// The step in which the Lease of each Node was renewed last.
    renewed: [u8; NODES],
    /// What was done in this step: read, listed.
    read: bool,
    listed: bool,
    losses: RackLosses,
    loss: PowerLoss,
    others: [PowerLoss; HOSTS - 1],
    memory: LeaseMemory,
    leases: ClusterLeases,
    published: Option<ConditionStatus>,
    is_rack_held: bool,
    /// Faults that may still happen.
    pub(super) budget: u8,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The agent reads all BMCs.
    Read,
    /// The controller lists the Leases.
    List,
    /// The controller decides about the first host.
    Decide,
    /// Time passes.
    Time,
    /// A BMC that has restarted knows its host.
    Learn,
    /// A remediation switches the first host on again.
    SwitchOn,
    /// A remediation ends.
    End,
    /// The API server works again.
    Resume,
    /// The first host loses its power.
    LosePower,
    /// All hosts of the rack do.
    RackLosesPower,
    /// Power is back.
    PowerBack,
    /// The BMC of the first host restarts.
    RestartBmc,
    /// The next reading of it is wrong.
    WrongReading,
    /// The other host, whose BMC it is, is switched off.
    OtherOff,
    /// The kubelet of the first host hangs.
    Lag,
    /// The API server stalls.
    Stall,
    /// A person cordons the first host and shuts it down.
    ShutDown,
    /// A remediation switches the first host off.
    SwitchOff,
}

impl Action {
    pub(super) fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Read
                | Self::List
                | Self::Decide
                | Self::Time
                | Self::Learn
                | Self::SwitchOn
                | Self::End
                | Self::Resume
        )
    }
}

fn at(time: u8) -> Timestamp {
    after(u64::from(time) * STEP)
}

fn name(host: usize) -> HostName {
    format!("local/n{host}").into()
}

impl World {
    pub(super) fn new(has_other_bmc: bool, budget: u8) -> Self {
        let mut losses = RackLosses::default();
        for host in 0..HOSTS {
            losses.place(&name(host), "a");
        }
        let mut world = Self {
            time: 0,
            on: [true; HOSTS],
            boots: false,
            other_bmc: has_other_bmc.then_some(true),
            observation: 1,
            lie: None,
            lags: false,
            stalls: false,
            cordoned: false,
            remediation: Remediation::Absent,
            switched: None,
            renewed: [0; NODES],
            read: false,
            listed: false,
            losses,
            loss: PowerLoss::default(),
            others: [PowerLoss::default(), PowerLoss::default()],
            memory: LeaseMemory::default(),
            leases: ClusterLeases::default(),
            published: None,
            is_rack_held: false,
            budget,
            wrong: None,
        };
        // All has been watched for a step, in which Leases were seen to be renewed.
        world.act(Action::Read, None);
        world.act(Action::List, None);
        world.act(Action::Time, None);
        world
    }

    pub(super) fn seconds(&self) -> u64 {
        u64::from(self.time) * STEP
    }

    pub(super) fn is_followed(&self) -> bool {
        self.time <= STEPS
    }

    pub(super) fn is_lost(&self) -> bool {
        self.published == Some(ConditionStatus::True)
    }

    pub(super) fn is_rack_held(&self) -> bool {
        self.is_rack_held
    }

    fn broken(&mut self, wrong: Wrong) {
        self.wrong.get_or_insert(wrong);
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        let mut all = Vec::new();
        if self.wrong.is_some() {
            return all;
        }
        let mut may = |is_possible: bool, action| {
            if is_possible {
                all.push(action);
            }
        };
        may(!self.read, Action::Read);
        may(!self.listed, Action::List);
        may(true, Action::Decide);
        // Polls and lists take less than a step.
        may(self.read && self.listed, Action::Time);
        may(self.lie == Some(Lie::Restarted), Action::Learn);
        may(self.remediation == Remediation::Off, Action::SwitchOn);
        may(self.remediation == Remediation::Boots, Action::End);
        may(self.stalls, Action::Resume);
        if self.budget == 0 {
            return all;
        }
        let (on, is_own) = (self.on[0], self.other_bmc.is_none());
        may(on, Action::LosePower);
        may(self.on == [true; HOSTS], Action::RackLosesPower);
        may(
            !on && self.remediation != Remediation::Off,
            Action::PowerBack,
        );
        may(is_own && self.lie.is_none(), Action::RestartBmc);
        may(is_own && self.lie.is_none(), Action::WrongReading);
        may(self.other_bmc == Some(true), Action::OtherOff);
        // A hung kubelet whose BMC is that of another host: F5 compares their identities.
        may(is_own && on && !self.lags, Action::Lag);
        may(!self.stalls, Action::Stall);
        may(
            on && self.remediation == Remediation::Absent,
            Action::ShutDown,
        );
        may(
            on && self.remediation == Remediation::Absent,
            Action::SwitchOff,
        );
        all
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Read => self.read(breakage),
            Action::List => self.list(breakage),
            Action::Decide => self.decide(breakage),
            Action::Time => self.pass(),
            Action::Learn => self.lie = None,
            Action::SwitchOn => {
                self.remediation = Remediation::Boots;
                self.switched = Some(self.time);
                self.power_on();
            }
            Action::End => self.remediation = Remediation::Absent,
            Action::Resume => self.stalls = false,
            Action::LosePower => self.on[0] = false,
            Action::RackLosesPower => self.on = [false; HOSTS],
            Action::PowerBack => {
                self.on = [true; HOSTS];
                self.power_on();
            }
            Action::RestartBmc => {
                self.lie = Some(Lie::Restarted);
                self.observation += 1;
            }
            Action::WrongReading => self.lie = Some(Lie::Once),
            Action::OtherOff => self.other_bmc = Some(false),
            Action::Lag => self.lags = true,
            Action::Stall => self.stalls = true,
            Action::ShutDown => (self.cordoned, self.on[0]) = (true, false),
            Action::SwitchOff => {
                self.remediation = Remediation::Off;
                self.switched = Some(self.time);
                self.on[0] = false;
            }
        }
    }

    fn power_on(&mut self) {
        self.on[0] = true;
        (self.boots, self.lags, self.cordoned) = (true, false, false);
    }

    /// Kubelets that run renew their Leases in each step.
    fn pass(&mut self) {
        self.time += 1;
        (self.read, self.listed) = (false, false);
        self.boots = false;
        for node in 0..NODES {
            let is_on = self.on.get(node).copied().unwrap_or(true);
            let is_up = node != 0 || !self.lags;
            if is_on && is_up && !self.stalls {
                self.renewed[node] = self.time;
            }
        }
    }

    fn read(&mut self, breakage: Option<Breakage>) {
        self.read = true;
        let is_on = self.other_bmc.unwrap_or(self.on[0]) && self.lie.is_none();
        if self.lie == Some(Lie::Once) {
            self.lie = None;
        }
        let observation = match breakage {
            Some(Breakage::Interrupted) => 1,
            _ => self.observation,
        };
        let reading = |observation, is_on, at| WatchedReading {
            observation,
            state: if is_on {
                PowerState::On
            } else {
                PowerState::Off
            },
            at,
        };
        let now = at(self.time);
        let earlier = |seconds: u64| now - Duration::from_secs(seconds);
        let readings = &mut self.loss.readings;
        if breakage == Some(Breakage::NeverOn) && !is_on && readings.loss().is_none() {
            readings.record(reading(observation, true, earlier(4)));
        }
        if breakage == Some(Breakage::ReadOnce) && !is_on {
            readings.record(reading(observation, false, earlier(2)));
        }
        readings.record(reading(observation, is_on, now));
        for (other, is_on) in self.others.iter_mut().zip(&self.on[1..]) {
            other.readings.record(reading(1, *is_on, now));
        }
    }

    fn list(&mut self, breakage: Option<Breakage>) {
        self.listed = true;
        for node in 0..NODES {
            self.read_lease(node, breakage);
        }
    }

    fn read_lease(&mut self, node: usize, breakage: Option<Breakage>) {
        let now = at(self.time);
        let (name, renewed) = (format!("n{node}"), self.renewed[node].to_string());
        let before = self.memory.seen.get(&name).map(|seen| seen.1);
        let mut facts = self.memory.observe(&name, renewed, LEASE, now);
        if breakage == Some(Breakage::OlderSilence)
            && let Some((seen, before)) = self.memory.seen.get_mut(&name).zip(before)
        {
            (seen.1, facts.unchanged_since) = (before, before);
        }
        // F5 waits from this time on, for a remediation that begins now.
        if facts.unchanged_since < at(self.renewed[node]) {
            self.broken(Wrong::Silence);
        }
        self.leases.record(&name, facts, now);
    }

    /// Why the first host is no failure.
    fn not_a_failure(&self, breakage: Option<Breakage>) -> Option<NotAFailure> {
        let on = self.loss.readings.loss().map(|loss| loss.on);
        let is_switched = self.remediation != Remediation::Absent
            || on.is_some_and(|on| self.switched.is_some_and(|switched| at(switched) >= on));
        if is_switched && breakage != Some(Breakage::SwitchedByUs) {
            return Some(NotAFailure::Switched("r".into()));
        }
        let is_seen = self.cordoned && breakage != Some(Breakage::ShutDownInOrder);
        is_seen.then_some(NotAFailure::Cordoned)
    }

    fn decide(&mut self, breakage: Option<Breakage>) {
        let now = at(self.time);
        // The Node and its Lease are read live for each decision.
        self.read_lease(0, breakage);
        let why = self.not_a_failure(breakage);
        let of_others = self.others.iter().map(|other| other.readings.loss());
        let own = self.loss.readings.loss();
        let own = own.filter(|_| !matches!(why, Some(NotAFailure::Switched(_))));
        let all: Vec<_> = [own].into_iter().chain(of_others).collect();
        for (host, loss) in all.into_iter().enumerate() {
            self.losses
                .record(&name(host), loss.map(|loss| loss.first_off), now);
        }
        self.losses.judge(now);
        let mut lease = self.leases.of("n0").cloned();
        if breakage == Some(Breakage::LeaseNotSilent)
            && let Some(lease) = &mut lease
        {
            lease.facts.unchanged_since = now - renewal_limit(LEASE);
        }
        let mut others = self.leases.others("n0");
        if breakage == Some(Breakage::OthersIgnored) {
            (others.expected, others.renewed) = (1, 1);
        }
        if breakage == Some(Breakage::LeaseNotSilent) {
            // What is wrong is the Lease of this Node alone.
            others.renewed = others.expected;
        }
        let shared = match breakage {
            Some(Breakage::RackIgnored) => SharedLoss::Alone,
            _ => self.losses.of(&name(0), now),
        };
        if breakage == Some(Breakage::NeverEnds) && self.is_lost() {
            return;
        }
        let decided = self.loss.decide(&PowerLostFacts {
            host: "a/h0",
            lease: lease.as_ref(),
            others,
            not_a_failure: why,
            shared,
            // Which reason stands beside False changes no status.
            published: self.published.map(|status| Published {
                status,
                reason: "PowerOn",
            }),
        });
        let Some(condition) = decided else {
            return;
        };
        self.is_rack_held |= condition.reason == "SharedCause";
        let is_new = !self.is_lost() && condition.status == ConditionStatus::True;
        self.published = Some(condition.status);
        if is_new {
            self.judge();
        }
    }

    /// PowerLost was said.
    fn judge(&mut self) {
        if self.remediation == Remediation::Off {
            self.broken(Wrong::Switched);
        } else if self.cordoned && !self.on[0] {
            self.broken(Wrong::InOrder);
        } else if self.on[0] && !self.boots {
            self.broken(Wrong::HostIsOn);
        } else if self.on == [false; HOSTS] {
            self.broken(Wrong::NotJudged);
        }
    }

    /// L1: once nothing fails, a loss that was seen is said, and the condition of a host that is on goes away.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        world.budget = 0;
        (world.stalls, world.lie, world.lags) = (false, None, false);
        if world.remediation == Remediation::Off {
            world.act(Action::SwitchOn, breakage);
        }
        world.remediation = Remediation::Absent;
        for _ in 0..BOUND {
            for action in [Action::Read, Action::List, Action::Decide, Action::Time] {
                world.act(action, breakage);
            }
        }
        // What was said meanwhile is judged where it is explored.
        let is_own = world.other_bmc.is_none();
        if world.on[0] && is_own {
            return !world.is_lost();
        }
        let is_alone = world.on[1..] == [true; HOSTS - 1];
        let is_unexplained = world.not_a_failure(None).is_none() && is_alone && is_own;
        let is_seen = world.loss.readings.loss().is_some();
        !(is_unexplained && is_seen) || world.is_lost()
    }
}
