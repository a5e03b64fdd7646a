//! The health-check engine in the model: what the events of its runtime lead to, around the cores that judge
//! and keep its books.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use rackhand_core::{
    dispatch::{
        HandoverState, Item, Items, Outcome, Overlaps, Phase, Queue, SEE_AGAIN, Turn, Wanted,
        Window,
    },
    freshness::Catchup,
    handover::{SETTLE, Step},
    health::{
        Action, Check, Claim, ClusterFacts, Condition, ConditionRule, Fleet, IntOrPercent, Limit,
        MachineFacts, NodeFacts, NodeView, Policy, RequestView, Target, acting,
    },
};

use super::{
    api::{Name, Stored},
    breakage::Breakage,
    world::{Api, CheckValue, MACHINES, RequestValue, request_name},
};
use crate::{
    copy_on_write::CopyOnWrite,
    time::{NOW, after},
};

/// What the engine's monotonic clock shows; other times of it are shifted.
pub const CLOCK: Duration = Duration::from_secs(1000);

/// Pause before a request is examined again that was not withdrawn.
const WITHDRAW_AGAIN: Duration = Duration::from_secs(5);

/// A check that is evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckState {
    /// The check as it was read.
    pub spec: Stored<CheckValue>,
    /// Its machines.
    pub fleet: Fleet<Check>,
    /// Those that wait to be handed over.
    pub handover: HandoverState,
}

/// A call that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Task {
    /// Creates the request of a machine.
    Create(Item<Name>, RequestValue),
    /// Deletes the request with this name and UID.
    Delete(Item<Name>, Option<(Name, u8)>),
    /// Withdraws the request with this name and UID; `true` once live reads have shown that it is orphaned.
    Withdraw(Name, u8, bool),
    /// Reads live what feeds a check, and then waits for the view.
    Read(Name, u64, Option<Box<Listed>>),
}

/// What a live read has shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listed {
    /// What the view has yet to reach: checks, machines, Nodes, requests.
    pub behind: [Catchup; 4],
    /// What was true since then.
    pub since: Since,
}

/// What was true at some time since a live read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Since {
    /// The limit of the check was open.
    pub open: bool,
    /// These machines were unhealthy.
    pub unhealthy: BTreeSet<Name>,
}

/// The engine of one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Engine {
    /// The checks that it evaluates.
    pub checks: BTreeMap<Name, CopyOnWrite<CheckState>>,
    /// Whose turn it is.
    pub queue: Queue<Name, Duration>,
    /// What is under way for whom.
    pub items: Items<Name>,
    /// Which of several checks acts.
    pub overlaps: Overlaps<Name>,
    /// Requests that are being withdrawn.
    pub withdrawing: BTreeSet<u8>,
    /// When requests that were not withdrawn are examined again.
    pub examine_at: BTreeSet<(Duration, Name, u8)>,
    /// Checks with members that wait to be handed over.
    settling: BTreeSet<Name>,
    /// When one of them is due.
    pub settled_at: Option<Duration>,
    reads: u64,
    /// Calls that are under way.
    pub tasks: Vec<Task>,
    /// Since when members wait to be handed over, for the rule of the burst.
    pub due_since: BTreeMap<Item<Name>, Duration>,
    /// Members that were cleared, and what was true since the live read.
    pub cleared: BTreeMap<Item<Name>, Since>,
    /// Requests that were begun and are judged by the world, and what was true since the live read.
    pub begun: Vec<(Item<Name>, Option<Since>)>,
    /// A live read was begun before the burst had arrived.
    pub hasty: bool,
}

fn window() -> Window {
    Window {
        now: 4,
        fewest: 4,
        most: 4,
    }
}

fn is_selected(check: &CheckValue, machine: Name) -> bool {
    !(check.narrowed && machine == MACHINES[0])
}

