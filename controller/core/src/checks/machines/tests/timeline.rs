//! Tests of the times at which causes begin to count.

use super::*;

fn of(check: &Check, machine: &MachineFacts, node: &NodeView) -> Vec<(String, Option<Timestamp>)> {
    onsets(check, &mk_cluster(), machine, node, at(0))
        .into_iter()
        .map(|onset| (onset.cause.label().to_owned(), onset.at))
        .collect()
}

#[test]
fn onsets_list_each_matching_rule_with_its_deadline() {
    let mut check = mk_check();
    check.node_conditions.push(mk_rule("Ready", "Unknown", 900));
    check
        .machine_conditions
        .push(mk_rule("NodeReady", "False", 60));
    let mut machine = mk_machine("m");
    machine.conditions = vec![mk_condition("NodeReady", "False", at(10))];
    let node = mk_node("Unknown", at(20));
    assert_eq!(
        of(&check, &machine, &node),
        [
            ("machine_condition".to_owned(), Some(at(70))),
            ("node_condition".to_owned(), Some(at(320))),
            ("node_condition".to_owned(), Some(at(920))),
        ]
    );
}

#[test]
fn immediate_cause_has_no_onset_time() {
    let (check, machine) = (mk_check(), mk_machine("m"));
    let gone = NodeView::Missing { name: "n".into() };
    assert_eq!(
        of(&check, &machine, &gone),
        [("node_deleted".to_owned(), None)]
    );
    assert!(of(&check, &machine, &mk_node("True", at(0))).is_empty());
    assert!(of(&check, &machine, &unreachable()).is_empty());
    assert_eq!(
        of(&check, &machine, &NodeView::NotJoined),
        [("node_startup_timeout".to_owned(), Some(at(600)))]
    );
}

#[test]
fn timeout_beyond_the_maximum_time_ends_the_search() {
    let mut check = mk_check();
    check.node_conditions = vec![ConditionRule {
        timeout: Duration::MAX,
        ..mk_rule("Ready", "Unknown", 0)
    }];
    let node = mk_node("Unknown", at(0));
    assert_eq!(of(&check, &mk_machine("m"), &node).len(), 1);
}
