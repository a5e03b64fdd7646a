//! Lists of pods that several remediations share: two Nodes, each with one pod, and the real decision
//! [`rackhand_core::watches::shared_list::SharedList`].
//!
//! Pods are bound and leave at any time. The host of each Node is asked about again and again. A list shows the pods as
//! they were when it began, is answered later, or fails, and a caller may give up. Restated here is what runs one list at a
//! time and hands out its answer.

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "lists";

    fn first(budget: u8) -> Vec<Self> {
        vec![Self::new(budget)]
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.act(action, breakage);
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
        vec![
            Property::always("F4: no pod since the question", |_, w: &World| {
                w.wrong != Some(Wrong::Drained)
            }),
            Property::always("F12: a pod since the question", |_, w: &World| {
                w.wrong != Some(Wrong::Bound)
            }),
            Property::always(
                "L1: each question is answered",
                |model: &Setting<Self>, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("one list answers two", |_, w: &World| w.shared),
            Property::sometimes("a Node is drained", |_, w: &World| w.drained),
        ]
    }
}
