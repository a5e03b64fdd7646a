//! The signal PowerLost: a rack of three hosts and three Nodes elsewhere, with the real decisions
//! [`rackhand_core::signals::PowerLoss`], [`rackhand_core::signals::RackLosses`] and
//! [`rackhand_core::signals::ClusterLeases`].
//!
//! Power is lost at any time: of one host, of the rack, in the middle of a remediation and of a boot. BMCs restart and
//! report off for a host that runs, a reading is wrong once, a BMC is that of another host, a Lease lags, and the API
//! server stalls. The agent reads, Leases are listed and the controller decides in any order between. Time passes in
//! steps of five seconds. Restated here are the agent, its observations, and what collects the facts of a decision.

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "signals";

    fn first(budget: u8) -> Vec<Self> {
        [false, true]
            .map(|has_other_bmc| Self::new(has_other_bmc, budget))
            .into()
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.budget -= u8::from(action.is_fault());
        self.act(action, breakage);
    }

    fn is_followed(&self) -> bool {
        self.is_followed()
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
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
            Property::always(
                "L1: a loss is said, and ends",
                |model: &Setting<Self>, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("PowerLost is said", |_, w: &World| w.is_lost()),
            Property::sometimes("a rack is held", |_, w: &World| w.is_rack_held()),
        ]
    }

    fn tell(&self, action: Action, _: Option<Breakage>) -> String {
        format!("at {} s: {action:?}", self.seconds())
    }
}
