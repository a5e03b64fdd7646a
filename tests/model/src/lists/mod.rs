//! Lists of pods that several remediations share: two Nodes, each with one pod, and the real decision
//! [`rackhand_core::watches::shared_list::SharedList`].
//!
//! Pods are bound and leave at any time. The host of each Node is asked about again and again. A list shows the pods as
//! they were when it began, is answered later, or fails, and a caller may give up. Restated here is what runs one list at a
//! time and hands out its answer.

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
            budget: u8::from(breakage == Breakage::FailedIsEmpty),
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

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("F4: no pod since the question", |_, w: &World| {
                w.wrong != Some(Wrong::Drained)
            }),
            Property::always("F12: a pod since the question", |_, w: &World| {
                w.wrong != Some(Wrong::Bound)
            }),
            Property::always(
                "L1: each question is answered",
                |model: &Self, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("one list answers two", |_, w: &World| w.shared),
            Property::sometimes("a Node is drained", |_, w: &World| w.drained),
        ]
    }
}

/// Explores every order of events within these bounds.
pub fn explore(setting: Setting, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |_, path| {
        let actions = path.iter().filter_map(|(_, action)| *action);
        actions.map(|action| format!("{action:?}")).collect()
    })
}
