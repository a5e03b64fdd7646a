//! The health-check engine in the model: what the events of its runtime lead to, around the cores that judge
//! and keep its books.

mod canonical;
mod dispatch;
mod facts;
mod outcomes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use rackhand_core::{
    checks::dispatch::{HandoverState, Item, Items, Overlaps, Phase, Queue, SEE_AGAIN, Window},
    checks::machines::{Check, Claim, Fleet, acting},
    watches::freshness::Catchup,
};

use super::{
    api::{Name, Stored},
    breakage::Breakage,
    objects::{Api, CheckValue, RequestValue},
};
use crate::{
    copy_on_write::CopyOnWrite,
    time::{NOW, after},
};
use facts::{cluster, is_selected, node_view, request_view, rules, target};

/// What the engine's monotonic clock shows; other times of it are shifted.
pub const CLOCK: Duration = Duration::from_secs(1000);

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
}
