//! Lists that several remediations share, of pods, of Nodes with their Leases, or of the Nodes that a label selects: two
//! Nodes, and the real decisions [`rackhand_core::watches::shared_list::SharedList`],
//! [`rackhand_core::watches::shared_list::Answers`] and [`rackhand_core::watches::named_list::Extent`].
//!
//! Pods are bound and leave at any time; Nodes are deleted and register, their Leases are renewed, and they are given the
//! label of each other. Each Node is asked about again and again. A list has a page for each of them, all as they were when it began, which arrive later, or fail,
//! and a caller may give up. Restated here is what runs one list at a time and hands out its answers.

use stateright::Property;

mod breakage;
mod world;

pub use breakage::Breakage;
pub use world::{Action, Subject, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "lists";

    fn first(budget: u8) -> Vec<Self> {
        let subjects = [Subject::Pods, Subject::Nodes, Subject::Named];
        subjects.map(|of| Self::new(of, budget)).into()
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.act(action, breakage);
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
        vec![
            Property::always(
                "F4, F12: a moment since the question without a pod, or without the Node",
                |_, w: &World| w.wrong != Some(Wrong::Absent),
            ),
            Property::always(
                "F12: a moment since the question with it",
                |_, w: &World| w.wrong != Some(Wrong::There),
            ),
            Property::always(
                "F5: every renewal until the question is seen",
                |_, w: &World| w.wrong != Some(Wrong::NotRenewed),
            ),
            Property::always(
                "L1: each question is answered",
                |model: &Setting<Self>, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::sometimes("one list answers two", |_, w: &World| w.shared),
            Property::sometimes("a Node is drained", |_, w: &World| {
                w.of == Subject::Pods && w.absent
            }),
            Property::sometimes("a Node is absent by a list", |_, w: &World| {
                w.of == Subject::Nodes && w.absent
            }),
            Property::sometimes(
                "a Node that a label does not select is read",
                |_, w: &World| w.of == Subject::Named && w.unselected,
            ),
        ]
    }
}
