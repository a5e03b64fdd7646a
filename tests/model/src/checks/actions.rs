//! What can happen next in the worlds of health checks, and what it does to the world.

use rackhand_core::checks::machines::Limit;
use rackhand_core::values::int_or_percent::IntOrPercent;

use super::{
    Setting,
    api::Name,
    engine::{Engine, Task},
    mk_check,
    objects::{Api, CHECKS, MACHINES},
    world::World,
};

/// A fault; each costs one of the budget. Numbers are places in [`MACHINES`] and [`CHECKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Another process takes over; its view shows what that of the former one did.
    Takeover,
    /// Another process takes over, whose watches have shown nothing since the beginning.
    TakeoverBehind,
    /// A call fails before it has an effect.
    Lost,
    /// A call has its effect, and the engine does not learn of it.
    AnswerLost,
    /// A view does not reach what a live read has shown in time.
    ReadFails,
    /// Time passes although calls are under way.
    Delay,
    /// A Node is Ready again by itself.
    Recovered,
    /// A Node is deleted.
    NodeDeleted,
    /// A machine is deleted, and its Node with it.
    MachineDeleted,
    /// A check is deleted.
    CheckDeleted(usize),
    /// A check selects the first machine no more.
    CheckNarrowed(usize),
    /// The limit of a check is lowered to 0.
    LimitZero,
    /// The second check is created, where it did not exist from the beginning.
    CheckCreated,
}

/// All faults.
pub const FAULTS: [Fault; 15] = [
    Fault::Takeover,
    Fault::TakeoverBehind,
    Fault::Lost,
    Fault::AnswerLost,
    Fault::ReadFails,
    Fault::Delay,
    Fault::Recovered,
    Fault::NodeDeleted,
    Fault::MachineDeleted,
    Fault::CheckDeleted(0),
    Fault::CheckDeleted(1),
    Fault::CheckNarrowed(0),
    Fault::CheckNarrowed(1),
    Fault::LimitZero,
    Fault::CheckCreated,
];

/// A kind that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Watch {
    /// Health checks.
    Checks,
    /// Machines.
    Machines,
    /// Nodes.
    Nodes,
    /// Remediations, by a watch of their own.
    Remediations,
}

/// Everything that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A watch shows its next change.
    Deliver(Watch),
    /// A call of the engine is served and answered.
    Call(usize),
    /// The remediation of a machine succeeds: its Node is Ready again.
    Heal(usize),
    /// A remediation that is deleted is gone, because its remediator has ended.
    Gone(Name),
    /// A live read confirms that a Node is gone.
    ConfirmAbsent(usize),
    /// A Node fails.
    Fail(usize),
    /// Nothing else is due, and time passes until something is.
    Time,
    /// Something goes wrong, with the call or the machine in this place.
    Fault(Fault, usize),
}

impl Setting {
    /// What happens by itself, sooner or later.
    pub(super) fn ordinary(w: &World) -> Vec<Action> {
        let mut all = Vec::new();
        for (place, task) in w.engine.tasks.iter().enumerate() {
            if !matches!(task, Task::Read(_, Some(_))) {
                all.push(Action::Call(place));
            }
        }
        let api = &w.api;
        let pending = [
            (Watch::Checks, api.checks.is_settled()),
            (Watch::Machines, api.machines.is_settled()),
            (Watch::Nodes, api.nodes.is_settled()),
            (Watch::Remediations, api.remediations.is_settled()),
        ];
        let pending = pending.into_iter().filter(|(_, settled)| !settled);
        all.extend(pending.map(|(watch, _)| Action::Deliver(watch)));
        for (name, stored) in &api.remediations.objects {
            let (machine, uid) = stored.value.of;
            let known = api.machines.objects.get(machine);
            let orphan = known.is_none_or(|known| known.uid != uid);
            if stored.value.deleting || orphan {
                all.push(Action::Gone(name));
            } else if api.is_unhealthy(machine) {
                let place = MACHINES.iter().position(|name| *name == machine);
                all.extend(place.map(Action::Heal));
            }
        }
        for (place, name) in MACHINES.into_iter().enumerate() {
            let gone = !api.nodes.objects.contains_key(name);
            let unseen = gone && api.nodes.seen(name).is_none();
            if unseen && api.machines.seen(name).is_some() && !api.absent.contains(name) {
                all.push(Action::ConfirmAbsent(place));
            }
        }
        if w.engine.tasks.is_empty() && w.engine.next_due().is_some() {
            all.push(Action::Time);
        }
        all
    }

