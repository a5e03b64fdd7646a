//! States that are displayed, and by whom: one host with a hold key, the remediation object, and somebody who may write
//! its annotations, its finalizers and the hold keys of its host; with the real
//! [`rackhand_core::remediation::step`].
//!
//! Only Rackhand writes the record of a state (`World::record`). Everything else can be replaced at any time: the copy
//! in the object by an older one, by that of another object, or by a forged one; and the object can be moved, by which it
//! has another UID and no record, while hold key, taint and copy stay. Commands have their effect at once and nothing
//! else fails: other worlds are about that.

use stateright::{Model, Property};

mod breakage;
mod observation;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::explore::{Bounds, Report, explore_model};

/// A world to explore.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How often somebody may write, or the object may be moved.
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
        vec![World::new(self.budget)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.possible());
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.act(action, self.breakage);
        (next != *world).then_some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.is_followed()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no pod runs on two hosts", |_, w: &World| !w.runs_twice()),
            Property::always("F1: taint only while confirmed off", |_, w: &World| {
                w.wrong != Some(Wrong::Taint)
            }),
            Property::always("F4: on only after the drain", |_, w: &World| {
                w.wrong != Some(Wrong::EarlyOn)
            }),
            Property::always("F13: nothing that a policy holds", |_, w: &World| {
                w.wrong != Some(Wrong::NotPermitted)
            }),
            Property::always("F15: one cycle for one remediation", |_, w: &World| {
                w.wrong != Some(Wrong::Again)
            }),
            Property::always("F15: on only by who confirmed off", |_, w: &World| {
                w.wrong != Some(Wrong::Unproven)
            }),
            Property::sometimes("a remediation ends", |_, w: &World| w.is_over(1)),
            Property::sometimes("a moved remediation ends", |model: &Self, w: &World| {
                let needs_move = model.budget == 0 || model.breakage.is_some();
                needs_move || w.is_over(2)
            }),
        ]
    }
}

/// Explores every order of events within these bounds.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, path| {
        let steps = path.iter().filter_map(|(w, action)| Some((w, (*action)?)));
        steps
            .map(|(world, action)| world.tell(action, model.breakage))
            .collect()
    })
}
