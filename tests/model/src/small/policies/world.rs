//! The API server, the leader and what happens to them.

use std::collections::BTreeSet;

use rackhand_core::{
    fleet::placement::{HostWorkload, Placement, PolicyFacts},
    limits::concurrency::{ActiveRemediation, Urgency, check_concurrency},
    limits::power_policy::{Budget, Domain, PowerPolicy, Rule, Subject, Verdict, evaluate},
    remediation::{Progress, progress_again},
};

use super::Breakage;
use crate::time::{NOW, after};

/// Remediations in the world.
pub(super) const COUNT: usize = 3;
/// The rack of each.
const RACKS: [&str; COUNT] = ["a", "a", "b"];
const MOST_IN_RACK: u32 = 1;
const MOST: u32 = 2;
/// The remediation whose host gets the label.
const HELD: usize = 0;
/// Rounds after which everything has ended if nothing fails.
const ROUNDS: usize = 8;

/// What the API server has of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// It has begun nothing.
    Waiting,
    /// Its host may be switched off.
    Begun,
    /// It has ended and is deleted.
    Gone,
}

/// What holds the first remediation, once both are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The policy that requires approval for hosts with a label.
    policy: bool,
    /// The label of the first host.
    label: bool,
}

impl Hold {
    fn holds(self, number: usize) -> bool {
        number == HELD && self.policy && self.label
    }
}

/// What the leader has in memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    /// The remediations as its index has them.
    index: [Stage; COUNT],
    /// Those that were evaluated, with the result.
    active: [Option<Progress>; COUNT],
    /// The writes of a beginning that are on their way.
    writes: [bool; COUNT],
    /// The remediations that have not begun and are to be claimed before any begins.
    unclaimed: [bool; COUNT],
    /// What its watches have shown.
    hold: Hold,
}

/// The API server and the leader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The remediations at the API server.
    pub(super) objects: [Stage; COUNT],
    leader: Process,
    /// The index of the other controller, which may be behind.
    standby: [Stage; COUNT],
    /// Writes of a former leader that have not arrived, and whose object has not changed since they were sent.
    late: [bool; COUNT],
    /// Faults that may still happen.
    pub(super) budget: u8,
    /// What the API server has.
    hold: Hold,
    /// A remediation was let begin although a policy held it.
    pub(super) begins_held: bool,
}

/// Everything that can happen; a number is that of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The leader evaluates a remediation, and sends the write if it begins.
    Evaluate(usize),
    /// The write of a beginning arrives, and its answer.
    Arrive(usize),
    /// A watch shows the leader a remediation.
    Observe(usize),
    /// A watch shows the other controller a remediation.
    ObserveStandby(usize),
    /// A remediation that has begun ends.
    End(usize),
    /// A write is lost.
    Lose(usize),
    /// A write arrives, and its answer is lost.
    LoseAnswer(usize),
    /// The leader is started anew.
    Restart,
    /// The other controller takes over.
    Takeover,
    /// The leader claims a remediation, which changes the object.
    Claim(usize),
    /// A write of a former leader arrives.
    ArriveLate(usize),
    /// A person adds the policy that requires approval.
    AddPolicy,
    /// A person sets the label of the first host.
    SetLabel,
    /// A watch shows the leader the policy.
    ObservePolicy,
    /// A watch shows the leader the label.
    ObserveLabel,
}

fn policy() -> PowerPolicy {
    let budget = |per, max_concurrent| Budget {
        per,
        max_concurrent,
    };
    PowerPolicy {
        name: "racks".into(),
        budgets: vec![
            budget(Domain::Rack, MOST_IN_RACK),
            budget(Domain::Policy, MOST),
        ],
        ..PowerPolicy::default()
    }
}

fn approval() -> PowerPolicy {
    PowerPolicy {
        name: "approval".into(),
        approval: true,
        ..PowerPolicy::default()
    }
}

/// A remediation as the decisions about others need it.
fn active(number: usize, progress: Progress) -> ActiveRemediation {
    let seconds = u64::try_from(number).unwrap_or(0);
    ActiveRemediation {
        name: format!("r{number}"),
        uid: format!("r{number}"),
        created: after(seconds),
        progress,
        machine: Some(format!("m{number}")),
        node: Some(format!("n{number}")),
        bmc: Some(format!("10.0.0.{number}")),
        control_plane_of: Vec::new(),
        urgency: Urgency::unknown(),
        policy: PolicyFacts {
            policies: BTreeSet::from(["racks".to_owned()]),
            placement: Placement {
                rack: Some(RACKS[number].to_owned()),
                ..Placement::default()
            },
            workload: HostWorkload::default(),
            held_by: None,
        },
    }
}

