//! Tests of `HealthCheckSucceeded` (docs/reference/cluster-api.md, Conditions and Events).

use super::*;
use crate::values::duration::go_duration;

fn written(node: &NodeView, change: impl FnOnce(&mut MachineFacts)) -> HealthConditionWrite {
    let mut check = mk_check();
    check.machine_conditions = vec![mk_rule("BootstrapReady", "False", 90)];
    let mut machine = mk_machine("m");
    change(&mut machine);
    let verdict = verdict(&check, &mk_cluster(), &machine, node, at(99_999));
    health_condition(&machine, &verdict).unwrap()
}

fn reasons(write: &HealthConditionWrite) -> (&'static str, &'static str) {
    assert!(!write.succeeded);
    (write.reason, write.reason_v1beta1)
}

#[test]
fn each_cause_maps_to_its_reason_in_both_contracts() {
    let healthy = &mk_node("True", at(0));
    let cases = [
        (
            written(healthy, |m| m.remediate_annotation = true),
            ("HasRemediateAnnotation", "HasRemediateMachineAnnotation"),
        ),
        (
            written(healthy, |m| m.failure = Some("broken".into())),
            ("UnhealthyMachine", "MachineHasFailure"),
        ),
        (
            written(healthy, |m| {
                m.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
            }),
            ("UnhealthyMachine", "UnhealthyMachine"),
        ),
        (
            written(
                &NodeView::Missing {
                    name: "node".into(),
                },
                |_| {},
            ),
            ("NodeDeleted", "NodeNotFound"),
        ),
        (
            written(&NodeView::NotJoined, |_| {}),
            ("NodeStartupTimeout", "NodeStartupTimeout"),
        ),
        (
            written(&mk_node("Unknown", at(0)), |_| {}),
            ("UnhealthyNode", "UnhealthyNode"),
        ),
    ];
    for (write, expected) in cases {
        assert_eq!(reasons(&write), expected);
    }
}

#[test]
fn failed_machine_rule_sets_the_reason_before_node_rules() {
    let write = written(&mk_node("Unknown", at(0)), |m| {
        m.conditions = vec![mk_condition("BootstrapReady", "False", at(0))];
    });
    assert_eq!(reasons(&write), ("UnhealthyMachine", "UnhealthyMachine"));
    assert_eq!(
        write.message,
        "Health check failed:\n  \
         * Condition BootstrapReady on Machine is False (BootstrapReadyIsFalse) for 1m30s or longer\
         \n  * Condition Ready on Node is Unknown (ReadyIsUnknown) for 5m0s or longer"
    );
    assert_eq!(
        write.message_v1beta1,
        "Condition BootstrapReady on Machine is False (BootstrapReadyIsFalse) for 1m30s or longer; \
         Condition Ready on Node is Unknown (ReadyIsUnknown) for 5m0s or longer"
    );
}

#[test]
fn deleted_node_has_no_v1beta1_message() {
    let write = written(
        &NodeView::Missing {
            name: "node-7".into(),
        },
        |_| {},
    );
    assert_eq!(
        write.message,
        "Health check failed:\n  * Node node-7 has been deleted"
    );
    assert_eq!(write.message_v1beta1, "");
}

#[test]
fn cause_without_reason_prints_no_empty_parentheses() {
    let cause = Cause::NodeCondition {
        type_: "Ready".into(),
        status: "False".into(),
        reason: String::new(),
        timeout: secs(1),
    };
    assert_eq!(
        cause.to_string(),
        "Condition Ready on Node is False for 1s or longer"
    );
}

#[test]
fn healthy_condition_is_written_only_if_not_yet_true() {
    for (carried, write) in [(None, true), (Some(false), true), (Some(true), false)] {
        let machine = MachineFacts {
            health_condition: carried,
            ..mk_machine("m")
        };
        let condition = health_condition(&machine, &Verdict::Healthy);
        assert_eq!(condition.is_some(), write, "{carried:?}");
        if let Some(condition) = condition {
            assert!(condition.succeeded);
            assert_eq!(condition.reason, "HealthCheckSucceeded");
            assert_eq!(condition.reason_v1beta1, "");
            assert_eq!(
                (condition.message, condition.message_v1beta1),
                Default::default()
            );
        }
    }
}

#[test]
fn q13_undecided_verdict_writes_no_condition() {
    let machine = MachineFacts {
        health_condition: Some(false),
        ..mk_machine("m")
    };
    let undecided = [
        Verdict::Skipped(SkipReason::Paused),
        Verdict::Unknown(UnknownReason::NoNode),
        Verdict::Suspect {
            until: at(1),
            causes: vec![],
            starting: true,
        },
    ];
    for verdict in undecided {
        assert_eq!(health_condition(&machine, &verdict), None, "{verdict}");
    }
}

#[test]
fn durations_print_like_go() {
    let cases = [
        (Duration::ZERO, "0s"),
        (Duration::from_nanos(1), "1ns"),
        (Duration::from_nanos(1_100), "1.1µs"),
        (Duration::from_micros(2_200), "2.2ms"),
        (Duration::from_millis(20), "20ms"),
        (Duration::from_millis(1_500), "1.5s"),
        (secs(59), "59s"),
        (secs(300), "5m0s"),
        (secs(3_600), "1h0m0s"),
        (secs(90_061), "25h1m1s"),
        (Duration::from_millis(61_001), "1m1.001s"),
    ];
    for (duration, expected) in cases {
        assert_eq!(go_duration(duration).to_string(), expected);
    }
}
