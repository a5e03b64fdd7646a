//! Every course of a rotation at BMCs that answer truthfully, late or not at all.

use std::collections::BTreeSet;

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Password {
    Old,
    New,
}

/// The passwords that a BMC stores, and which of them each driver uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    stores: Vec<Password>,
    store_of: Vec<usize>,
    rotation: PasswordRotation,
    interruptions: u32,
}

impl World {
    fn new(store_of: &[usize]) -> Self {
        Self {
            stores: vec![Password::Old; store_of.iter().max().unwrap() + 1],
            store_of: store_of.to_vec(),
            rotation: PasswordRotation::new(store_of.len()),
            interruptions: 0,
        }
    }

    /// Every state after the present step.
    fn next(&self) -> Vec<Self> {
        let step = self.rotation.step();
        let outcomes = match step {
            Step::LogInNew(driver) => self.log_in(driver, Password::New),
            Step::LogInOld(driver) => self.log_in(driver, Password::Old),
            Step::Change(driver) => self.change(driver, Password::Old, Password::New),
            Step::ChangeBack(driver) => self.change(driver, Password::New, Password::Old),
            Step::End(_) => return Vec::new(),
        };
        let mut next = Vec::new();
        for (stores, answer) in outcomes {
            let answered = |rotation: PasswordRotation, interruptions| Self {
                stores: stores.clone(),
                store_of: self.store_of.clone(),
                rotation,
                interruptions,
            };
            next.push(answered(
                self.rotation.clone().answered(answer),
                self.interruptions,
            ));
            if self.interruptions < 2 {
                let resumed = PasswordRotation::resume(self.store_of.len());
                next.push(answered(resumed, self.interruptions + 1));
            }
        }
        next
    }

    fn log_in(&self, driver: usize, with: Password) -> Vec<(Vec<Password>, Answer)> {
        let truth = match self.stores[self.store_of[driver]] == with {
            true => Answer::Accepted,
            false => Answer::Refused,
        };
        [truth, Answer::Unknown]
            .map(|answer| (self.stores.clone(), answer))
            .into()
    }

    fn change(&self, driver: usize, from: Password, to: Password) -> Vec<(Vec<Password>, Answer)> {
        let mut outcomes = vec![
            (self.stores.clone(), Answer::Refused),
            (self.stores.clone(), Answer::Unknown),
        ];
        let store = self.store_of[driver];
        if self.stores[store] == from {
            let mut changed = self.stores.clone();
            changed[store] = to;
            // A BMC may also accept a change and not make it.
            outcomes.push((self.stores.clone(), Answer::Accepted));
            outcomes.push((changed.clone(), Answer::Accepted));
            outcomes.push((changed, Answer::Unknown));
        }
        outcomes
    }
}

/// All ends that are reached, with the passwords then stored.
fn ends(store_of: &[usize]) -> BTreeSet<(String, Vec<Password>)> {
    let mut ends = BTreeSet::new();
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![World::new(store_of)];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        assert!(seen.len() < 100_000, "no end");
        if let Step::End(end) = world.rotation.step() {
            ends.insert((format!("{end:?}"), world.stores));
        } else {
            open.extend(world.next());
        }
    }
    ends
}

#[test]
fn password_is_given_up_only_if_no_driver_needs_it() {
    for store_of in [&[0][..], &[0, 0], &[0, 1], &[0, 1, 1], &[0, 1, 2]] {
        let ends = ends(store_of);
        let of = |end: &str| {
            let ends = ends.iter().filter(|(name, _)| name == end);
            ends.flat_map(|(_, stores)| stores.clone())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(of("New"), BTreeSet::from([Password::New]), "{store_of:?}");
        assert_eq!(of("Old"), BTreeSet::from([Password::Old]), "{store_of:?}");
        assert_eq!(of("Undecided").len(), 2, "{store_of:?}");
    }
}

/// The steps of a rotation to which the BMC gives these answers.
fn steps(mut rotation: PasswordRotation, answers: &[Answer]) -> Vec<Step> {
    let mut steps = vec![rotation.step()];
    for answer in answers {
        rotation = rotation.answered(*answer);
        steps.push(rotation.step());
    }
    steps
}

#[test]
fn refused_change_ends_without_a_log_in() {
    let steps = steps(PasswordRotation::new(2), &[Answer::Refused]);
    assert_eq!(steps, [Step::Change(0), Step::End(End::Old)]);
}

#[test]
fn second_store_is_changed_by_its_own_driver() {
    use Answer::{Accepted, Refused};
    let answers = [Accepted, Accepted, Refused, Accepted, Accepted];
    assert_eq!(
        steps(PasswordRotation::new(2), &answers),
        [
            Step::Change(0),
            Step::LogInNew(0),
            Step::LogInNew(1),
            Step::Change(1),
            Step::LogInNew(1),
            Step::End(End::New),
        ]
    );
}

#[test]
fn first_store_is_changed_back_if_the_second_refuses() {
    use Answer::{Accepted, Refused};
    let answers = [
        Accepted, Accepted, Refused, Refused, Accepted, Accepted, Accepted,
    ];
    assert_eq!(
        steps(PasswordRotation::new(2), &answers),
        [
            Step::Change(0),
            Step::LogInNew(0),
            Step::LogInNew(1),
            Step::Change(1),
            Step::ChangeBack(0),
            Step::LogInOld(0),
            Step::LogInOld(1),
            Step::End(End::Old),
        ]
    );
}
