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

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, Hold, Process, Stage, World};

use crate::small::{Setting, Small};
use world::COUNT;

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "policies";

    fn first(budget: u8) -> Vec<Self> {
        vec![Self::new(budget)]
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        let is_fault = matches!(
            action,
            Action::Lose(_) | Action::LoseAnswer(_) | Action::Restart | Action::Takeover
        );
        self.budget -= u8::from(is_fault);
        self.act(action, breakage);
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
        vec![
            Property::always("a budget is not exceeded", |_, w: &World| {
                w.is_within_budget()
            }),
            Property::always("F13: none begins that a policy holds", |_, w: &World| {
                !w.begins_held
            }),
            Property::always(
                "L1: each has its turn",
                |model: &Setting<Self>, w: &World| !w.is_within_budget() || w.ends(model.breakage),
            ),
            Property::sometimes("two at one time", |_, w: &World| w.begun().count() == 2),
            Property::sometimes("all end", |_, w: &World| w.objects == [Stage::Gone; COUNT]),
        ]
    }
}
