//! The signal PowerLost: a rack of three hosts and three Nodes elsewhere, with the real decisions
//! [`rackhand_core::signals::PowerLoss`], [`rackhand_core::signals::RackLosses`] and
//! [`rackhand_core::signals::ClusterLeases`].
//!
//! Power is lost at any time: of one host, of the rack, in the middle of a remediation and of a boot. BMCs restart and
//! report off for a host that runs, a reading is wrong once, a BMC is that of another host, a Lease lags, and the API
//! server stalls. The agent reads, Leases are listed and the controller decides in any order between. Time passes in
//! steps of five seconds. Restated here are the agent, its observations, and what collects the facts of a decision.

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
        // A BMC that is wrong shows nothing while the Lease is renewed.
        let budget = match breakage {
            Breakage::OlderSilence => 0,
            Breakage::LeaseNotSilent
            | Breakage::SwitchedByUs
            | Breakage::ShutDownInOrder
            | Breakage::RackIgnored => 1,
            Breakage::NeverOn
            | Breakage::Interrupted
            | Breakage::ReadOnce
            | Breakage::OthersIgnored
            | Breakage::NeverEnds => 2,
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
        [false, true]
            .map(|has_other_bmc| World::new(has_other_bmc, self.budget))
            .into()
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

    fn within_boundary(&self, world: &World) -> bool {
        world.is_followed()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("PowerLost is of a host that is off", |_, w: &World| {
                w.wrong != Some(Wrong::HostIsOn)
            }),
            Property::always("nobody of ours has switched it", |_, w: &World| {
                w.wrong != Some(Wrong::Switched)
            }),
            Property::always("it is in nobody's hands", |_, w: &World| {
                w.wrong != Some(Wrong::InOrder)
            }),
            Property::always("a rack waits for its judgement", |_, w: &World| {
                w.wrong != Some(Wrong::NotJudged)
            }),
            Property::always("F5: silence was seen", |_, w: &World| {
                w.wrong != Some(Wrong::Silence)
            }),
            Property::always("L1: a loss is said, and ends", |model: &Self, w: &World| {
                w.wrong.is_some() || w.ends(model.breakage)
            }),
            Property::sometimes("PowerLost is said", |_, w: &World| w.is_lost()),
            Property::sometimes("a rack is held", |_, w: &World| w.is_rack_held()),
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
