//! Limits and rounding, against a reference implementation of the specification's table that counts up
//! instead of dividing.

use proptest::prelude::*;

use super::*;

/// The smallest number that is at least `percent` per cent of `of`.
fn up(percent: u32, of: u32) -> u64 {
    let mut number = 0_u64;
    while number * 100 < u64::from(percent) * u64::from(of) {
        number += 1;
    }
    number
}

/// Fewest healthy Nodes by the table: minHealthy rounded up; all minus maxUnhealthy rounded up.
fn reference(limit: Limit, selected: u32) -> Option<u64> {
    let number = |share| match share {
        IntOrPercent::Int(count) => u64::try_from(count).unwrap(),
        IntOrPercent::Percent(percent) => up(u32::try_from(percent).unwrap(), selected),
    };
    match limit {
        Limit::MinHealthy(share) => Some(number(share)),
        Limit::MaxUnhealthy(share) if number(share) > u64::from(selected) => None,
        Limit::MaxUnhealthy(share) => Some(u64::from(selected) - number(share)),
    }
}

fn limits() -> impl Strategy<Value = Limit> {
    let share = prop_oneof![
        (0..60_i32).prop_map(IntOrPercent::Int),
        (0..=100_i32).prop_map(IntOrPercent::Percent),
    ];
    (any::<bool>(), share).prop_map(|(min, share)| {
        if min {
            Limit::MinHealthy(share)
        } else {
            Limit::MaxUnhealthy(share)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fewest_healthy_matches_the_reference(limit in limits(), selected in 0..200_u32) {
        prop_assert_eq!(fewest_healthy(limit, selected).ok(), reference(limit, selected));
    }

    /// Every Node of `unhealthy` gets a remediation if, and only if, the table allows it.
    #[test]
    fn all_unhealthy_nodes_are_remediated_or_none(
        limit in limits(),
        healthy in 0..12_usize,
        soon in 0..4_usize,
        unhealthy in 1..8_usize,
    ) {
        let mut nodes: Vec<NodeFacts> = (0..healthy).map(|i| good(&format!("g{i}"))).collect();
        nodes.extend((0..soon).map(|i| node(&format!("s{i}"), "False", at(300))));
        nodes.extend((0..unhealthy).map(|i| bad(&format!("u{i}"))));
        let selected = u32::try_from(nodes.len()).unwrap();
        let mut fixture = Fixture::new(Check { limit, ..check() }, nodes);
        let plan = fixture.decide(at(301));
        let allowed = reference(limit, selected).is_some_and(|needed| healthy as u64 >= needed);
        prop_assert_eq!(created(&plan).len(), if allowed { unhealthy } else { 0 });
        prop_assert_eq!(plan.memory.healthy as usize, healthy, "suspect is not healthy");
        prop_assert_eq!(plan.memory.nodes.len(), unhealthy, "and not unhealthy");
    }
}

#[test]
fn fewest_healthy_matches_documented_examples() {
    let of_three = |limit| fewest_healthy(limit, 3).unwrap();
    assert_eq!(
        of_three(Limit::MaxUnhealthy(IntOrPercent::Percent(49))),
        1,
        "2 may fail"
    );
    assert_eq!(
        of_three(Limit::MinHealthy(IntOrPercent::Percent(51))),
        2,
        "2 must be healthy"
    );
    assert_eq!(of_three(Limit::OLDER), 1);
    let too_many = fewest_healthy(Limit::MaxUnhealthy(IntOrPercent::Int(4)), 3).unwrap_err();
    assert_eq!(
        too_many,
        LimitError::MoreThanAll {
            most: 4,
            selected: 3
        }
    );
}

#[test]
fn impossible_limit_allows_nothing_and_is_reported() {
    let limit = Limit::MaxUnhealthy(IntOrPercent::Int(4));
    let mut fixture = Fixture::new(Check { limit, ..check() }, vec![good("a"), bad("b")]);
    let plan = fixture.decide(at(301));
    assert!(created(&plan).is_empty());
    let message = &plan.events.last().unwrap().message;
    assert!(
        message.contains("maxUnhealthy is 4") && message.contains("2 Nodes"),
        "{message}"
    );
}
