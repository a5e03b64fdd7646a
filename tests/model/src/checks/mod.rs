//! Health checks: one engine over a small fleet, with the cores that judge and do its bookkeeping in production.
//!
//! The watches of checks, machines, Nodes and remediations lag independently; calls take any time; another
//! process may take over whose view is far behind. What is done is judged by the fleet as it really is.

mod actions;
pub mod api;
pub mod breakage;
pub mod engine;
pub mod objects;
mod rules;
pub mod story;
pub mod world;

use rackhand_core::checks::machines::Limit;
use rackhand_core::values::int_or_percent::IntOrPercent;
use stateright::{Model, Property};

pub use actions::{Action, FAULTS, Fault, Watch};
use api::Name;
use breakage::Breakage;
use engine::Engine;
use objects::{Api, CHECKS, CheckValue, MACHINES};
use world::{World, Wrong};

/// A world of health checks.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Name of the world.
    pub name: &'static str,
    /// The checks that exist from the beginning.
    pub checks: Vec<(Name, CheckValue)>,
    /// How many Nodes may fail.
    pub failures: u8,
    /// How many faults may happen.
    pub budget: u8,
    /// Which ones.
    pub faults: Vec<Fault>,
    /// What is broken on purpose.
    pub breakage: Option<Breakage>,
}

fn mk_check(created: u64, template: usize) -> CheckValue {
    CheckValue {
        // One of three machines, and none of two.
        limit: Limit::AtMost(IntOrPercent::Percent(40)),
        narrowed: false,
        template,
        created,
    }
}

impl Setting {
    /// One check. With more than one fault, only one Node fails by itself; a fault may fail another.
    pub fn checks(budget: u8) -> Self {
        let of_two = |fault: &Fault| {
            matches!(
                fault,
                Fault::CheckDeleted(1) | Fault::CheckNarrowed(1) | Fault::CheckCreated
            )
        };
        Self {
            name: "checks",
            checks: vec![(CHECKS[0], mk_check(0, 0))],
            failures: if budget > 1 { 1 } else { 2 },
            budget,
            faults: FAULTS.into_iter().filter(|fault| !of_two(fault)).collect(),
            breakage: None,
        }
    }

    /// Two checks that select the same machines and make different remediations.
    pub fn overlap(budget: u8) -> Self {
        let mut faults = FAULTS.to_vec();
        faults.retain(|fault| *fault != Fault::CheckCreated);
        Self {
            name: "overlap",
            checks: vec![(CHECKS[0], mk_check(0, 0)), (CHECKS[1], mk_check(1, 1))],
            failures: 1,
            faults,
            ..Self::checks(budget)
        }
    }

    /// One check; another one that makes the same remediations may come.
    pub fn covered(budget: u8) -> Self {
        Self {
            name: "covered",
            failures: 1,
            faults: FAULTS.to_vec(),
            ..Self::checks(budget)
        }
    }

    fn world(&self) -> World {
        let api = Api::new(&self.checks);
        let mut world = World {
            engine: Engine::new(&api, self.breakage),
            api,
            failures: self.failures,
            budget: self.budget,
            shrunk: false,
            wrong: None,
        };
        world.settle(self.breakage);
        world.canonical();
        world
    }
}

fn is(w: &World, wrong: Wrong) -> bool {
    w.wrong == Some(wrong)
}

impl Model for Setting {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.world()]
    }

    fn actions(&self, w: &World, actions: &mut Vec<Action>) {
        if w.wrong.is_some() {
            return;
        }
        actions.extend(Self::ordinary(w));
        actions.extend(Self::failures(w));
        if w.budget > 0 {
            for fault in &self.faults {
                Self::possible(w, *fault, actions);
            }
        }
    }

    fn next_state(&self, w: &World, action: Action) -> Option<World> {
        let next = self.next(w, action);
        (next != *w).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("F10: within the limit", |_, w: &World| !is(w, Wrong::Limit)),
            Property::always("F10: as many as the limit", |_, w: &World| {
                !is(w, Wrong::TooMany)
            }),
            Property::always("F12: only unhealthy machines", |_, w: &World| {
                !is(w, Wrong::Healthy)
            }),
            Property::always("F13: a burst arrives first", |_, w: &World| {
                !is(w, Wrong::Burst)
            }),
            Property::always("F6: one for a machine", |_, w: &World| !is(w, Wrong::Two)),
            Property::always("F12: none withdrawn that is wanted", |_, w: &World| {
                !is(w, Wrong::Withdrawn)
            }),
            Property::always("L1: it settles", |_, w: &World| !is(w, Wrong::Unsettled)),
            Property::sometimes("a remediation is made", |_, w: &World| {
                !w.api.remediations.objects.is_empty()
            }),
            Property::sometimes("a fleet is healed", |_, w: &World| {
                w.failures == 0
                    && w.api.remediations.objects.is_empty()
                    && MACHINES.iter().all(|name| !w.api.is_unhealthy(name))
            }),
        ]
    }
}