/// The rules of a check: a Node that is not Ready is unhealthy at once.
pub fn rules(check: &CheckValue, breakage: Option<Breakage>) -> Check {
    let rule = |status: &str| ConditionRule {
        type_: "Ready".into(),
        status: status.into(),
        timeout: Duration::ZERO,
    };
    let limit = match breakage {
        Some(Breakage::LimitOfOwnHandovers) => Limit::AtMost(IntOrPercent::Percent(100)),
        _ => check.limit,
    };
    Check {
        startup_timeout: None,
        node_conditions: vec![rule("Unknown")],
        machine_conditions: Vec::new(),
        limit,
        external: true,
        paused: false,
    }
}

fn cluster() -> ClusterFacts {
    ClusterFacts {
        paused: false,
        infrastructure_ready: Some(NOW),
        control_plane_initialized: Some(NOW),
    }
}

fn machine_facts(name: Name, uid: u8) -> MachineFacts {
    MachineFacts {
        name: name.into(),
        uid: uid.to_string(),
        created: NOW,
        deleting: false,
        control_plane: false,
        paused: false,
        skip_remediation: false,
        remediate_annotation: false,
        conditions: Vec::new(),
        infrastructure_ready: Some(NOW),
        failure: None,
        health_condition: None,
        owner_remediated: None,
        awaits_owner: false,
    }
}

fn node_view(api: &Api, name: Name) -> NodeView {
    let known = || name.to_owned();
    match api.nodes.seen(name) {
        Some(ready) => NodeView::Present(NodeFacts {
            name: known(),
            conditions: vec![Condition {
                type_: "Ready".into(),
                status: if *ready { "True" } else { "Unknown" }.into(),
                reason: String::new(),
                last_transition: Some(NOW),
            }],
        }),
        None if api.absent.contains(name) => NodeView::Missing { name: known() },
        None => NodeView::Unconfirmed { name: known() },
    }
}

fn request_view(api: &Api, check: &CheckValue, machine: Name, uid: u8) -> RequestView {
    match api.requests.seen(request_name(machine, check.template)) {
        None => RequestView::None,
        Some(request) if request.of.1 != uid => RequestView::Foreign {
            owner: request.of.1.to_string(),
        },
        Some(request) if request.deleting => RequestView::Deleting,
        Some(_) => RequestView::Open,
    }
}

fn target(api: &Api, check: &CheckValue, machine: Name, uid: u8) -> Target {
    Target {
        machine: machine_facts(machine, uid),
        node: node_view(api, machine),
        request: request_view(api, check, machine, uid),
    }
}

impl Engine {
    /// An engine that begins to evaluate what the view shows.
    pub fn new(api: &Api, breakage: Option<Breakage>) -> Self {
        let mut engine = Self {
            checks: BTreeMap::new(),
            queue: Queue::with_window(window()),
            items: Items::default(),
            overlaps: Overlaps::default(),
            withdrawing: BTreeSet::new(),
            examine_at: BTreeSet::new(),
            settling: BTreeSet::new(),
            settled_at: None,
            reads: 0,
            tasks: Vec::new(),
            due_since: BTreeMap::new(),
            cleared: BTreeMap::new(),
            begun: Vec::new(),
            hasty: false,
        };
        let names: Vec<Name> = api.checks.view.keys().copied().collect();
        for check in names {
            engine.check_changed(api, check, breakage);
        }
        engine.examine_all(api, breakage);
        engine.step(api, breakage);
        engine
    }

    // What has changed.

    /// A check has come, changed or gone.
    pub fn check_changed(&mut self, api: &Api, name: Name, breakage: Option<Breakage>) {
        match api.checks.view.get(name) {
            Some(spec) => self.evaluate(api, name, spec.clone(), breakage),
            None => self.drop_check(name, breakage),
        }
        self.examine_all(api, breakage);
    }

