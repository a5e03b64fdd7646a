//! What the judges are asked, and what they shall say.

use serde_json::{Value, json};

/// Name, version, spec, and for one that is refused a word of what we say about it.
pub type Case = (&'static str, &'static str, Value, Option<&'static str>);

pub fn selector() -> Value {
    json!({ "matchLabels": { "pool": "a" } })
}

/// A spec with one more field.
pub fn flat(field: &str, value: Value) -> Value {
    let mut spec = json!({ "clusterName": "demo", "selector": selector() });
    spec[field] = value;
    spec
}

/// A v1beta2 spec with these checks.
fn nested(checks: Value) -> Value {
    flat("checks", checks)
}

fn remediation(remediation: Value) -> Value {
    let mut spec = nested(json!({ "nodeStartupTimeoutSeconds": 600 }));
    spec["remediation"] = remediation;
    spec
}

fn machine_rule(type_: &str) -> Value {
    json!([{ "type": type_, "status": "False", "timeoutSeconds": 60 }])
}

pub fn template(kind: &str, api_version: &str) -> Value {
    remediation(json!({ "templateRef": { "kind": kind, "name": "t", "apiVersion": api_version } }))
}

/// What all three judges agree about.
pub fn cases() -> Vec<Case> {
    let (old, new) = ("v1beta1", "v1beta2");
    let limit =
        |value: Value| remediation(json!({ "triggerIf": { "unhealthyLessThanOrEqualTo": value } }));
    let range = |value: &str| remediation(json!({ "triggerIf": { "unhealthyInRange": value } }));
    let selected = |value: Value| json!({ "clusterName": "demo", "selector": value });
    let own = "cluster.x-k8s.io/cluster-name";
    vec![
        ("plain", old, flat("nodeStartupTimeout", json!("10m")), None),
        (
            "go-duration",
            old,
            flat("nodeStartupTimeout", json!("20m0s")),
            None,
        ),
        (
            "startup-off",
            old,
            flat("nodeStartupTimeout", json!("0m")),
            None,
        ),
        (
            "startup-least",
            old,
            flat("nodeStartupTimeout", json!("30s")),
            None,
        ),
        (
            "startup-short",
            old,
            flat("nodeStartupTimeout", json!("29.9s")),
            Some("nodeStartupTimeout"),
        ),
        (
            "startup-zero",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": 0 })),
            None,
        ),
        (
            "startup-29",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": 29 })),
            Some("nodeStartupTimeoutSeconds"),
        ),
        (
            "startup-negative",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": -1 })),
            Some("nodeStartupTimeoutSeconds"),
        ),
        ("checks-empty", new, nested(json!({})), None),
        ("max-int", old, flat("maxUnhealthy", json!(3)), None),
        ("max-percent", old, flat("maxUnhealthy", json!("40%")), None),
        ("max-negative", old, flat("maxUnhealthy", json!(-1)), None),
        (
            "max-quoted",
            old,
            flat("maxUnhealthy", json!("3")),
            Some("maxUnhealthy"),
        ),
        (
            "max-word",
            old,
            flat("maxUnhealthy", json!("many")),
            Some("maxUnhealthy"),
        ),
        ("limit-negative-share", new, limit(json!("-40%")), None),
        (
            "limit-quoted",
            new,
            limit(json!("3")),
            Some("unhealthyLessThanOrEqualTo"),
        ),
        (
            "limit-fraction",
            new,
            limit(json!("40.5%")),
            Some("unhealthyLessThanOrEqualTo"),
        ),
        ("range", new, range("[1-3]"), None),
        ("range-reversed", new, range("[3-1]"), None),
        ("range-open", new, range("1-3"), Some("unhealthyInRange")),
        (
            "range-flat",
            old,
            flat("unhealthyRange", json!("[a-b]")),
            Some("unhealthyRange"),
        ),
        ("selector-none", old, selected(json!({})), Some("selector")),
        (
            "selector-no-label",
            old,
            selected(json!({ "matchLabels": {} })),
            Some("selector"),
        ),
        (
            "selector-own",
            old,
            selected(json!({ "matchLabels": { own: "demo" } })),
            None,
        ),
        (
            "selector-other",
            old,
            selected(json!({ "matchLabels": { own: "other" } })),
            Some("selector"),
        ),
        (
            "selector-key",
            old,
            selected(json!({ "matchLabels": { "a b": "c" } })),
            Some("selector"),
        ),
        (
            "selector-value",
            old,
            selected(json!({ "matchLabels": { "a": "b c" } })),
            Some("selector"),
        ),
        (
            "selector-empty-value",
            old,
            selected(json!({ "matchLabels": { "x.y/a": "" } })),
            None,
        ),
        (
            "selector-operator",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] })),
            Some("selector"),
        ),
        (
            "selector-values",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] })),
            Some("selector"),
        ),
        (
            "selector-exists",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] })),
            None,
        ),
        (
            "cluster-empty",
            old,
            json!({ "clusterName": "", "selector": selector() }),
            Some("clusterName"),
        ),
        (
            "machine-rule",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("NodeReady") })),
            None,
        ),
        (
            "machine-ready",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("Ready") })),
            Some("unhealthyMachineConditions"),
        ),
        ("template", new, template("ATemplate", "x.dev/v1"), None),
    ]
}

/// What only the schema of a CRD refuses, Cluster API's and ours alike.
pub fn schema_cases() -> Vec<Case> {
    let new = "v1beta2";
    let node_rule = json!([{ "type": "", "status": "False", "timeoutSeconds": 1 }]);
    let many = json!(vec![
        json!({ "type": "A", "status": "B", "timeoutSeconds": 1 });
        101
    ]);
    vec![
        (
            "machine-rule-name",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("a b") })),
            Some("unhealthyMachineConditions"),
        ),
        (
            "node-rule-type",
            new,
            nested(json!({ "unhealthyNodeConditions": node_rule })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "node-rules-none",
            new,
            nested(json!({ "unhealthyNodeConditions": [] })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "node-rules-many",
            new,
            nested(json!({ "unhealthyNodeConditions": many })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "remediation-empty",
            new,
            remediation(json!({})),
            Some("remediation"),
        ),
        (
            "trigger-empty",
            new,
            remediation(json!({ "triggerIf": {} })),
            Some("triggerIf"),
        ),
        (
            "template-version",
            new,
            template("ATemplate", "v1"),
            Some("apiVersion"),
        ),
        (
            "template-kind",
            new,
            template("1", "x.dev/v1"),
            Some("kind"),
        ),
    ]
}

/// What we refuse and Cluster API takes: it would not mean what its author meant.
pub fn stricter() -> Vec<Case> {
    let mut mixed = flat("maxUnhealthy", json!(1));
    mixed["remediation"] = json!({ "triggerIf": { "unhealthyInRange": "[1-2]" } });
    vec![
        // Cluster API makes 0 of it, which is never; here it would be at once.
        (
            "startup-split-second",
            "v1beta1",
            flat("nodeStartupTimeout", json!("500ms")),
            Some("nodeStartupTimeout"),
        ),
        ("shapes-mixed", "v1beta1", mixed, Some("remediation")),
    ]
}
