//! Repeats a path through a world, so that a counterexample can become a test.

use stateright::{Expectation, Model};

/// The places of the actions of a path among those that were possible.
pub(crate) fn steps<M>(model: &M, path: &[(M::State, Option<M::Action>)]) -> Vec<usize>
where
    M: Model,
    M::Action: PartialEq,
{
    let place = |(state, action): &(M::State, Option<M::Action>)| {
        let action = action.as_ref()?;
        let mut possible = Vec::new();
        model.actions(state, &mut possible);
        possible.iter().position(|known| known == action)
    };
    path.iter().filter_map(place).collect()
}

/// Repeats a path from the first state of a world. Returns the rules that are broken at its end; `None` if
/// it is not a path of this world.
pub fn replay<M: Model>(model: &M, steps: &[usize]) -> Option<Vec<&'static str>> {
    let mut state = model.init_states().into_iter().next()?;
    for step in steps {
        let mut possible = Vec::new();
        model.actions(&state, &mut possible);
        let action = possible.into_iter().nth(*step)?;
        state = model.next_state(&state, action)?;
    }
    let rules = model.properties().into_iter();
    let broken = rules
        .filter(|rule| matches!(rule.expectation, Expectation::Always))
        .filter(|rule| !(rule.condition)(model, &state));
    Some(broken.map(|rule| rule.name).collect())
}