    fn evaluate(
        &mut self,
        api: &Api,
        name: Name,
        spec: Stored<CheckValue>,
        breakage: Option<Breakage>,
    ) {
        let rules = rules(&spec.value, breakage);
        let alike =
            |known: &CopyOnWrite<CheckState>| known.spec.value.narrowed == spec.value.narrowed;
        if let Some(state) = self.checks.get_mut(name).filter(|known| alike(known)) {
            let CheckState {
                spec: known, fleet, ..
            } = &mut **state;
            *known = spec;
            let value = &known.value;
            fleet.set_check(rules, NOW, |machine| {
                let (name, stored) = api.machines.view.get_key_value(machine)?;
                Some(target(api, value, name, stored.uid))
            });
        } else {
            self.drop_check(name, breakage);
            let mut fleet = Fleet::new(rules, cluster(), None, NOW);
            for (machine, stored) in &api.machines.view {
                if is_selected(&spec.value, machine) {
                    fleet.put(target(api, &spec.value, machine, stored.uid), NOW);
                }
            }
            let handover = HandoverState::default();
            self.checks.insert(
                name,
                CopyOnWrite::from(CheckState {
                    spec,
                    fleet,
                    handover,
                }),
            );
            for item in self.items.in_phase(&name, Phase::request_may_exist) {
                self.request_changed(api, &item, breakage);
                self.queue.later(&item, CLOCK + SEE_AGAIN);
            }
            let machines: Vec<Name> = api.machines.view.keys().copied().collect();
            for machine in machines {
                self.overlap(machine, breakage);
            }
        }
        self.settle(name, breakage);
    }

    fn drop_check(&mut self, name: Name, breakage: Option<Breakage>) {
        if self.checks.remove(name).is_none() {
            return;
        }
        self.queue.forget(&name);
        self.items.forget(&name);
        self.due_since.retain(|item, _| item.check != name);
        self.cleared.retain(|item, _| item.check != name);
        for machine in self.overlaps.machines(&name) {
            self.overlap(machine, breakage);
        }
    }

    /// A machine has come, changed or gone.
    pub fn machine_changed(&mut self, api: &Api, machine: Name, breakage: Option<Breakage>) {
        let stored = api.machines.view.get(machine);
        let names: Vec<Name> = self.checks.keys().copied().collect();
        for name in names {
            let Some(state) = self.checks.get_mut(name) else {
                continue;
            };
            let selected = stored.filter(|_| is_selected(&state.spec.value, machine));
            match selected {
                Some(stored) => {
                    let mut target = target(api, &state.spec.value, machine, stored.uid);
                    let item = Item::new(&name, &machine.into());
                    target.request = self.items.phase(&item).counted(target.request);
                    state.fleet.put(target, NOW);
                }
                None if state.fleet.contains(machine) => state.fleet.remove(machine, NOW),
                None => continue,
            }
            self.settle(name, breakage);
        }
        self.overlap(machine, breakage);
        self.examine_all(api, breakage);
    }

    /// A Node has come, changed or gone, or is known to be gone.
    pub fn node_changed(&mut self, api: &Api, node: Name, breakage: Option<Breakage>) {
        let names: Vec<Name> = self.checks.keys().copied().collect();
        for name in names {
            if let Some(state) = self.checks.get_mut(name) {
                state.fleet.set_node(node, node_view(api, node), NOW);
            }
            self.settle(name, breakage);
        }
    }

    /// The requests of a machine have changed.
    pub fn requests_changed(&mut self, api: &Api, machine: Name, breakage: Option<Breakage>) {
        let names: Vec<Name> = self.checks.keys().copied().collect();
        for name in names {
            self.request_changed(api, &Item::new(&name, &machine.into()), breakage);
        }
        self.examine_all(api, breakage);
    }

