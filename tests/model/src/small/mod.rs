//! Small worlds, whose faults have no names: what they share as models for stateright, and the list of them.

pub mod causes;
pub mod copies;
pub mod lists;
pub mod maintenance;
pub mod policies;
pub mod signals;
pub mod triggers;

use std::{fmt::Debug, hash::Hash, marker::PhantomData};

use stateright::{Model, Property};

use crate::explore::{Bounds, Report, explore_model};

/// A world that is explored with a number of faults, or with one fault on purpose.
pub trait Small: Clone + Debug + Hash + PartialEq + Send + Sync + Sized + 'static {
    /// Everything that can happen.
    type Action: Copy + Debug + PartialEq + Send + Sync;
    /// The faults on purpose.
    type Breakage: OnPurpose;
    /// The name by which it is chosen.
    const NAME: &'static str;

    /// The first states, with so many faults that may happen.
    fn first(budget: u8) -> Vec<Self>;

    /// What may happen now.
    fn possible(&self) -> Vec<Self::Action>;

    /// It happens.
    fn act(&mut self, action: Self::Action, breakage: Option<Self::Breakage>);

    /// Whether runs are followed from here.
    fn is_followed(&self) -> bool {
        true
    }

    /// The rules, and what must be reached.
    fn rules() -> Vec<Property<Setting<Self>>>;

    /// What happens here, in words.
    fn tell(&self, action: Self::Action, _breakage: Option<Self::Breakage>) -> String {
        format!("{action:?}")
    }
}

/// The faults on purpose of a world.
pub trait OnPurpose: Copy + Debug + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// Every one.
    const EVERY: &'static [Self];

    /// It in words, as reports print it.
    fn words(self) -> &'static str;

    /// How many faults show it.
    fn faults(self) -> u8;
}

/// A world to explore.
#[derive(Debug, Clone)]
pub struct Setting<W: Small> {
    /// How many faults may happen.
    pub budget: u8,
    /// The fault on purpose, if any.
    pub breakage: Option<W::Breakage>,
    world: PhantomData<W>,
}

impl<W: Small> Setting<W> {
    /// With so many faults.
    pub fn new(budget: u8) -> Self {
        Self {
            budget,
            breakage: None,
            world: PhantomData,
        }
    }

    /// With a fault on purpose.
    pub fn broken(breakage: W::Breakage) -> Self {
        Self {
            budget: breakage.faults(),
            breakage: Some(breakage),
            world: PhantomData,
        }
    }
}

impl<W: Small> Model for Setting<W> {
    type State = W;
    type Action = W::Action;

    fn init_states(&self) -> Vec<W> {
        W::first(self.budget)
    }

    fn actions(&self, world: &W, actions: &mut Vec<W::Action>) {
        actions.extend(world.possible());
    }

    fn next_state(&self, world: &W, action: W::Action) -> Option<W> {
        let mut next = world.clone();
        next.act(action, self.breakage);
        (next != *world).then_some(next)
    }

    fn within_boundary(&self, world: &W) -> bool {
        world.is_followed()
    }

    fn properties(&self) -> Vec<Property<Self>> {
        W::rules()
    }
}

/// Explores every order of events within these bounds. With a fault on purpose it ends at the first rule that is broken.
pub fn explore<W: Small>(setting: Setting<W>, bounds: Bounds) -> Report {
    let first_only = setting.breakage.is_some();
    explore_model(setting, first_only, bounds, |model, path| {
        let steps = path.iter().filter_map(|(w, action)| Some((w, (*action)?)));
        steps
            .map(|(world, action)| world.tell(action, model.breakage))
            .collect()
    })
}

/// A fault on purpose of a world, and the exploration that must find it.
#[derive(Debug, Clone, Copy)]
pub struct Broken {
    /// The world.
    pub world: &'static str,
    /// It in words.
    pub description: &'static str,
    /// How many faults show it.
    pub budget: u8,
    place: usize,
    explore: fn(usize, Bounds) -> Report,
}

impl Broken {
    /// Explores the world with it.
    pub fn explore(&self, bounds: Bounds) -> Report {
        (self.explore)(self.place, bounds)
    }
}

/// A small world by its name.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// Most faults that `hack/check-model` explores by itself.
    pub most: u8,
    /// Explores it with so many faults.
    pub explore: fn(u8, Bounds) -> Report,
    /// Its faults on purpose.
    pub breakages: fn() -> Vec<Broken>,
}

impl Named {
    const fn new<W: Small>(most: u8) -> Self {
        Self {
            name: W::NAME,
            most,
            explore: |budget, bounds| explore(Setting::<W>::new(budget), bounds),
            breakages: breakages::<W>,
        }
    }
}

fn breakages<W: Small>() -> Vec<Broken> {
    let each = W::Breakage::EVERY.iter().enumerate();
    let each = each.map(|(place, breakage)| Broken {
        world: W::NAME,
        description: breakage.words(),
        budget: breakage.faults(),
        place,
        explore: explore_broken::<W>,
    });
    each.collect()
}

fn explore_broken<W: Small>(place: usize, bounds: Bounds) -> Report {
    let broken = W::Breakage::EVERY.get(place).copied();
    let whole = Setting::<W>::new(0);
    explore(broken.map_or(whole, Setting::broken), bounds)
}

/// Every small world, in the order in which they are explored.
pub const WORLDS: [Named; 7] = [
    Named::new::<policies::World>(2),
    Named::new::<causes::World>(2),
    Named::new::<signals::World>(2),
    Named::new::<lists::World>(2),
    Named::new::<maintenance::World>(2),
    Named::new::<triggers::World>(2),
    // A second write of a stranger takes half a minute and shows nothing more.
    Named::new::<copies::World>(1),
];
