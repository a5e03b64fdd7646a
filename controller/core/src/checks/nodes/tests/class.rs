use super::*;

fn class(node: &NodeFacts, now: Timestamp) -> Class {
    classify(&check(), node, now)
}

#[test]
fn condition_must_last_longer_than_its_duration() {
    let node = bad("n");
    assert_eq!(class(&node, at(299)), Class::Soon(Some(at(300))));
    assert_eq!(
        class(&node, at(300)),
        Class::Soon(Some(at(300))),
        "strictly"
    );
    assert!(matches!(class(&node, at(301)), Class::Matching(_)));
    assert_eq!(class(&good("n"), at(301)), Class::Healthy);
}

#[test]
fn absent_condition_matches_no_rule_and_an_expired_rule_wins() {
    let mut node = bad("n");
    node.conditions.clear();
    assert_eq!(class(&node, at(9999)), Class::Healthy);
    let mut rules = check();
    rules.conditions.insert(
        0,
        ConditionRule {
            type_: "Disk".into(),
            status: "Full".into(),
            timeout: MINUTE * 60,
        },
    );
    let mut node = bad("n");
    node.conditions.insert(
        0,
        Condition {
            type_: "Disk".into(),
            status: "Full".into(),
            reason: String::new(),
            last_transition: Some(at(0)),
        },
    );
    assert!(matches!(
        classify(&rules, &node, at(301)),
        Class::Matching(_)
    ));
    assert_eq!(classify(&rules, &node, at(1)), Class::Soon(Some(at(300))));
}

#[test]
fn condition_without_transition_time_has_matched_for_long() {
    let mut node = bad("n");
    node.conditions[0].last_transition = None;
    let Class::Matching(cause) = class(&node, at(9999)) else {
        panic!("it is not unhealthy");
    };
    let said = cause.to_string();
    assert!(said.contains("it has no lastTransitionTime"), "{said}");
}

#[test]
fn never_joined_node_uses_the_startup_timeout_if_set() {
    let mut silent = node("n", "Unknown", at(0));
    silent.conditions[0].reason = "NodeStatusNeverUpdated".into();
    silent.created = Some(at(0));
    let mut none = silent.clone();
    none.conditions.clear();
    // Without a startup timeout, only the conditions count.
    assert!(matches!(class(&silent, at(301)), Class::Matching(_)));
    assert_eq!(class(&none, at(99_999)), Class::Healthy);
    let rules = Check {
        startup_timeout: Some(MINUTE * 20),
        ..check()
    };
    for node in [&silent, &none] {
        assert_eq!(
            classify(&rules, node, at(1200)),
            Class::Soon(Some(at(1200)))
        );
        let over = classify(&rules, node, at(1201));
        assert_eq!(over, Class::Matching(Cause::NeverJoined { created: at(0) }));
    }
    assert_eq!(classify(&rules, &good("n"), at(1201)), Class::Healthy);
}

#[test]
fn older_form_has_one_default_condition() {
    let older = Check::default_conditions(true);
    assert_eq!(older.len(), 1);
    assert_eq!(
        (older[0].status.as_str(), older[0].timeout),
        ("False", MINUTE * 5)
    );
    assert_eq!(Check::default_conditions(false).len(), 2);
}
