//! Shared causes: three hosts in two racks under one PowerPolicy that holds remediations of hosts that fail
//! together, with the real decisions [`rackhand_core::fleet::shared_cause::judge`] and
//! [`rackhand_core::limits::power_policy::evaluate`].
//!
//! Hosts fail at any time. The leader sees a failure some time later, judges the failures again and again, and
//! evaluates remediations in any order between. What it judged is in the status of the policy, from which a
//! new leader goes on. Time passes in steps of the settling time. Restated here is what keeps the failures and
//! stores the causes.

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};
use rackhand_core::fleet::shared_cause::OnTimeout;

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "causes";

    fn first(budget: u8) -> Vec<Self> {
        [OnTimeout::Proceed, OnTimeout::Stop]
            .map(|on_timeout| Self::new(on_timeout, budget))
            .into()
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        let is_fault = matches!(
            action,
            Action::Restart | Action::Recover(_) | Action::Approve(_)
        );
        self.budget -= u8::from(is_fault);
        self.act(action, breakage);
    }

    fn is_followed(&self) -> bool {
        self.is_followed()
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
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
            Property::always(
                "L1: each has its turn",
                |model: &Setting<Self>, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("a cause holds", |_, w: &World| w.is_holding()),
            Property::sometimes("two at one time", |_, w: &World| w.begun().count() == 2),
        ]
    }

    fn tell(&self, action: Action, _: Option<Breakage>) -> String {
        format!("at {} s: {action:?}", self.seconds())
    }
}
