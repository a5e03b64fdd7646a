//! The rack for stateright: its rules, and what a run of the checker found.

use std::sync::Arc;

use stateright::{Model, Property};

use super::{
    actions::{Action, FAULTS, Fault},
    breakage::Breakage,
    world::{Manual, Rack, Step, Wrong},
};
use crate::{
    explore::{Bounds, Report, explore_model},
    remediation::liveness::{self, Ends, Next},
};

/// Tries of the operations of a remediation that are followed.
const TRIES: u8 = 4;
/// Actions after the last fault within which the remediation must have ended.
const BOUND: usize = 200;

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
    /// Racks that are known to end.
    pub ends: Arc<Ends>,
}

impl Setting {
    /// The world without an operator.
    pub fn rack(budget: u8) -> Self {
        Self {
            name: "rack",
            faults: FAULTS.to_vec(),
            operator: Vec::new(),
            budget,
            breakage: None,
            ends: Arc::default(),
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

    /// An operator switches off beside them; the process of the operator dies, or an agent does.
    pub fn caller(budget: u8) -> Self {
        Self {
            name: "caller",
            faults: vec![Fault::CallerGone, Fault::Crash],
            operator: vec![Manual::Off, Manual::Cycle],
            ..Self::rack(budget)
        }
    }
}

impl Setting {
    /// L1: whether a rack ends once nothing fails any more.
    fn ends(&self, rack: &Rack) -> bool {
        let next_of = |rack: &Rack| next_of_healed(rack, self.breakage);
        self.ends.is_reached(healed(rack), BOUND, next_of)
    }
}

/// The rack without any more faults.
fn healed(rack: &Rack) -> Rack {
    let mut rack = rack.clone();
    (rack.budget, rack.operator, rack.wrong) = (0, Vec::new(), None);
    rack
}

/// What happens next in a healed rack: always the first thing that can be done.
fn next_of_healed(rack: &Rack, breakage: Option<Breakage>) -> Next<Rack, Action> {
    // A rule that is broken on the way is found by its own property.
    if rack.is_over() || rack.wrong.is_some() {
        return Next::Ended;
    }
    let enabled = rack.enabled(&[], breakage).into_iter();
    match enabled.max_by_key(|action| urgency(*action)) {
        Some(action) => Next::Does(action, rack.next(action, breakage)),
        None => Next::Stuck,
    }
}

/// What happens first where nothing fails any more.
fn urgency(action: Action) -> u8 {
    match action {
        Action::Start(_) | Action::Reopen(_) | Action::Write(_) => 5,
        Action::Arrive(_) | Action::Accept(..) => 4,
        Action::Act(..) => 3,
        Action::Probe(_) => 2,
        Action::Lead => 1,
        Action::Expire | Action::Copy(_) | Action::Ask(_) | Action::Fault(..) => 0,
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
        let next = rack.next(action, self.breakage);
        (next != *rack).then_some(next)
    }

    fn within_boundary(&self, rack: &Rack) -> bool {
        rack.store.operation <= TRIES
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
            Property::always("F17: no off without its caller", |_, r: &Rack| {
                !is(r, Wrong::CallerGone)
            }),
            Property::always("L1: it ends", |model: &Self, r: &Rack| {
                r.wrong.is_some() || model.ends(r)
            }),
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
            && last.wrong.is_none()
        {
            let next_of = |rack: &Rack| next_of_healed(rack, model.breakage);
            path.extend(liveness::path(healed(last), BOUND, next_of));
        }
        super::story::tell(&path)
    })
}
