//! Labels that make remediations: every order of events about one Node, with the real decisions
//! [`rackhand_core::triggers::decide`], [`rackhand_core::triggers::decide_orphan`] and
//! [`rackhand_core::triggers::acting`].
//!
//! Persons put labels on the Node and take them away; the remediation goes its way or fails; watches lag; the Node is
//! replaced under its name, must be left alone for a while, and a trigger is deleted. In some runs two triggers are about
//! the Node. Restated here is what carries a decision out: the live reads and preconditions of
//! `controller/runtime/src/planned_work/triggers/act.rs`. Left out are a controller that crashes between the end of a
//! remediation that a person has deleted and the answer to its label, and a remediation that begins between the record of
//! its withdrawal and its deletion.

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "triggers";

    fn first(budget: u8) -> Vec<Self> {
        vec![Self::new(1, budget), Self::new(2, budget)]
    }

    fn possible(&self) -> Vec<Action> {
        self.all_possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.acts(action, breakage);
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
        vec![
            Property::always("one remediation for one label", |_, w: &Self| {
                !w.is(Wrong::Two)
            }),
            Property::always("one label, one cycle", |_, w: &Self| {
                !w.is(Wrong::SwitchedAgain)
            }),
            Property::always("F12: made only for a label that is there", |_, w: &Self| {
                !w.is(Wrong::NoLabel)
            }),
            Property::always("none within the cooldown", |_, w: &Self| {
                !w.is(Wrong::Cooldown)
            }),
            Property::always("a label goes only once the Node is back", |_, w: &Self| {
                !w.is(Wrong::NotBack)
            }),
            Property::always("one trigger acts on a Node", |_, w: &Self| {
                !w.is(Wrong::TwoAct)
            }),
            Property::always("a Node is left alone", |_, w: &Self| {
                !w.is(Wrong::NotLeftAlone)
            }),
            Property::always(
                "no label waits without a reason",
                |model: &Setting<Self>, w: &Self| {
                    w.wrong.is_some() || w.has_reasons(model.breakage)
                },
            ),
            Property::always(
                "L1: labels are answered",
                |model: &Setting<Self>, w: &Self| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("a label is answered", |_, w: &Self| w.is_answered()),
        ]
    }

    fn tell(&self, action: Action, _: Option<Breakage>) -> String {
        format!("at minute {}: {action:?}", self.now)
    }
}
