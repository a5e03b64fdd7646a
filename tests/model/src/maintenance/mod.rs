//! Planned work on one host: the real decision [`rackhand_core::maintenance::decide`], with a remediation that goes its
//! way or fails, a controller that crashes between any two writes, and persons who end it in every way.
//!
//! What the remediation does to the host is the subject of the worlds of remediations; here it is a few stages.
//! Restated here is what carries the decision out.

use stateright::{Model, Property};

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::explore::{Bounds, Report, explore_model};

/// A world to explore.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How many faults may happen.
    pub budget: u8,
    /// The deliberate fault, if any.
    pub breakage: Option<Breakage>,
}

impl Setting {
    /// The world of a breakage.
    pub fn broken(breakage: Breakage) -> Self {
        Self {
            budget: 1,
            breakage: Some(breakage),
        }
    }
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut all = Vec::new();
        for with_end in [false, true] {
            for marked_before in [false, true] {
                all.push(World::new(with_end, marked_before, self.budget));
            }
        }
        all
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.possible());
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.budget -= u8::from(action.is_fault());
        next.act(action, self.breakage);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("F9: nothing is left", |_, w: &World| {
                w.wrong != Some(Wrong::Left)
            }),
            Property::always("F9: what others have set stays", |_, w: &World| {
                w.wrong != Some(Wrong::ForeignTaken)
            }),
            Property::always("it is not begun again", |_, w: &World| {
                w.wrong != Some(Wrong::BegunAgain)
            }),
            Property::always("checks act while it waits", |_, w: &World| {
                w.wrong != Some(Wrong::MarkedTooEarly)
            }),
            Property::always(
                "L1: it ends when it is to end",
                |model: &Self, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::always("nothing begins without its marks", |_, w: &World| {
                w.wrong != Some(Wrong::BegunUnmarked)
            }),
            Property::sometimes("a host is parked with all marks", |_, w: &World| {
                w.is_parked_with_all()
            }),
            Property::sometimes("nothing is left", |_, w: &World| w.is_over()),
        ]
    }
}

/// Explores every order of events within these bounds.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |_, path| {
        let steps = path.iter().filter_map(|(w, action)| Some((w, (*action)?)));
        steps
            .map(|(world, action)| format!("at {} s: {action:?}", world.seconds()))
            .collect()
    })
}