    /// Nodes that can fail by themselves.
    pub(super) fn failures(w: &World) -> impl Iterator<Item = Action> + '_ {
        let able = MACHINES.into_iter().enumerate().filter(|_| w.failures > 0);
        let ready = able.filter(|(_, name)| w.api.nodes.get(name) == Some(&true));
        ready.map(|(place, _)| Action::Fail(place))
    }

    /// Where this fault can happen now.
    pub(super) fn possible(w: &World, fault: Fault, all: &mut Vec<Action>) {
        let calls = || {
            let tasks = w.engine.tasks.iter().enumerate();
            let open = tasks.filter(|(_, task)| !matches!(task, Task::Read(_, Some(_))));
            open.map(|(place, _)| place)
        };
        let machines = |fits: &dyn Fn(Name) -> bool| -> Vec<usize> {
            let named = MACHINES.into_iter().enumerate();
            named
                .filter(|(_, name)| fits(name))
                .map(|(i, _)| i)
                .collect()
        };
        let once = |possible: bool| if possible { vec![0] } else { Vec::new() };
        let check = |place: usize| w.api.checks.get(CHECKS[place]);
        let places: Vec<usize> = match fault {
            Fault::Takeover | Fault::TakeoverBehind => once(true),
            Fault::Lost => calls().collect(),
            Fault::AnswerLost => {
                let writes = |place: &usize| {
                    matches!(
                        w.engine.tasks[*place],
                        Task::Create(..) | Task::Delete(..) | Task::Withdraw(_, _, true)
                    )
                };
                calls().filter(writes).collect()
            }
            Fault::ReadFails => {
                let tasks = w.engine.tasks.iter().enumerate();
                let read = tasks.filter(|(_, task)| matches!(task, Task::Read(_, Some(_))));
                read.map(|(place, _)| place).collect()
            }
            Fault::Delay => once(!w.engine.tasks.is_empty() && w.engine.next_due().is_some()),
            Fault::Recovered => machines(&|name| w.api.nodes.get(name) == Some(&false)),
            Fault::NodeDeleted => machines(&|name| w.api.nodes.get(name).is_some()),
            Fault::MachineDeleted => machines(&|name| w.api.machines.get(name).is_some()),
            Fault::CheckDeleted(place) => once(check(place).is_some()),
            Fault::CheckNarrowed(place) => once(check(place).is_some_and(|c| !c.narrowed)),
            Fault::LimitZero => once(check(0).is_some()),
            Fault::CheckCreated => once(check(1).is_none()),
        };
        all.extend(places.into_iter().map(|place| Action::Fault(fault, place)));
    }

    /// The world after an action.
    pub fn next(&self, w: &World, action: Action) -> World {
        let mut next = w.clone();
        let breakage = self.breakage;
        match action {
            Action::Call(place) => next.call(place, true, breakage),
            Action::Deliver(watch) => next.deliver(watch, breakage),
            Action::Heal(place) => {
                let version = &mut next.api.version;
                next.api.nodes.put(MACHINES[place], true, version);
            }
            Action::Gone(name) => next.api.remediations.remove(name, &mut next.api.version),
            Action::ConfirmAbsent(place) => {
                next.api.absent.insert(MACHINES[place]);
                next.engine
                    .node_changed(&next.api, MACHINES[place], breakage);
            }
            Action::Fail(place) => {
                next.failures = next.failures.saturating_sub(1);
                let version = &mut next.api.version;
                next.api.nodes.put(MACHINES[place], false, version);
            }
            Action::Time => next.pass(breakage),
            Action::Fault(fault, place) => {
                next.budget = next.budget.saturating_sub(1);
                self.fails(&mut next, fault, place);
            }
        }
        next.settle(breakage);
        next.note();
        next.canonical();
        if next.wrong.is_none() && Self::ordinary(&next).is_empty() {
            next.judge_settled();
        }
        next
    }

    fn fails(&self, w: &mut World, fault: Fault, place: usize) {
        let breakage = self.breakage;
        let api = &mut w.api;
        match fault {
            Fault::Takeover => {
                api.absent.clear();
                w.engine = Engine::new(api, breakage);
            }
            Fault::TakeoverBehind => {
                let older = Api::new(&self.checks);
                let version = &mut api.version;
                api.checks.fall_back(&older.checks, version);
                api.machines.fall_back(&older.machines, version);
                api.nodes.fall_back(&older.nodes, version);
                api.remediations.fall_back(&older.remediations, version);
                api.absent.clear();
                w.engine = Engine::new(api, breakage);
            }
            Fault::Lost => w.lose(place, breakage),
            Fault::AnswerLost => w.call(place, false, breakage),
            Fault::ReadFails => {
                if let Task::Read(read, _) = w.engine.tasks.remove(place) {
                    let why = Err("a watch is behind".to_owned());
                    w.engine.read_ended(read, why, breakage);
                }
            }
            Fault::Delay => w.pass(breakage),
            Fault::Recovered => api.nodes.put(MACHINES[place], true, &mut api.version),
            Fault::NodeDeleted => api.nodes.remove(MACHINES[place], &mut api.version),
            Fault::MachineDeleted => {
                w.shrunk = true;
                api.machines.remove(MACHINES[place], &mut api.version);
                api.nodes.remove(MACHINES[place], &mut api.version);
            }
            Fault::CheckDeleted(check) => api.checks.remove(CHECKS[check], &mut api.version),
            Fault::CheckNarrowed(check) => {
                w.shrunk = true;
                if let Some(mut value) = api.checks.get(CHECKS[check]).cloned() {
                    value.narrowed = true;
                    api.checks.put(CHECKS[check], value, &mut api.version);
                }
            }
            Fault::LimitZero => {
                w.shrunk = true;
                if let Some(mut value) = api.checks.get(CHECKS[0]).cloned() {
                    value.limit = Limit::AtMost(IntOrPercent::Int(0));
                    api.checks.put(CHECKS[0], value, &mut api.version);
                }
            }
            Fault::CheckCreated => {
                let value = mk_check(1, 0);
                api.checks.put(CHECKS[1], value, &mut api.version);
            }
        }
    }
}