impl Process {
    fn new(index: [Stage; COUNT]) -> Self {
        Self {
            index,
            active: [None; COUNT],
            writes: [false; COUNT],
            unclaimed: [false; COUNT],
            hold: Hold::default(),
        }
    }

    /// What the engine does with its lock held; whether the remediation begins. `hold` is what it has read before.
    fn evaluate(&mut self, me: usize, hold: Hold, breakage: Option<Breakage>) -> bool {
        let before = self.active[me].take();
        let mut others = Vec::new();
        for other in (0..COUNT).filter(|other| *other != me) {
            let earlier =
                self.index[other] == Stage::Begun && breakage != Some(Breakage::EarlierForgotten);
            let by_earlier = earlier.then(|| active(other, Progress::Begun));
            let mut found = match self.active[other] {
                Some(progress) => Some(active(other, progress)),
                None => by_earlier,
            };
            if breakage == Some(Breakage::EarlierWithoutRack)
                && self.active[other].is_none()
                && let Some(earlier) = &mut found
            {
                earlier.policy.placement.rack = None;
            }
            others.extend(found);
        }
        let has_begun = self.index[me] == Stage::Begun;
        let progress = if has_begun {
            Progress::Begun
        } else {
            Progress::Ready
        };
        let before = before.filter(|_| breakage != Some(Breakage::PlaceLost));
        let progress = progress_again(progress, true, before, None);
        let mut mine = active(me, progress);
        mine.progress = check_concurrency(&mine, &others, None).progress;
        let mut permitted = !has_begun && mine.progress == Progress::Begun;
        if permitted && progress == Progress::Ready {
            let others: Vec<&ActiveRemediation> = others.iter().collect();
            let mut policies = vec![policy()];
            if hold.holds(me) {
                policies.push(approval());
            }
            let verdict = evaluate(&policies, &mine, &Subject::default(), &others, NOW);
            permitted = matches!(verdict, Verdict::Begin { .. });
            match verdict {
                Verdict::Hold(hold) if hold.rule == Rule::Budget => {
                    mine.progress = Progress::Ready;
                }
                Verdict::Hold(_) | Verdict::Exhausted(_) => mine.progress = Progress::Waiting,
                Verdict::Begin { .. } => {}
            }
        }
        if breakage != Some(Breakage::ResultNotKept) || has_begun {
            self.active[me] = Some(mine.progress);
        }
        permitted
    }

    fn observe(&mut self, number: usize, stage: Stage) {
        self.index[number] = stage;
        if stage == Stage::Gone {
            self.active[number] = None;
        }
    }
}

impl World {
    pub(super) fn new(budget: u8) -> Self {
        Self {
            objects: [Stage::Waiting; COUNT],
            leader: Process::new([Stage::Waiting; COUNT]),
            standby: [Stage::Waiting; COUNT],
            late: [false; COUNT],
            budget,
            hold: Hold::default(),
            begins_held: false,
        }
    }

    pub(super) fn begun(&self) -> impl Iterator<Item = usize> {
        (0..COUNT).filter(|number| self.objects[*number] == Stage::Begun)
    }

    pub(super) fn is_within_budget(&self) -> bool {
        let in_rack = |rack| self.begun().filter(|n| RACKS[*n] == rack).count();
        let most = |count: usize, most: u32| u32::try_from(count).is_ok_and(|count| count <= most);
        most(self.begun().count(), MOST)
            && RACKS.iter().all(|rack| most(in_rack(*rack), MOST_IN_RACK))
    }

    /// The API server takes the write if the object is as it was.
    fn arrive(&mut self, number: usize) {
        if self.objects[number] == Stage::Waiting {
            self.objects[number] = Stage::Begun;
        }
    }

    fn take_over(&mut self, index: [Stage; COUNT], breakage: Option<Breakage>) {
        for (late, sent) in self.late.iter_mut().zip(self.leader.writes) {
            *late |= sent;
        }
        let is_listed = breakage != Some(Breakage::NotListed);
        let index = if is_listed { self.objects } else { index };
        self.leader = Process::new(index);
        if breakage != Some(Breakage::NotClaimed) {
            self.leader.unclaimed = index.map(|stage| stage == Stage::Waiting);
        }
    }

    /// The claim changes the object, unless it has changed since it was listed: then the leader reads it again.
    fn claim(&mut self, number: usize) {
        if self.objects[number] == Stage::Waiting {
            self.late[number] = false;
        }
        self.leader.unclaimed[number] = false;
        self.leader.observe(number, self.objects[number]);
    }

