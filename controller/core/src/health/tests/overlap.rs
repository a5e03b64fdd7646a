//! Which of several checks acts for a machine.

use proptest::prelude::*;

use super::*;

fn claim(name: &str, created: i64) -> Claim {
    Claim {
        created: Some(at(created)),
        name: name.into(),
        able: true,
        requested: false,
    }
}

fn who(claims: &[Claim]) -> Option<&str> {
    acting(claims).map(|place| claims[place].name.as_str())
}

#[test]
fn the_older_check_acts_and_of_two_as_old_the_name_decides() {
    assert_eq!(who(&[]), None);
    assert_eq!(who(&[claim("b", 1), claim("a", 2)]), Some("b"));
    assert_eq!(who(&[claim("b", 1), claim("a", 1)]), Some("a"));
    let mut unknown = claim("a", 0);
    unknown.created = None;
    assert_eq!(who(&[unknown, claim("b", 9)]), Some("b"));
}

#[test]
fn one_that_cannot_act_keeps_nobody_from_it() {
    let mut older = claim("older", 1);
    older.able = false;
    older.requested = true;
    assert_eq!(who(&[older.clone(), claim("younger", 2)]), Some("younger"));
    assert_eq!(who(&[older]), None);
}

#[test]
fn what_has_begun_is_carried_through_by_whoever_began_it() {
    let mut younger = claim("younger", 2);
    younger.requested = true;
    assert_eq!(who(&[claim("older", 1), younger.clone()]), Some("younger"));
    let mut older = claim("older", 1);
    older.requested = true;
    assert_eq!(who(&[older, younger]), Some("older"), "a request of both");
}

proptest! {
    #[test]
    fn whoever_acts_can_and_the_order_of_the_claims_does_not_matter(
        given in proptest::collection::vec((0i64..3, any::<bool>(), any::<bool>()), 0..5),
        turn in 0usize..5,
    ) {
        let claims: Vec<Claim> = given
            .iter()
            .enumerate()
            .map(|(i, (created, able, requested))| Claim {
                able: *able,
                requested: *requested,
                ..claim(&format!("c{i}"), *created)
            })
            .collect();
        let found = who(&claims);
        prop_assert_eq!(found.is_some(), claims.iter().any(|c| c.able));
        let mut turned = claims.clone();
        let by = if claims.is_empty() { 0 } else { turn % claims.len() };
        turned.rotate_left(by);
        prop_assert_eq!(found, who(&turned));
        if let Some(place) = acting(&claims) {
            prop_assert!(claims[place].able);
        }
    }
}
