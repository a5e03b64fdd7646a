//! States that are displayed, and by whom: one host with a hold key, the remediation object, and somebody who may write
//! its annotations, its finalizers and the hold keys of its host; with the real
//! [`rackhand_core::remediation::step`].
//!
//! Only Rackhand writes the record of a state (`World::record`). Everything else can be replaced at any time: the copy
//! in the object by an older one, by that of another object, or by a forged one; and the object can be moved, by which it
//! has another UID and no record, while hold key, taint and copy stay. A controller that starts takes the record for
//! absent if neither the object nor its watch shows one, and its first write tells ([`rackhand_core::remediation::Shell`]).
//! Commands have their effect at once and nothing
//! else fails: other worlds are about that.

use stateright::Property;

mod breakage;
mod observation;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "copies";

    fn first(budget: u8) -> Vec<Self> {
        vec![Self::new(budget)]
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.act(action, breakage);
    }

    fn is_followed(&self) -> bool {
        self.is_followed()
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
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
            Property::sometimes(
                "a moved remediation ends",
                |model: &Setting<Self>, w: &World| {
                    let needs_move = model.budget == 0 || model.breakage.is_some();
                    needs_move || w.is_over(2)
                },
            ),
        ]
    }

    fn tell(&self, action: Action, breakage: Option<Breakage>) -> String {
        self.tell(action, breakage)
    }
}
