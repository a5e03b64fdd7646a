//! Which of several checks acts for a machine.

use proptest::prelude::*;

use super::*;

fn claim(name: &str, created: i64) -> Claim {
    Claim {
        created: Some(at(created)),
        name: name.into(),
        able: true,
        has_remediation: false,
    }
}

/// Name of the acting check.
fn acting_name(claims: &[Claim]) -> Option<&str> {
    acting(claims).map(|place| claims[place].name.as_str())
}

#[test]
fn older_check_acts_and_the_name_breaks_ties() {
    assert_eq!(acting_name(&[]), None);
    assert_eq!(acting_name(&[claim("b", 1), claim("a", 2)]), Some("b"));
    assert_eq!(acting_name(&[claim("b", 1), claim("a", 1)]), Some("a"));
    let mut unknown = claim("a", 0);
    unknown.created = None;
    assert_eq!(acting_name(&[unknown, claim("b", 9)]), Some("b"));
}

#[test]
fn check_that_cannot_act_blocks_no_other_check() {
    let mut older = claim("older", 1);
    older.able = false;
    older.has_remediation = true;
    assert_eq!(
        acting_name(&[older.clone(), claim("younger", 2)]),
        Some("younger")
    );
    assert_eq!(acting_name(&[older]), None);
}

#[test]
fn check_with_an_open_remediation_keeps_acting() {
    let mut younger = claim("younger", 2);
    younger.has_remediation = true;
    assert_eq!(
        acting_name(&[claim("older", 1), younger.clone()]),
        Some("younger")
    );
    let mut older = claim("older", 1);
    older.has_remediation = true;
    assert_eq!(
        acting_name(&[older, younger]),
        Some("older"),
        "both have an open remediation"
    );
}

proptest! {
    #[test]
    fn acting_check_is_able_and_independent_of_claim_order(
        given in proptest::collection::vec((0i64..3, any::<bool>(), any::<bool>()), 0..5),
        rotation in 0usize..5,
    ) {
        let claims: Vec<Claim> = given
            .iter()
            .enumerate()
            .map(|(i, (created, able, has_remediation))| Claim {
                able: *able,
                has_remediation: *has_remediation,
                ..claim(&format!("c{i}"), *created)
            })
            .collect();
        let found = acting_name(&claims);
        prop_assert_eq!(found.is_some(), claims.iter().any(|c| c.able));
        let mut rotated = claims.clone();
        let by = if claims.is_empty() { 0 } else { rotation % claims.len() };
        rotated.rotate_left(by);
        prop_assert_eq!(found, acting_name(&rotated));
        if let Some(place) = acting(&claims) {
            prop_assert!(claims[place].able);
        }
    }
}
