//! Shared causes: three hosts in two racks under one PowerPolicy that holds remediations of hosts that fail
//! together, with the real decisions [`rackhand_core::fleet::shared_cause::judge`] and
//! [`rackhand_core::limits::power_policy::evaluate`].
//!
//! Hosts fail at any time. The leader sees a failure some time later, judges the failures again and again, and
//! evaluates remediations in any order between. What it judged is in the status of the policy, from which a
//! new leader goes on. Time passes in steps of the settling time. Restated here is what keeps the failures and
//! stores the causes.

use stateright::{Model, Property};

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::explore::{Bounds, Report, explore_model};
use rackhand_core::fleet::shared_cause::OnTimeout;

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
            budget: u8::from(breakage == Breakage::CausesForgotten),
            breakage: Some(breakage),
        }
    }
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        [OnTimeout::Proceed, OnTimeout::Stop]
            .map(|on_timeout| World::new(on_timeout, self.budget))
            .into()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(world.possible());
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let is_fault = matches!(
            action,
            Action::Restart | Action::Recover(_) | Action::Approve(_)
        );
        next.budget -= u8::from(is_fault);
        next.act(action, self.breakage);
        (next != *world).then_some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.is_followed()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a budget is not exceeded", |_, w: &World| {
                w.wrong != Some(Wrong::Budget)
            }),
            Property::always("a failure settles first", |_, w: &World| {
                w.wrong != Some(Wrong::NotSettled)
            }),
            Property::always("a shared cause holds", |_, w: &World| {
                w.wrong != Some(Wrong::NotHeld)
            }),
            Property::always("L1: a hold has an end", |_, w: &World| {
                w.wrong != Some(Wrong::Endless)
            }),
            Property::always("L1: each has its turn", |model: &Self, w: &World| {
                w.wrong.is_some() || w.ends(model.breakage)
            }),
            Property::sometimes("a cause holds", |_, w: &World| w.is_holding()),
            Property::sometimes("two at one time", |_, w: &World| w.begun().count() == 2),
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
