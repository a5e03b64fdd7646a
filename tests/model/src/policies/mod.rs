//! Power policies: three remediations under one PowerPolicy, with the real decisions
//! [`rackhand_core::limits::concurrency::check_concurrency`] and [`rackhand_core::limits::power_policy::evaluate`], and leaders
//! that follow one another.
//!
//! The first two hosts are in one rack. The policy permits one remediation at a time in a rack, and two in all. At any
//! time a person adds another policy, which requires approval for hosts with a label, and sets that label on the first
//! host; watches show both late.
//! A remediation has begun once that is written; the write is sent after the decision and arrives later, possibly
//! under the next leader, unless the object has changed. Restated here is what a new leader and the engine do
//! around the decisions: the leader lists the remediations and claims those that have not begun before it
//! decides; the engine decides about one remediation at a time, keeps the result before the next one, and counts
//! what an earlier leader has begun.

use stateright::{Model, Property};

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, Hold, Process, Stage, World};

use crate::explore::{Bounds, Report, explore_model};
use world::COUNT;

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
        let budget = match breakage {
            Breakage::ResultNotKept | Breakage::PolicyNotRead | Breakage::LabelNotRead => 0,
            _ => 1,
        };
        Self {
            budget,
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
        let is_fault = matches!(
            action,
            Action::Lose(_) | Action::LoseAnswer(_) | Action::Restart | Action::Takeover
        );
        next.budget -= u8::from(is_fault);
        next.act(action, self.breakage);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a budget is not exceeded", |_, w: &World| {
                w.is_within_budget()
            }),
            Property::always("F13: none begins that a policy holds", |_, w: &World| {
                !w.begins_held
            }),
            Property::always("L1: each has its turn", |model: &Self, w: &World| {
                !w.is_within_budget() || w.ends(model.breakage)
            }),
            Property::sometimes("two at one time", |_, w: &World| w.begun().count() == 2),
            Property::sometimes("all end", |_, w: &World| w.objects == [Stage::Gone; COUNT]),
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
