//! What is taken and what is refused of a NodeHealthCheck.

use super::*;

fn template() -> Value {
    json!({ "apiVersion": "x.y/v1", "kind": "XRemediationTemplate", "name": "t", "namespace": "ns" })
}

fn step(order: i64, timeout: &str) -> Value {
    json!({ "remediationTemplate": template(), "order": order, "timeout": timeout })
}

/// Today's form.
fn today() -> Value {
    json!({
        "selector": { "matchLabels": { "pool": "a" } },
        "minHealthy": "51%",
        "remediationTemplate": template(),
        "unhealthyConditions": [{ "type": "Ready", "status": "False", "duration": "300s" }],
    })
}

fn escalating() -> Value {
    let mut spec = without(today(), "remediationTemplate");
    spec["escalatingRemediations"] = json!([step(2, "5m"), step(1, "60s")]);
    spec
}

fn without(mut spec: Value, field: &str) -> Value {
    spec.as_object_mut().unwrap().remove(field);
    spec
}

fn node_check(spec: &Value) -> Value {
    json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
        "metadata": { "name": "workers" }, "spec": spec,
    })
}

/// One that remediates these Nodes; `watched` is unhealthy, and nothing is done about it.
fn remediating(spec: &Value, nodes: &[&str]) -> Value {
    let remediation = json!({
        "resource": { "kind": "XRemediation", "name": "r" }, "started": "2026-08-01T02:00:00Z",
    });
    let mut entries = vec![
        json!({ "name": "watched" }),
        json!({ "name": "w2", "remediations": [] }),
    ];
    for node in nodes {
        entries.push(json!({ "name": node, "remediations": [remediation] }));
    }
    let mut check = node_check(spec);
    check["status"] = json!({ "unhealthyNodes": entries });
    check
}

fn verdict(operation: &str, object: &Value, old: &Value) -> Value {
    asked(Hook::ValidateNodes, operation, object, old)
}

