//! The test driver in place of the engine: observes the world, calls `step`, carries out commands, and
//! crashes.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    super::*,
    bmc::Op,
    build::{UID, mk_bmh},
    faults::Plan,
    world::{TICK, World},
};

/// Virtual time in milliseconds within which every run must end or block.
const END: i64 = 1_800_000;
/// Most turns without any time passing.
const TURNS: u32 = 30;

pub(in crate::remediation::tests) fn policy() -> Policy {
    let s = std::time::Duration::from_secs;
    Policy {
        boot_timeout: s(120),
        power_off_timeout: s(30),
        power_on_timeout: s(30),
        cooperative_grace: s(10),
        unconfirmed_interval: s(20),
        drain_timeout: s(60),
        ..Policy::default()
    }
}

pub(in crate::remediation::tests) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
}

/// Where a crash is forced: before or after the n-th turn's effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::remediation::tests) struct CrashAt {
    pub(in crate::remediation::tests) due: u32,
    pub(in crate::remediation::tests) after: bool,
}

/// The changes that wake the driver.
#[derive(PartialEq)]
struct Events {
    object: (bool, bool, bool, bool, bool, bool),
    bmh: Option<BareMetalHostFacts>,
    node: Option<(Taint, u32, bool, bool)>,
    workload_down: bool,
    agent: bool,
    operation: Option<bool>,
}

pub(in crate::remediation::tests) struct Run {
    pub(in crate::remediation::tests) world: World,
    /// The state stored in the object, which survives a crash.
    pub(in crate::remediation::tests) state: Option<State>,
    pub(in crate::remediation::tests) completed: BTreeSet<Command>,
    pub(in crate::remediation::tests) pod_deletions: PodDeletions,
    pub(in crate::remediation::tests) evictions: Evictions,
    pub(in crate::remediation::tests) collected: Collected,
    pub(in crate::remediation::tests) power: Option<PowerView>,
    pub(in crate::remediation::tests) silent: Option<Timestamp>,
    pub(in crate::remediation::tests) lease: Option<(i64, i64)>,
    wake: Option<i64>,
    seen: Option<Events>,
    last: Option<Command>,
    pub(in crate::remediation::tests) turns: u32,
    /// How many states were written.
    pub(in crate::remediation::tests) records: u32,
    /// Whether this turn may crash at random; at every turn crashes are forced by the tests of crashes.
    crashes_at_random: bool,
    pub(in crate::remediation::tests) crashes: Vec<CrashAt>,
    pub(in crate::remediation::tests) outcome: Option<RemediationOutcome>,
    pub(in crate::remediation::tests) reason: Reason,
    pub(in crate::remediation::tests) commands: Vec<Command>,
}

impl Run {
    pub(in crate::remediation::tests) fn new(plan: Plan) -> Self {
        let object = ObjectFacts {
            ended_by_copy: None,
            made_by_check: None,
            checked: None,
            uid: UID.into(),
            deleting: false,
            timed_out: false,
            given_up_at: None,
            by_node: false,
            node_backup: false,
            finalizer: false,
            finalizer_is_shared: true,
            finalizer_by_copy: None,
            uncut_by_copy: false,
            move_block: MoveBlock::Absent,
            moved_away: false,
            confirm_fenced: None,
            override_other_node: None,
            override_owner: None,
            paused: false,
            policy: Ok(plan.policy()),
        };
        let bmh = plan.cooperative.then(|| BareMetalHostFacts {
            move_block: MoveBlock::Absent,
            ..mk_bmh()
        });
        Self {
            world: World::new(plan, object, bmh),
            state: None,
            completed: BTreeSet::new(),
            pod_deletions: PodDeletions::default(),
            evictions: Evictions::default(),
            collected: Collected::default(),
            power: None,
            silent: None,
            lease: None,
            wake: Some(0),
            seen: None,
            last: None,
            turns: 0,
            records: 0,
            crashes_at_random: true,
            crashes: Vec::new(),
            outcome: None,
            reason: Reason::Started,
            commands: Vec::new(),
        }
    }

    pub(in crate::remediation::tests) fn go(&mut self) {
        self.go_until(END);
        self.judge();
    }