    /// Policies and labels are read live before a beginning.
    fn evaluate(&mut self, number: usize, breakage: Option<Breakage>) {
        let mut read = self.hold;
        match breakage {
            Some(Breakage::PolicyNotRead) => read.policy = self.leader.hold.policy,
            Some(Breakage::LabelNotRead) => read.label = self.leader.hold.label,
            _ => {}
        }
        let had_begun = self.leader.active[number] == Some(Progress::Begun);
        let begins = self.leader.evaluate(number, read, breakage);
        // What had begun before only sends its write again.
        self.begins_held |= begins && !had_begun && self.hold.holds(number);
        self.leader.writes[number] = begins;
    }

    pub(super) fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        match action {
            Action::Evaluate(n) => self.evaluate(n, breakage),
            Action::AddPolicy => self.hold.policy = true,
            Action::SetLabel => self.hold.label = true,
            Action::ObservePolicy => self.leader.hold.policy = self.hold.policy,
            Action::ObserveLabel => self.leader.hold.label = self.hold.label,
            Action::Arrive(n) => {
                self.arrive(n);
                self.leader.writes[n] = false;
                self.leader.observe(n, self.objects[n]);
            }
            Action::Observe(n) => self.leader.observe(n, self.objects[n]),
            Action::ObserveStandby(n) => self.standby[n] = self.objects[n],
            Action::End(n) => self.objects[n] = Stage::Gone,
            Action::Lose(n) => self.leader.writes[n] = false,
            Action::LoseAnswer(n) => {
                self.arrive(n);
                self.leader.writes[n] = false;
            }
            // A watch that begins shows everything.
            Action::Restart => self.take_over(self.objects, breakage),
            Action::Takeover => self.take_over(self.standby, breakage),
            Action::Claim(n) => self.claim(n),
            Action::ArriveLate(n) => {
                self.arrive(n);
                self.late[n] = false;
            }
        }
    }

    pub(super) fn possible(&self) -> Vec<Action> {
        let mut all = Vec::new();
        if !self.is_within_budget() {
            return all;
        }
        for n in 0..COUNT {
            let (stage, leader) = (self.objects[n], &self.leader);
            if leader.writes[n] {
                all.push(Action::Arrive(n));
                if self.budget > 0 {
                    all.extend([Action::Lose(n), Action::LoseAnswer(n)]);
                }
            } else if leader.index[n] != Stage::Gone && leader.unclaimed == [false; COUNT] {
                all.push(Action::Evaluate(n));
            }
            if leader.unclaimed[n] {
                all.push(Action::Claim(n));
            }
            if leader.index[n] != stage {
                all.push(Action::Observe(n));
            }
            if self.standby[n] != stage {
                all.push(Action::ObserveStandby(n));
            }
            // It is carried out by the process that knows that it has begun.
            if stage == Stage::Begun && leader.index[n] == Stage::Begun {
                all.push(Action::End(n));
            }
            if self.late[n] {
                all.push(Action::ArriveLate(n));
            }
        }
        if self.budget > 0 {
            all.extend([Action::Restart, Action::Takeover]);
        }
        let (there, shown) = (self.hold, self.leader.hold);
        let people = [
            (!there.policy, Action::AddPolicy),
            (!there.label, Action::SetLabel),
            (there.policy && !shown.policy, Action::ObservePolicy),
            (there.label && !shown.label, Action::ObserveLabel),
        ];
        let possible = people.into_iter().filter(|(possible, _)| *possible);
        all.extend(possible.map(|(_, action)| action));
        all
    }

    /// L1: once nothing fails and a person has removed the policy that requires approval, every remediation has its turn.
    pub(super) fn ends(&self, breakage: Option<Breakage>) -> bool {
        let mut world = self.clone();
        world.budget = 0;
        (world.hold, world.leader.hold) = (Hold::default(), Hold::default());
        for n in (0..COUNT).filter(|n| self.leader.unclaimed[*n]) {
            world.claim(n);
        }
        for _ in 0..ROUNDS {
            for n in 0..COUNT {
                let before = world.possible();
                for action in [
                    Action::Observe(n),
                    Action::Evaluate(n),
                    Action::Arrive(n),
                    Action::End(n),
                ] {
                    if before.contains(&action) || world.possible().contains(&action) {
                        world.act(action, breakage);
                    }
                }
            }
        }
        world.objects == [Stage::Gone; COUNT]
    }
}