    fn request_changed(&mut self, api: &Api, item: &Item<Name>, breakage: Option<Breakage>) {
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        let Some((machine, stored)) = api.machines.view.get_key_value(&*item.member) else {
            return;
        };
        let request = request_view(api, &state.spec.value, machine, stored.uid);
        let request = self.items.phase(item).counted(request);
        state.fleet.set_request(machine, request, NOW);
        let machine = *machine;
        self.settle(item.check, breakage);
        self.overlap(machine, breakage);
    }

    fn overlap(&mut self, machine: Name, breakage: Option<Breakage>) {
        let mut claims = Vec::new();
        for (name, state) in &self.checks {
            if state.fleet.contains(machine) {
                let created: Timestamp = after(state.spec.value.created);
                claims.push((
                    *name,
                    Claim {
                        created: Some(created),
                        name: (*name).to_owned(),
                        able: true,
                        requested: state.fleet.is_requested(machine),
                    },
                ));
            }
        }
        let (names, claims): (Vec<Name>, Vec<Claim>) = claims.into_iter().unzip();
        let acts = acting(&claims).and_then(|place| names.get(place).copied());
        for check in self
            .overlaps
            .set(&machine, names.into_iter().collect(), acts)
        {
            self.reconsider(&Item::new(&check, &machine.into()), breakage);
        }
    }

    fn settle(&mut self, name: Name, breakage: Option<Breakage>) {
        let Some(state) = self.checks.get_mut(name) else {
            return;
        };
        for machine in &state.fleet.take().machines {
            self.reconsider(&Item::new(&name, machine), breakage);
        }
    }

    // Whose turn it is.

    fn effect(&self, item: &Item<Name>, breakage: Option<Breakage>) -> Option<Action> {
        let state = self.checks.get(item.check)?;
        let action = state.fleet.wanted(&item.member)?.action?;
        if breakage == Some(Breakage::LimitOfOwnHandovers) && action.hands_over() {
            let own = self.items.creating().count();
            let expected = state.fleet.tally().expected;
            let own = u32::try_from(own + 1).unwrap_or(u32::MAX);
            state.spec.value.limit.allowance(expected, own)?;
        }
        let deletes = matches!(action, Action::DeleteRequest { .. });
        let kept = breakage == Some(Breakage::RecoveredKeepsRequest) && deletes;
        (!kept && !matches!(action, Action::ReportForeignRequest { .. })).then_some(action)
    }

    fn reconsider(&mut self, item: &Item<Name>, breakage: Option<Breakage>) {
        let effect = self.effect(item, breakage);
        let hands_over = effect.as_ref().is_some_and(Action::hands_over);
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        if !hands_over {
            state.handover.withdraw(&item.member);
            self.due_since.remove(item);
            self.cleared.remove(item);
        }
        let wanted = Wanted {
            effect,
            hands_over,
            state: self.items.get(item),
        };
        if let Some(acts) = wanted.queued(false) {
            self.queue.push(item.clone(), acts);
        }
    }

    /// Begins what is due, until nothing is.
    pub fn step(&mut self, api: &Api, breakage: Option<Breakage>) {
        while let Some(item) = self.queue.pop() {
            self.turn(api, item, breakage);
        }
        self.begin_reads(breakage);
    }

    fn turn(&mut self, api: &Api, item: Item<Name>, breakage: Option<Breakage>) {
        let effect = self.effect(&item, breakage);
        let Some(machine) = MACHINES.iter().copied().find(|name| **name == *item.member) else {
            return;
        };
        let yields = self.overlaps.yields(&item.check, &machine);
        let yields = yields && breakage != Some(Breakage::OverlapIgnored);
        let state = self.items.get(&item).cloned();
        let wanted = Wanted {
            hands_over: effect.as_ref().is_some_and(Action::hands_over),
            effect,
            state: state.as_ref(),
        };
        let unread = breakage == Some(Breakage::ViewNotRead);
        let turn = wanted.turn(yields, false, || unread || self.is_cleared(&item));
        match turn {
            Turn::Begin(Action::CreateRequest { .. }) => self.create(api, &item, breakage),
            Turn::Begin(Action::DeleteRequest { .. }) => {
                let template = self.checks.get(item.check).map(|c| c.spec.value.template);
                let name = request_name(machine, template.unwrap_or_default());
                let seen = api.requests.view.get(name);
                let request = seen.map(|stored| (name, stored.uid));
                self.queue.begin(item.clone());
                self.tasks.push(Task::Delete(item, request));
            }
            _ => {}
        }
    }