    /// Goes on until this time, or the end of the remediation.
    pub(in crate::remediation::tests) fn go_until(&mut self, end: i64) {
        while self.world.now < end && self.outcome.is_none() {
            self.world.tick();
            let mut turns = 0;
            while self.awake() && self.outcome.is_none() {
                let now = self.world.now;
                self.due();
                turns = if self.world.now == now { turns + 1 } else { 0 };
                if turns > TURNS {
                    self.world.fail("the step repeats without a wait");
                }
            }
        }
    }

    /// Whether the driver is woken by its clock, or by a change of the object, the host, the Node (not
    /// its Lease, which is not watched), the agent or the operation.
    fn awake(&mut self) -> bool {
        if self.wake.is_some_and(|t| t <= self.world.now) {
            return true;
        }
        // `None` while it is down, or pauses after a failure.
        self.seen
            .as_ref()
            .is_some_and(|seen| *seen != self.events())
    }

    fn events(&self) -> Events {
        let w = &self.world;
        let object = (
            w.object.deleting,
            w.object.finalizer,
            w.object.confirm_fenced.is_some(),
            w.object.paused,
            w.object.policy.is_ok(),
            w.object.timed_out,
        );
        let id = self.state.as_ref().and_then(|s| operation_id(UID, s));
        let operation = id
            .and_then(|id| w.ops.get(&w.op_key(&id)))
            .map(|op| op.outcome.is_some());
        let c = &w.cluster;
        let node = !w.workload_down && c.node;
        Events {
            object,
            bmh: w.bmh.clone(),
            node: node.then(|| (c.taint, c.boot_id, w.ready(), w.unknown())),
            workload_down: w.workload_down,
            agent: w.agent_up,
            operation: operation.filter(|_| w.agent_up),
        }
    }

    fn crash(&mut self) {
        self.world.log("*** the controller crashes");
        self.completed.clear();
        self.evictions = Evictions::default();
        self.pod_deletions = PodDeletions::default();
        self.collected = Collected::default();
        (self.power, self.lease, self.seen, self.last) = (None, None, None, None);
        self.silent = None;
        self.wake = Some(self.world.now + self.world.rng.range(1, 8) * TICK);
    }

    fn pause(&mut self) {
        self.seen = None;
        self.wake = Some(self.world.now + 1000);
    }

    fn crashes_now(&mut self, after: bool) -> bool {
        let one_in = match self.crashes_at_random {
            true => self.world.plan.crash_one_in,
            false => 0,
        };
        let forced = self.crashes.contains(&CrashAt {
            due: self.turns,
            after,
        });
        forced || one_in > 0 && self.world.now < 600_000 && self.world.rng.one_in(one_in)
    }

    fn due(&mut self) {
        self.turns += 1;
        self.note_lease();
        let o = self.observe();
        let d = super::build::decide(&o, self.state.as_ref(), time(self.world.now));
        self.reason = d.reason.clone();
        let step = d.state.step.label();
        let owned = |s: &State| s.finalizer;
        let owned = owned(&d.state) != self.state.as_ref().is_some_and(owned);
        let of_move = matches!(
            &d.next,
            Next::Do(Command::BlockMove | Command::UnblockMove | Command::UnblockHost)
        );
        self.crashes_at_random = !of_move && !owned;
        match d.next {
            Next::Write => {
                if self.crashes_now(false) {
                    return self.crash();
                }
                self.world.log(&format!("{step}: {}", d.reason));
                self.may_follow(&d.state);
                // The state passes through its stored form.
                let stored = serde_json::to_string(&d.state).unwrap();
                self.state = Some(serde_json::from_str(&stored).unwrap());
                self.completed.clear();
                self.pod_deletions = PodDeletions::default();
                self.collected = Collected::default();
                self.records += 1;
                if self.world.plan.record_takes > 0 {
                    self.seen = None;
                    self.wake = Some(self.world.now + self.world.plan.record_takes);
                }
                if self.crashes_now(true) {
                    self.crash();
                }
            }
            Next::Do(command) => {
                if self.crashes_now(false) {
                    return self.crash();
                }
                let worked = self.execute(&command, &o);
                self.world.log(&format!("{step}: {command:?} {worked}"));
                if self.crashes_now(true) {
                    return self.crash();
                }
                let lose = match self.crashes_at_random {
                    true => self.world.plan.lose_one_in,
                    false => 0,
                };
                let lost = lose > 0 && self.world.now < 600_000 && self.world.rng.one_in(lose);
                if !worked || lost {
                    return self.pause();
                }
                self.completed.insert(command.clone());
                if self.last.replace(command.clone()) == Some(command) {
                    self.pause();
                }
            }
            Next::Wait(until) => {
                self.last = None;
                self.world.log(&format!("{step}: waits, {}", d.reason));
                self.wake = Some(until.as_millisecond() - 1_800_000_000_000);
                self.seen = Some(self.events());
            }
            Next::Done(outcome) => {
                self.world.log(&format!("{step}: {outcome:?}"));
                self.outcome = Some(outcome);
            }
        }
    }

