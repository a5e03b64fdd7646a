//! The rack for stateright: its rules, and what a run of the checker found.

use stateright::{Model, Property};

use super::{
    actions::{Action, FAULTS, Fault},
    breakage::Breakage,
    world::{Manual, Rack, Step, Wrong},
};
use crate::check::{Bounds, Report, explore_model};

/// Tries of the operations of a remediation that are followed.
const TRIES: u8 = 4;
/// Calls of one controller at one agent that are followed.
const CALLS: u64 = 8;
/// Actions after the last fault within which the remediation must have ended.
const BOUND: usize = 200;

/// The faults of a rack with more than one.
const FEW: [Fault; 1] = [Fault::Late];

/// A rack to explore.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name of the world, as it is printed.
    pub name: &'static str,
    /// Which faults may happen.
    pub faults: Vec<Fault>,
    /// What the operator may ask for; one of it in a run.
    pub operator: Vec<Manual>,
    /// How many faults may happen.
    pub budget: u8,
    /// What is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Setting {
    /// Controllers alone. With one fault everything may fail; with more, calls are late: everything
    /// would take hours.
    pub fn rack(budget: u8) -> Self {
        let all = budget <= 1;
        Self {
            name: "rack",
            faults: if all { FAULTS.to_vec() } else { FEW.to_vec() },
            operator: Vec::new(),
            budget,
            breakage: None,
        }
    }

    /// An operator acts beside them, and an agent or its disk fails.
    pub fn operator(budget: u8) -> Self {
        Self {
            name: "operator",
            faults: vec![Fault::Crash, Fault::Full, Fault::JournalLost],
            operator: vec![Manual::On, Manual::ForcedOn, Manual::ForcedReset],
            ..Self::rack(budget)
        }
    }
}

/// Heals all faults and runs on, always with the first thing that can be done. Returns the actions, and
/// whether the remediation has ended.
fn run_on(rack: &Rack, breakage: Option<Breakage>) -> (Vec<(Rack, Option<Action>)>, bool) {
    let mut rack = rack.clone();
    (rack.budget, rack.operator) = (0, Vec::new());
    rack.wrong = None;
    let mut path = Vec::new();
    for _ in 0..BOUND {
        let enabled = rack.enabled(&[], breakage);
        if rack.is_over() || rack.wrong.is_some() {
            return (path, true);
        }
        let Some(action) = enabled.into_iter().max_by_key(|action| urgency(*action)) else {
            return (path, false);
        };
        let next = rack.next(action, breakage);
        path.push((rack, Some(action)));
        rack = next;
    }
    (path, rack.is_over())
}

/// What happens first where nothing fails any more.
fn urgency(action: Action) -> u8 {
    match action {
        Action::Start(_) | Action::Reopen(_) | Action::Write(_) => 5,
        Action::Arrive(_) | Action::Admit(..) => 4,
        Action::Act(..) => 3,
        Action::Probe(_) => 2,
        Action::Lead => 1,
        Action::Expire | Action::Copy | Action::Ask(_) | Action::Fault(..) => 0,
    }
}

fn is(rack: &Rack, wrong: Wrong) -> bool {
    rack.wrong == Some(wrong)
}

impl Model for Setting {
    type State = Rack;
    type Action = Action;

    fn init_states(&self) -> Vec<Rack> {
        vec![Rack::new(self.operator.clone(), self.budget)]
    }

    fn actions(&self, rack: &Rack, actions: &mut Vec<Action>) {
        actions.extend(rack.enabled(&self.faults, self.breakage));
    }

    fn next_state(&self, rack: &Rack, action: Action) -> Option<Rack> {
        let mut next = rack.next(action, self.breakage);
        let checked = matches!(action, Action::Fault(..) | Action::Expire);
        if checked && !run_on(&next, self.breakage).1 {
            next.broken(Wrong::NoEnd);
        }
        (next != *rack).then_some(next)
    }

    fn within_boundary(&self, rack: &Rack) -> bool {
        rack.store.operation <= TRIES && rack.leader.sequences.iter().all(|calls| *calls <= CALLS)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("F7: no older term", |_, r: &Rack| !is(r, Wrong::Term)),
            Property::always("F7: no older sequence", |_, r: &Rack| {
                !is(r, Wrong::Sequence)
            }),
            Property::always("F6: one operation at a time", |_, r: &Rack| {
                !is(r, Wrong::TwoOperations)
            }),
            Property::always("F6: one agent at a time", |_, r: &Rack| {
                !is(r, Wrong::TwoAgents)
            }),
            Property::always("F6: no command of an earlier try", |_, r: &Rack| {
                !is(r, Wrong::Stale)
            }),
            Property::always("no power-on of a held host", |_, r: &Rack| {
                !is(r, Wrong::Held)
            }),
            Property::always("answered only when written", |_, r: &Rack| {
                !is(r, Wrong::Unwritten)
            }),
            Property::always("nothing is begun twice", |_, r: &Rack| {
                !is(r, Wrong::Repeated)
            }),
            Property::always("L1: it ends", |_, r: &Rack| !is(r, Wrong::NoEnd)),
            Property::sometimes("a remediation ends", |_, r: &Rack| {
                r.store.step == Step::Done && r.is_over()
            }),
            Property::sometimes("both agents serve", |_, r: &Rack| {
                r.agents
                    .iter()
                    .all(|agent| !agent.history.started.is_empty())
            }),
        ]
    }
}

/// Explores a rack. With a breakage it ends at the first rule that is broken.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, mut path| {
        if let Some((last, _)) = path.last()
            && is(last, Wrong::NoEnd)
        {
            let rest = run_on(last, model.breakage).0;
            path.extend(rest);
        }
        super::story::tell(&path)
    })
}