    fn is_cleared(&mut self, item: &Item<Name>) -> bool {
        let Some(state) = self.checks.get_mut(item.check) else {
            return false;
        };
        let cleared = state.handover.request(&item.member, CLOCK);
        if !cleared {
            self.settling.insert(item.check);
            self.due_since.entry(item.clone()).or_insert(CLOCK);
        }
        cleared
    }

    fn create(&mut self, api: &Api, item: &Item<Name>, breakage: Option<Breakage>) {
        let Some((machine, stored)) = api.machines.view.get_key_value(&*item.member) else {
            return;
        };
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        let since = self.cleared.get(item).cloned();
        self.begun.push((item.clone(), since));
        self.queue.begin(item.clone());
        self.items.set_phase(item, Phase::Creating);
        let request = RequestValue {
            of: (machine, stored.uid),
            maker: (item.check, state.spec.uid),
            template: state.spec.value.template,
            deleting: false,
        };
        let task = Task::Create(item.clone(), request);
        state
            .fleet
            .set_request(&item.member, RequestView::Open, NOW);
        self.tasks.push(task);
        self.settle(item.check, breakage);
    }

    fn begin_reads(&mut self, breakage: Option<Breakage>) {
        let mut next: Option<Duration> = None;
        for name in std::mem::take(&mut self.settling) {
            let Some(state) = self.checks.get_mut(name) else {
                continue;
            };
            let expected = state.fleet.tally().expected;
            let can_close = rules(&state.spec.value, None).can_close(expected);
            let settles = can_close && breakage != Some(Breakage::SettlingSkipped);
            match state.handover.step(settles, CLOCK, &mut self.reads) {
                Step::Idle => {}
                Step::Wait(at) => {
                    next = Some(next.map_or(at, |next| next.min(at)));
                    self.settling.insert(name);
                }
                Step::Read => {
                    // All that are due are of this batch.
                    let due = self.due_since.iter();
                    let due = due.filter(|(item, _)| item.check == name);
                    let first = due.map(|(_, since)| *since).min();
                    self.hasty |= can_close && first.is_some_and(|t| t + SETTLE > CLOCK);
                    self.tasks.push(Task::Read(name, self.reads, None));
                }
            }
        }
        self.settled_at = next;
    }

    // What calls came to.

    /// A live read is over.
    pub fn read_ended(
        &mut self,
        name: Name,
        read: u64,
        result: Result<Since, String>,
        breakage: Option<Breakage>,
    ) {
        let Some(state) = self.checks.get_mut(name) else {
            return;
        };
        let since = result.clone().unwrap_or_default();
        let Some(members) = state.handover.finish(read, result.map(drop), CLOCK) else {
            return;
        };
        self.settling.insert(name);
        for member in members {
            let item = Item::new(&name, &member);
            self.due_since.remove(&item);
            self.cleared.insert(item.clone(), since.clone());
            self.reconsider(&item, breakage);
        }
    }

