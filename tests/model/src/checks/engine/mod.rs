//! The health-check engine in the model: what the events of its runtime lead to, around the cores that judge
//! and do its bookkeeping.

mod canonical;
mod dispatch;
mod facts;
mod outcomes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rackhand_core::{
    checks::dispatch::{Item, LiveRead, Members, Overlaps, Window, Withdrawals},
    checks::machines::{Check, Claim, Fleet},
    watches::freshness::Catchup,
};

use super::{
    api::{Name, Stored},
    breakage::Breakage,
    objects::{Api, CheckValue, RemediationValue},
};
use crate::{
    copy_on_write::CopyOnWrite,
    time::{NOW, after},
};
use facts::{cluster, is_selected, node_view, remediation_view, rules, target};

/// What the engine's monotonic clock shows; other times of it are shifted.
pub const CLOCK: Duration = Duration::from_secs(1000);

/// A check that is evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckState {
    /// The check as it was read.
    pub spec: Stored<CheckValue>,
    /// Its machines.
    pub fleet: Fleet<Check>,
}

/// A call that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Task {
    /// Creates the remediation of a machine.
    Create(Item<Name>, RemediationValue),
    /// Deletes the remediation with this name and UID.
    Delete(Item<Name>, Option<(Name, u8)>),
    /// Withdraws the remediation with this name and UID; `true` once live reads have shown that it is orphaned.
    Withdraw(Name, u8, bool),
    /// Reads live what feeds a check, and then waits for the view.
    Read(LiveRead<Name>, Option<Box<Listed>>),
}

/// What a live read has shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Listed {
    /// What the view has yet to reach: checks, machines, Nodes, remediations.
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
    /// Whose turn it is, and what is under way for whom.
    pub members: Members<Name>,
    /// Which of several checks acts.
    pub overlaps: Overlaps<Name>,
    /// Remediations that are being withdrawn.
    pub withdrawals: Withdrawals<u8, (Name, u8)>,
    /// Calls that are under way.
    pub tasks: Vec<Task>,
    /// Since when members wait to be handed over, for the rule of the burst.
    pub due_since: BTreeMap<Item<Name>, Duration>,
    /// Members that were cleared, and what was true since the live read.
    pub cleared: BTreeMap<Item<Name>, Since>,
    /// Remediations that were begun and are judged by the world, and what was true since the live read.
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
            members: Members::with_window(window()),
            overlaps: Overlaps::default(),
            withdrawals: Withdrawals::default(),
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
            self.checks
                .insert(name, CopyOnWrite::from(CheckState { spec, fleet }));
            self.members.begin_check(&name);
            for item in self.members.resume_remediations(&name, CLOCK) {
                self.remediation_changed(api, &item, breakage);
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
        self.members.end_check(&name);
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
            let target = selected.map(|stored| {
                let mut target = target(api, &state.spec.value, machine, stored.uid);
                let item = Item::new(&name, &machine.into());
                target.remediation = self.members.counted(&item, target.remediation);
                target
            });
            if !state.fleet.set_target(machine, target, NOW) {
                continue;
            }
            self.settle(name, breakage);
        }
        self.overlap(machine, breakage);
        self.examine_all(api, breakage);
    }

    /// A Node has come, changed or gone, or is known to be gone.
    pub fn node_changed(&mut self, api: &Api, node: Name, breakage: Option<Breakage>) {
        let is_reading = |task: &Task| matches!(task, Task::Read(..));
        if breakage == Some(Breakage::ChangeMissed) && self.tasks.iter().any(is_reading) {
            return;
        }
        let names: Vec<Name> = self.checks.keys().copied().collect();
        for name in names {
            if let Some(state) = self.checks.get_mut(name) {
                state.fleet.set_node(node, node_view(api, node), NOW);
            }
            self.settle(name, breakage);
        }
    }

    /// The remediations of a machine have changed.
    pub fn remediations_changed(&mut self, api: &Api, machine: Name, breakage: Option<Breakage>) {
        let names: Vec<Name> = self.checks.keys().copied().collect();
        for name in names {
            self.remediation_changed(api, &Item::new(&name, &machine.into()), breakage);
        }
        self.examine_all(api, breakage);
    }

    fn remediation_changed(&mut self, api: &Api, item: &Item<Name>, breakage: Option<Breakage>) {
        let Some(state) = self.checks.get_mut(item.check) else {
            return;
        };
        let Some((machine, stored)) = api.machines.view.get_key_value(&*item.member) else {
            return;
        };
        let remediation = remediation_view(api, &state.spec.value, machine, stored.uid);
        let remediation = self.members.counted(item, remediation);
        state.fleet.set_remediation(machine, remediation, NOW);
        let machine = *machine;
        self.settle(item.check, breakage);
        self.overlap(machine, breakage);
    }

    fn overlap(&mut self, machine: Name, breakage: Option<Breakage>) {
        let checks = &self.checks;
        let claim = |name: &Name| {
            let state = checks.get(name)?;
            state.fleet.contains(machine).then(|| Claim {
                created: Some(after(state.spec.value.created)),
                name: (*name).to_owned(),
                able: true,
                has_remediation: state.fleet.has_remediation(machine),
            })
        };
        let among = checks.keys().copied().collect();
        for check in self.overlaps.update(&machine, &among, claim) {
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