fn judged(spec: &Value) -> Value {
    verdict("CREATE", &node_check(spec), &Value::Null)
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

#[test]
fn what_medik8s_webhook_takes_is_taken_in_both_forms_of_the_kind() {
    let exists = json!([{ "key": "pool", "operator": "Exists" }]);
    for spec in [
        today(),
        escalating(),
        // The example as medik8s' page prints it.
        json!({ "remediationTemplate": template() }),
        json!({ "remediationTemplate": template(), "maxUnhealthy": "49%" }),
        with(without(today(), "minHealthy"), "/maxUnhealthy", json!(2)),
        with(today(), "/minHealthy", json!(0)),
        with(today(), "/minHealthy", json!("8")),
        with(today(), "/healthyDelay", json!("-1s")),
        with(today(), "/stormCooldownDuration", json!("1.5h")),
        with(today(), "/pauseRequests", json!(["an upgrade"])),
        with(today(), "/selector", json!({ "matchExpressions": exists })),
        with(
            escalating(),
            "/escalatingRemediations",
            json!([step(-3, "1m0s")]),
        ),
    ] {
        let response = judged(&spec);
        assert_eq!(response["allowed"], true, "{spec} {response}");
    }
}

#[test]
fn each_verdict_on_a_node_health_check_names_its_field() {
    let deletion = json!({
        "apiVersion": "machine-deletion-remediation.medik8s.io/v1alpha1", "name": "t",
        "kind": "machineDeletionRemediationTemplate", "namespace": "ns",
    });
    let escalation = |steps: Value| with(escalating(), "/escalatingRemediations", steps);
    let most = |spec: Value| with(without(spec, "minHealthy"), "/maxUnhealthy", json!(1));
    let rule = |type_: &str, duration: &str| json!({ "type": type_, "status": "False", "duration": duration });
    let mut step_of_deletion = step(1, "60s");
    step_of_deletion["remediationTemplate"] = deletion.clone();
    let mut unnumbered = step(1, "60s");
    unnumbered.as_object_mut().unwrap().remove("order");
    for (spec, expected) in [
        (without(today(), "selector"), "spec.selector: must be set"),
        (
            with(today(), "/selector", json!({})),
            "spec.selector: must not be empty",
        ),
        (
            with(
                today(),
                "/selector",
                json!({ "matchLabels": {}, "matchExpressions": [] }),
            ),
            "spec.selector: must not be empty",
        ),
        (
            with(today(), "/selector/matchLabels", json!({ "a b": "c" })),
            "spec.selector.matchLabels: \"a b\" is not a label's name",
        ),
        (
            with(
                today(),
                "/selector",
                json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] }),
            ),
            "spec.selector.matchExpressions[0].operator: ",
        ),
        (
            with(today(), "/maxUnhealthy", json!(1)),
            "spec.minHealthy: only one of",
        ),
        (
            without(escalating(), "minHealthy"),
            "spec.minHealthy: one of",
        ),
        (
            with(today(), "/minHealthy", json!("101%")),
            "spec.minHealthy: is \"101%\", want",
        ),
        (
            with(today(), "/minHealthy", json!(-1)),
            "spec.minHealthy: is -1, want",
        ),
        (
            with(today(), "/minHealthy", json!("half")),
            "spec.minHealthy: is \"half\", want",
        ),
        (
            without(today(), "remediationTemplate"),
            "spec.remediationTemplate: exactly one of",
        ),
        (
            with(today(), "/escalatingRemediations", json!([step(1, "60s")])),
            "spec.remediationTemplate: exactly one of",
        ),
        (
            escalation(json!([])),
            "spec.remediationTemplate: exactly one of",
        ),
        (
            with(today(), "/remediationTemplate/kind", json!("XRemediation")),
            "spec.remediationTemplate.kind: is \"XRemediation\", which does not end",
        ),
        (
            with(
                today(),
                "/remediationTemplate",
                json!({ "kind": "XTemplate", "name": "t" }),
            ),
            "spec.remediationTemplate.apiVersion: ",
        ),
        (
            most(with(today(), "/remediationTemplate", deletion)),
            "spec.maxUnhealthy: cannot be used with a MachineDeletion",
        ),
        (
            most(escalation(json!([step(2, "60s"), step_of_deletion]))),
            "spec.maxUnhealthy: cannot be used with a MachineDeletion",
        ),
        (
            escalation(json!([step(1, "60s"), step(1, "60s")])),
            "spec.escalatingRemediations[1].order: is 1 a second time",
        ),
        (
            escalation(json!([unnumbered])),
            "spec.escalatingRemediations[0].order: must be given",
        ),
        (
            escalation(json!([step(1, "60s"), step(2, "59.9s")])),
            "spec.escalatingRemediations[1].timeout: must be 60s or more",
        ),
        (
            escalation(json!([step(1, "soon")])),
            "spec.escalatingRemediations[0].timeout: ",
        ),
        (
            with(
                today(),
                "/unhealthyConditions",
                json!([rule("Ready", "1s"), rule("Ready", "2s")]),
            ),
            "spec.unhealthyConditions[1]: is Ready=False a second time",
        ),
        (
            with(today(), "/unhealthyConditions", json!([rule("", "1s")])),
            "spec.unhealthyConditions[0].type: must be given",
        ),
        (
            with(
                today(),
                "/unhealthyConditions",
                json!([{ "type": "A", "status": "B" }]),
            ),
            "spec.unhealthyConditions[0].duration: must be given",
        ),
        (
            with(
                today(),
                "/unhealthyConditions",
                json!([rule("Ready", "-1s")]),
            ),
            "spec.unhealthyConditions[0].duration: ",
        ),
        (
            with(today(), "/healthyDelay", json!("soon")),
            "spec.healthyDelay: ",
        ),
        (
            with(today(), "/stormCooldownDuration", json!("-5m")),
            "spec.stormCooldownDuration: ",
        ),
    ] {
        let response = judged(&spec);
        assert_eq!(response["allowed"], false, "{spec}");
        assert_eq!(response["status"]["code"], 422);
        let message = message(&response);
        let start = "NodeHealthCheck \"workers\" is invalid: ";
        assert!(message.starts_with(start), "{message}");
        assert!(
            message.contains(expected),
            "{expected:?} is missing in {message}"
        );
    }
}

#[test]
fn while_it_remediates_what_is_remediated_and_how_stays() {
    let old = remediating(&today(), &["n1", "n2"]);
    let changed = |spec: &Value| verdict("UPDATE", &node_check(spec), &old);
    let other = with(
        today(),
        "/selector",
        json!({ "matchLabels": { "pool": "b" } }),
    );
    let renamed = with(today(), "/remediationTemplate/name", json!("u"));
    for (spec, field) in [
        (other.clone(), "spec.selector: "),
        (renamed, "spec.remediationTemplate: "),
        (escalating(), "spec.escalatingRemediations: "),
    ] {
        let response = changed(&spec);
        assert_eq!(response["allowed"], false, "{spec}");
        let message = message(&response);
        assert!(
            message.contains(&format!(
                "{field}cannot be changed while the check remediates Node n1, n2"
            )),
            "{message}"
        );
    }
    for spec in [
        with(today(), "/minHealthy", json!(1)),
        with(without(today(), "minHealthy"), "/maxUnhealthy", json!(1)),
        with(today(), "/pauseRequests", json!(["stop"])),
        with(today(), "/healthyDelay", json!("1m")),
        with(today(), "/unhealthyConditions/0/duration", json!("1s")),
    ] {
        assert_eq!(changed(&spec)["allowed"], true, "{spec}");
    }
    // One that is only seen to be unhealthy hinders nothing.
    let idle = remediating(&today(), &[]);
    assert_eq!(
        verdict("UPDATE", &node_check(&other), &idle)["allowed"],
        true
    );
}