    /// The creation or deletion of a request is over; `Err`: whether it was answered.
    pub fn acted(
        &mut self,
        api: &Api,
        item: &Item<Name>,
        result: Result<Outcome, ()>,
        breakage: Option<Breakage>,
    ) {
        self.queue.end(item);
        match result {
            Ok(outcome) => {
                self.queue.succeeded(item);
                let template = self.checks.get(item.check).map(|c| c.spec.value.template);
                let machine = MACHINES.iter().copied().find(|name| **name == *item.member);
                let name = machine.zip(template).map(|(m, t)| request_name(m, t));
                let is_seen = name.is_some_and(|name| api.requests.view.contains_key(name));
                if let Some(again) = self.items.effect_ended(item, outcome, is_seen, false) {
                    self.queue.later(item, CLOCK + again);
                }
            }
            Err(()) => {
                self.items.effect_failed(item);
                self.queue.failed(item, CLOCK);
            }
        }
        if !self.checks.contains_key(item.check) {
            self.items.change(item, |state| *state = Default::default());
            return;
        }
        self.request_changed(api, item, breakage);
        self.reconsider(item, breakage);
    }

    /// Retries that are due, and requests that are examined again.
    pub fn fire(&mut self, api: &Api, breakage: Option<Breakage>) {
        for item in self.queue.due(CLOCK) {
            if self.queue.is_running(&item) {
                continue;
            }
            self.items.retry_due(&item);
            self.request_changed(api, &item, breakage);
            self.reconsider(&item, breakage);
        }
        while let Some((at, _, uid)) = self.examine_at.first().copied()
            && at <= CLOCK
        {
            self.examine_at.pop_first();
            self.withdrawing.remove(&uid);
            self.examine_all(api, breakage);
        }
    }

    // Requests whose check does not stand behind them.

    fn examine_all(&mut self, api: &Api, breakage: Option<Breakage>) {
        if breakage == Some(Breakage::OrphansKept) {
            return;
        }
        for (name, stored) in &api.requests.view {
            let known = self.withdrawing.contains(&stored.uid);
            if !known && !stored.value.deleting && api.is_orphan(&stored.value, true, true) {
                self.withdrawing.insert(stored.uid);
                self.tasks.push(Task::Withdraw(name, stored.uid, false));
            }
        }
    }

    /// A withdrawal is over; whether the request was withdrawn.
    pub fn withdrawn(&mut self, name: Name, uid: u8, done: bool) {
        if done {
            self.withdrawing.remove(&uid);
        } else {
            self.examine_at.insert((CLOCK + WITHDRAW_AGAIN, name, uid));
        }
    }

    // Time.

    /// When there is something to do although nothing happens.
    pub fn next_due(&self) -> Option<Duration> {
        let examine = self.examine_at.first().map(|(at, _, _)| *at);
        let all = [self.queue.next_retry(), self.settled_at, examine];
        all.into_iter().flatten().min()
    }

    /// Lets time pass, and numbers the live reads anew.
    #[must_use]
    pub fn shifted(mut self, passed: Duration) -> Self {
        let shift = |t: Duration| t.saturating_sub(passed);
        self.queue = self.queue.map_times(shift);
        self.examine_at = self
            .examine_at
            .into_iter()
            .map(|(at, name, uid)| (shift(at), name, uid))
            .collect();
        self.settled_at = self.settled_at.map(shift);
        for since in self.due_since.values_mut() {
            *since = shift(*since);
        }
        for state in self.checks.values_mut() {
            let handover = std::mem::take(&mut state.handover);
            state.handover = handover.map(shift, |read| read);
        }
        self
    }

    /// The same without what cannot matter any more.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        let reading: Vec<u64> = self
            .tasks
            .iter()
            .filter_map(|task| match task {
                Task::Read(_, read, _) => Some(*read),
                _ => None,
            })
            .collect();
        if reading.is_empty() && self.reads == 0 {
            return self;
        }
        let rank = |read: u64| {
            let place = reading.iter().position(|known| *known == read);
            place.map_or(0, |place| place as u64 + 1)
        };
        for state in self.checks.values_mut() {
            let handover = std::mem::take(&mut state.handover);
            state.handover = handover.map(|t| t, rank);
        }
        for task in &mut self.tasks {
            if let Task::Read(_, read, _) = task {
                *read = rank(*read);
            }
        }
        self.reads = reading.len() as u64;
        self
    }
}