    /// Checks and carries out a command. Returns whether it succeeded.
    fn execute(&mut self, command: &Command, o: &Observation) -> bool {
        self.commands.push(command.clone());
        let state = self.state.clone().unwrap_or_else(|| State::new(time(0)));
        let agent = self.world.agent_up;
        let w = &mut self.world;
        if w.refuses_change_of_host(command) {
            return false;
        }
        match command {
            Command::AddFinalizer => {
                w.object.finalizer = true;
                w.object.move_block = MoveBlock::Ours;
            }
            Command::RemoveFinalizer(_) => {
                if state.rival.is_some() {
                    w.fail("F9: the finalizer may be of CAPM3's controller");
                }
                w.object.finalizer = false;
                w.object.move_block = MoveBlock::Absent;
            }
            Command::AddHold => {
                w.said_off.clear();
                let bmh = w.bmh.as_mut().unwrap();
                (bmh.our_hold, bmh.hold_renewed) = (true, None);
                bmh.move_block = MoveBlock::Ours;
            }
            Command::RenewHold => {
                w.bmh.as_mut().unwrap().hold_renewed = Some(time(w.now));
                w.owner_looks();
            }
            Command::RemoveHold => {
                self.may_come_on(&state);
                self.world.bmh.as_mut().unwrap().our_hold = false;
            }
            Command::RemoveOrphanedHolds { keys } => {
                let bmh = w.bmh.as_mut().unwrap();
                bmh.orphaned_holds.retain(|held| !keys.contains(held));
            }
            Command::EndMachineRequest => {}
            Command::BlockMove => {
                w.object.move_block = MoveBlock::Ours;
                if let Some(bmh) = &mut w.bmh {
                    bmh.move_block = MoveBlock::Ours;
                }
            }
            Command::UnblockHost => {
                w.bmh.as_mut().unwrap().move_block = MoveBlock::Absent;
            }
            Command::UnblockMove => {
                w.object.move_block = MoveBlock::Absent;
                if let Some(bmh) = &mut w.bmh {
                    bmh.move_block = MoveBlock::Absent;
                }
            }
            Command::PowerOff {
                id, command_after, ..
            } => {
                let blocks = w
                    .bmh
                    .as_ref()
                    .is_none_or(|b| b.move_block == MoveBlock::Ours);
                if w.object.move_block != MoveBlock::Ours || !blocks {
                    w.fail("F16: a power-off while clusterctl may move the host");
                }
                if w.bmh.as_ref().is_some_and(|b| !b.our_hold && b.online) {
                    w.fail("F2: a power-off without our hold");
                }
                if operation_id(UID, &state).as_ref() != Some(id) || !state.agent_holds {
                    w.fail("F2: a power-off that is not in the state");
                }
                if agent {
                    let look = i64::try_from(command_after.as_millis()).unwrap();
                    w.agent_holds = true;
                    w.alone();
                    let op = Op::new(false, w.now, look, 30_000);
                    w.note(id, true, false);
                    w.ops.entry(w.op_key(id)).or_insert(op);
                }
                return agent;
            }
            Command::PowerOn { id, .. } => {
                self.may_come_on(&state);
                let w = &mut self.world;
                if agent {
                    w.agent_holds = false;
                    w.said_off.clear();
                    w.alone();
                    let op = Op::new(true, w.now, 0, 30_000);
                    w.note(id, false, false);
                    w.ops.entry(w.op_key(id)).or_insert(op);
                }
                return agent;
            }
            Command::Cancel { id } => {
                let key = w.op_key(id);
                if let Some(op) = w.ops.get_mut(&key).filter(|_| agent) {
                    op.cancel = true;
                }
                return agent;
            }
            Command::CollectEvidence { .. } => {
                let until = o.step_until(&state).unwrap();
                if w.bmh.as_ref().is_some_and(|b| b.our_hold) {
                    w.fail("the host is off by our hold before its evidence is collected");
                }
                if !agent {
                    return false;
                }
                // A BMC that hangs uses up all the time that it may take.
                let hangs = w.silent || w.plan.stuck;
                while hangs && time(w.now) < until {
                    w.tick();
                }
                let mut evidence = HostEvidence::new(0, time(w.now));
                if !hangs {
                    evidence.set_log(&[]);
                }
                self.collected.evidence = Some(Box::new(evidence));
            }
            Command::CollectBootLog => {
                self.collected.boot_log = agent.then(Box::default);
                return agent;
            }
            // No world of these tests lets updates be read.
            Command::ReadUpdates => return false,
            Command::ReadPower => {
                if !agent {
                    return false;
                }
                let asked = time(w.now);
                for _ in 0..(w.plan.read_takes / TICK) {
                    w.tick();
                }
                let result = w.read_bmc().map(|state| w.reading(state, w.now));
                let answered = time(w.now);
                let lease = match &o.workload {
                    WorkloadView::Present(node) => node.lease.as_ref(),
                    _ => None,
                };
                self.power = Some(PowerView {
                    asked,
                    answered,
                    lease: lease.map(|l| l.renewed.clone()),
                    result,
                });
            }
            Command::Release => {
                if agent && w.agent_holds {
                    w.agent_holds = false;
                    w.note("release", false, true);
                }
                return agent;
            }
            Command::AddTaint => {
                if w.workload_down || !w.cluster.node {
                    return false;
                }
                self.may_taint(&state);
                self.world.cluster.taint = Taint::Ours;
            }
            Command::RemoveTaint => {
                if w.workload_down || !w.cluster.node {
                    return false;
                }
                w.cluster.taint = Taint::Absent;
            }
            // No plan asks for one; soft_off.rs has the tests.
            Command::SoftOff { .. } => return false,
            Command::Cordon { node } => {
                if w.workload_down || *node != format!("n7-{}", w.cluster.deleted) {
                    return false;
                }
                if state.cordoned.as_ref().is_none_or(|c| c.uid != *node) {
                    w.fail("F9: a cordon is set before it is recorded");
                }
                w.cluster.cordoned = true;
            }
            Command::Uncordon { node } => {
                if w.workload_down || *node != format!("n7-{}", w.cluster.deleted) {
                    return false;
                }
                w.cluster.cordoned = false;
            }
            Command::EvictPods { node, pods } => {
                if w.workload_down || *node != format!("n7-{}", w.cluster.deleted) {
                    return false;
                }
                if !w.cluster.cordoned || state.step != Step::Evicting {
                    w.fail("pods are evicted that would come again");
                }
                for pod in pods {
                    w.cluster.pod = w.cluster.pod.map(|_| true);
                    let answer = EvictionAnswer {
                        pod: pod.clone(),
                        at: time(w.now),
                        result: EvictionResult::Evicted,
                    };
                    self.evictions.answers.insert(pod.uid.clone(), answer);
                }
            }
            Command::DeletePods { node, pods } => {
                if w.workload_down {
                    return false;
                }
                if *node != format!("n7-{}", w.cluster.deleted) || w.cluster.taint != Taint::Ours {
                    w.fail("F1: pods of a Node that is not ours are deleted");
                }
                self.may_taint(&state);
                for pod in pods {
                    if self.world.force_delete(pod) {
                        self.pod_deletions.deleted.insert(pod.clone());
                    }
                }
            }
            Command::BackUpNode => {
                if w.workload_down || !w.cluster.node {
                    return false;
                }
                w.object.node_backup = true;
            }
            Command::DeleteNode { .. } => {
                if w.workload_down || !w.cluster.node {
                    return false;
                }
                if !w.object.node_backup {
                    w.fail("F9: a Node is deleted without a backup");
                }
                self.may_taint(&state);
                self.world.forget_node();
            }
            Command::RestoreNode => {
                if w.workload_down || !w.cluster.node {
                    return false;
                }
                w.object.node_backup = false;
            }
            Command::Escalate { retire } => {
                assert!(o.machine.is_some());
                w.escalated = true;
                if let Some(bmh) = w.bmh.as_mut().filter(|_| *retire) {
                    bmh.unhealthy_mark = true;
                }
            }
        }
        true
    }
}