#[test]
fn while_it_remediates_it_cannot_be_deleted() {
    let delete = |old: &Value| verdict("DELETE", &Value::Null, old);
    let response = delete(&remediating(&today(), &["a", "b", "c", "d", "e", "f"]));
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 403);
    let text = message(&response);
    assert!(
        text.starts_with("NodeHealthCheck \"workers\" cannot be deleted while it remediates Node a, b, c, d, e and 1 more"),
        "{text}"
    );
    assert_eq!(delete(&remediating(&today(), &[]))["allowed"], true);
    assert_eq!(delete(&node_check(&json!({})))["allowed"], true);
    // Nobody can say what it is.
    assert_eq!(delete(&Value::Null)["allowed"], false);
}

#[test]
fn a_node_health_check_that_stands_there_is_not_judged_again() {
    let bad = node_check(&with(today(), "/selector", json!({})));
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(verdict("UPDATE", &labelled, &bad)["allowed"], true);
    let good = node_check(&today());
    assert_eq!(verdict("UPDATE", &bad, &good)["allowed"], false);
    assert_eq!(verdict("UPDATE", &good, &bad)["allowed"], true);
}

#[test]
fn each_webhook_answers_only_for_its_kind() {
    let machines = check("v1beta1", &spec());
    let response = verdict("CREATE", &machines, &Value::Null);
    assert_eq!(response["status"]["code"], 400);
    let why = message(&response);
    assert!(
        why.contains("this webhook is for NodeHealthCheck of remediation.medik8s.io"),
        "{why}"
    );
    let nodes = node_check(&today());
    assert_eq!(
        asked(Hook::Validate, "CREATE", &nodes, &Value::Null)["allowed"],
        false
    );
    assert_eq!(verdict("DELETE", &Value::Null, &machines)["allowed"], false);
}

#[test]
fn what_is_taken_of_a_node_health_check_but_hardly_meant_is_warned_of() {
    let warned = |spec: &Value| {
        let response = judged(spec);
        assert_eq!(response["allowed"], true, "{response}");
        response["warnings"][0]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(warned(&today()), "");
    let all = warned(&with(today(), "/minHealthy", json!("100%")));
    assert!(all.contains("only observes"), "{all}");
    let none = warned(&with(
        without(today(), "minHealthy"),
        "/maxUnhealthy",
        json!("0%"),
    ));
    assert!(none.contains("only observes"), "{none}");
    let twice = warned(&escalating());
    assert!(
        twice.contains("XRemediationTemplate stands in several steps")
            && twice.contains("remediation.medik8s.io/multiple-templates-support"),
        "{twice}"
    );
    let mut ours = escalating();
    for place in 0..2 {
        ours["escalatingRemediations"][place]["remediationTemplate"]["apiVersion"] =
            json!("rackhand.dev/v1alpha1");
    }
    assert_eq!(
        warned(&ours),
        "",
        "ours are told apart by the Node that they name"
    );
    let calm = warned(&with(today(), "/stormCooldownDuration", json!("0s")));
    assert!(calm.contains("no cooldown"), "{calm}");
}

/// A field of a NodeHealthCheck.
fn any_node_field() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "selector",
        "unhealthyConditions",
        "minHealthy",
        "maxUnhealthy",
        "stormCooldownDuration",
        "remediationTemplate",
        "escalatingRemediations",
        "pauseRequests",
        "healthyDelay",
    ])
}

proptest! {
    #[test]
    fn any_node_health_check_is_answered_and_what_is_allowed_reads(
        spec in proptest::collection::btree_map(any_node_field(), any_json(), 0..6),
        status in any_json(),
        old in any_json(),
    ) {
        let spec: serde_json::Map<String, Value> =
            spec.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        let mut object = node_check(&Value::Object(spec));
        if judged(&object["spec"])["allowed"] == true {
            let read = rackhand_api::views::NodeHealthCheckView::from_dynamic(
                &serde_json::from_value(object.clone()).unwrap(),
            );
            prop_assert!(read.is_ok(), "{object} {:?}", read.err());
        }
        object["status"] = status;
        for old in [&old, &object] {
            verdict("UPDATE", &node_check(&today()), old);
            verdict("DELETE", &Value::Null, old);
        }
    }
}
