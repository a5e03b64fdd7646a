//! MachineHealthChecks that are accepted or refused.

use serde_json::{Value, json};

/// Name, version, spec, and a part of the message if the case is refused.
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

/// Cases that Cluster API's webhook decides, and in part its schema too.
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
            "startup-word",
            old,
            flat("nodeStartupTimeout", json!("soon")),
            Some("spec.nodeStartupTimeout"),
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
            "max-negative-share",
            old,
            flat("maxUnhealthy", json!("-40%")),
            None,
        ),
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
            "selector-missing",
            old,
            json!({ "clusterName": "demo" }),
            Some("selector"),
        ),
        (
            "selector-prefix",
            old,
            selected(json!({ "matchLabels": { format!("{:a>254}/b", ""): "c" } })),
            Some("selector"),
        ),
        (
            "selector-expression-key",
            old,
            selected(json!({ "matchExpressions": [{ "key": "-", "operator": "Exists" }] })),
            Some("selector.matchExpressions"),
        ),
        (
            "selector-expression-value",
            old,
            selected(json!({ "matchExpressions": [
                { "key": "a", "operator": "In", "values": ["b", "-"] },
            ]})),
            Some("selector.matchExpressions"),
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
            "cluster-missing",
            old,
            json!({ "selector": selector() }),
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
        (
            "machine-ready-flat",
            old,
            flat(
                "unhealthyMachineConditions",
                json!([{ "type": "Ready", "status": "False", "timeout": "1m" }]),
            ),
            Some("unhealthyMachineConditions"),
        ),
        ("template", new, template("ATemplate", "x.dev/v1"), None),
    ]
}

/// Cases that only the schema of Cluster API's CRD refuses.
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
            "cluster-long",
            new,
            json!({ "clusterName": "a".repeat(64), "selector": selector() }),
            Some("clusterName"),
        ),
        (
            "node-rule-timeout",
            new,
            nested(json!({ "unhealthyNodeConditions": [
                { "type": "A", "status": "B", "timeoutSeconds": -1 },
            ]})),
            Some("timeoutSeconds"),
        ),
        (
            "machine-rule-status",
            new,
            nested(json!({ "unhealthyMachineConditions": [
                { "type": "A", "status": "B", "timeoutSeconds": 1 },
            ]})),
            Some("unhealthyMachineConditions[0].status"),
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

/// Cases that Rackhand refuses and Cluster API accepts, because they would not have the intended effect.
pub fn stricter() -> Vec<Case> {
    let old = "v1beta1";
    let mut limits = flat("maxUnhealthy", json!(1));
    limits["remediation"] = json!({ "triggerIf": { "unhealthyInRange": "[1-2]" } });
    let mut rules = nested(json!({ "nodeStartupTimeoutSeconds": 600 }));
    rules["unhealthyConditions"] = json!([{ "type": "A", "status": "B", "timeout": "1m" }]);
    vec![
        // Cluster API rounds it to 0, which means never; here it would mean at once.
        (
            "startup-split-second",
            old,
            flat("nodeStartupTimeout", json!("500ms")),
            Some("nodeStartupTimeout"),
        ),
        ("mixed-limits", old, limits, Some("spec.remediation")),
        ("mixed-rules", old, rules, Some("spec.checks")),
        (
            "template-name-only",
            old,
            flat("remediationTemplate", json!({ "name": "a" })),
            Some("spec.remediationTemplate.kind"),
        ),
        (
            "rule-too-long",
            old,
            flat(
                "unhealthyConditions",
                json!([{ "type": "A", "status": "B", "timeout": "2562047h1m" }]),
            ),
            Some("unhealthyConditions[0].timeout"),
        ),
        // The value cannot be used in a computation either.
        (
            "rule-much-too-long",
            old,
            flat(
                "unhealthyConditions",
                json!([{ "type": "A", "status": "B", "timeout": "9999999h" }]),
            ),
            Some("unhealthyConditions"),
        ),
    ]
}

/// All cases.
pub fn all_cases() -> Vec<Case> {
    let mut all = cases();
    all.extend(schema_cases());
    all.extend(stricter());
    all
}

/// Cases that Cluster API's schema accepts and its webhook refuses.
pub fn only_webhooks() -> Vec<Case> {
    let names = ["startup-29", "max-quoted", "selector-none"];
    let mut cases = cases();
    cases.retain(|(name, ..)| names.contains(name));
    cases
}
