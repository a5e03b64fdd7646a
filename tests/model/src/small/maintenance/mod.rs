//! Planned work on one host: the real decision [`rackhand_core::maintenance::decide`], with a remediation that goes its
//! way or fails, a controller that crashes between any two writes, an API server that refuses that marks are taken back,
//! and persons who end it in every way.
//!
//! In two of its worlds there are two maintenances of the host, which name it differently: who goes first is decided by
//! [`rackhand_core::maintenance::earlier`]. What the remediation does to the host is the subject of the worlds of remediations; here it is a few stages.
//! Restated here is what carries the decision out.

use stateright::Property;

mod breakage;
mod side;
mod world;

pub use breakage::Breakage;
pub use world::{Action, World, Wrong};

use crate::small::{Setting, Small};

impl Small for World {
    type Action = Action;
    type Breakage = Breakage;
    const NAME: &'static str = "maintenance";

    fn first(budget: u8) -> Vec<Self> {
        let mut all = Vec::new();
        for with_end in [false, true] {
            for marked_before in [false, true] {
                all.push(Self::new(with_end, marked_before, budget));
            }
        }
        for (marked_before, leases) in [(true, false), (false, true), (false, false)] {
            all.push(Self::two(marked_before, leases, budget));
        }
        all
    }

    fn possible(&self) -> Vec<Action> {
        self.possible()
    }

    fn act(&mut self, action: Action, breakage: Option<Breakage>) {
        self.budget -= u8::from(action.is_fault());
        self.act(action, breakage);
    }

    fn rules() -> Vec<Property<Setting<Self>>> {
        vec![
            Property::always("F9: nothing is left", |_, w: &World| {
                w.wrong != Some(Wrong::Left)
            }),
            Property::always("F9: what others have set stays", |_, w: &World| {
                w.wrong != Some(Wrong::ForeignTaken)
            }),
            Property::always("it is not begun again", |_, w: &World| {
                w.wrong != Some(Wrong::BegunAgain)
            }),
            Property::always("checks act while it waits", |_, w: &World| {
                w.wrong != Some(Wrong::MarkedTooEarly)
            }),
            Property::always(
                "L1: it ends when it is to end",
                |model: &Setting<Self>, w: &World| w.wrong.is_some() || w.ends(model.breakage),
            ),
            Property::always(
                "marks are taken back of what waits",
                |model: &Setting<Self>, w: &World| {
                    w.wrong.is_some() || w.frees_what_waits(model.breakage)
                },
            ),
            Property::sometimes("what waits again is free of marks", |_, w: &World| {
                w.is_free_again()
            }),
            Property::always("nothing begins without its marks", |_, w: &World| {
                w.wrong != Some(Wrong::BegunUnmarked)
            }),
            Property::always("of one host, one has its turn", |_, w: &World| {
                w.wrong != Some(Wrong::BothBegun)
            }),
            Property::always("a mark that is left is said", |_, w: &World| {
                w.wrong != Some(Wrong::Unsaid)
            }),
            Property::always("what checks do is told as it is", |_, w: &World| {
                w.wrong != Some(Wrong::OppositeSaid)
            }),
            Property::always("F9: a mark is recorded before it is set", |_, w: &World| {
                w.wrong != Some(Wrong::SetUnrecorded)
            }),
            Property::always("the host comes back at the end", |_, w: &World| {
                w.wrong != Some(Wrong::CameBack)
            }),
            Property::sometimes("the second parks after the first", |_, w: &World| {
                w.is_second_parked()
            }),
            Property::sometimes("it is said what cannot be taken back", |_, w: &World| {
                w.says_what_is_left()
            }),
            Property::sometimes("a host is parked with all marks", |_, w: &World| {
                w.is_parked_with_all()
            }),
            Property::sometimes("nothing is left", |_, w: &World| w.is_over()),
        ]
    }

    fn tell(&self, action: Action, _: Option<Breakage>) -> String {
        format!("at {} s: {action:?}", self.seconds())
    }
}
