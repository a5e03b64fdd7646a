//! NodeHealthChecks that are accepted or refused.

use serde_json::{Value, json};

/// Name, spec, and a part of the message if the case is refused.
pub type Case = (&'static str, Value, Option<&'static str>);

fn template(kind: &str) -> Value {
    json!({ "apiVersion": "x.y/v1", "kind": kind, "name": "t", "namespace": "ns" })
}

pub fn step(order: i64, timeout: &str) -> Value {
    json!({ "remediationTemplate": template("XTemplate"), "order": order, "timeout": timeout })
}

/// A spec of the current form with changed fields; null removes a field.
pub fn spec(more: Value) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "pool": "a" } },
        "minHealthy": "51%",
        "remediationTemplate": template("XTemplate"),
    });
    if let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) {
        fields.extend(more);
        fields.retain(|_, value| !value.is_null());
    }
    spec
}

/// A spec of the current form with an escalation.
pub fn escalating(steps: &Value) -> Value {
    spec(json!({ "remediationTemplate": null, "escalatingRemediations": steps }))
}

/// A spec with `maxUnhealthy`.
fn at_most(more: Value) -> Value {
    let mut spec = spec(more);
    spec.as_object_mut().unwrap().remove("minHealthy");
    spec["maxUnhealthy"] = json!(1);
    spec
}

fn without(mut spec: Value, field: &str) -> Value {
    spec.as_object_mut().unwrap().remove(field);
    spec
}

fn condition(type_: &str, duration: &str) -> Value {
    json!({ "type": type_, "status": "False", "duration": duration })
}

pub fn all_cases() -> Vec<Case> {
    let mut all = accepted();
    all.extend(refused_limits_and_selectors());
    all.extend(refused_templates_and_conditions());
    all
}

fn accepted() -> Vec<Case> {
    let exists = json!([{ "key": "pool", "operator": "Exists" }]);
    [
        ("today", spec(json!({}))),
        // The example of medik8s' documentation.
        (
            "older",
            json!({ "remediationTemplate": template("XTemplate") }),
        ),
        (
            "older-limit",
            json!({ "remediationTemplate": template("XTemplate"), "maxUnhealthy": "49%" }),
        ),
        ("steps", escalating(&json!([step(2, "5m"), step(1, "60s")]))),
        ("negative-order", escalating(&json!([step(-3, "1m0s")]))),
        ("at-most", at_most(json!({}))),
        ("zero", spec(json!({ "minHealthy": 0 }))),
        ("quoted", spec(json!({ "minHealthy": "8" }))),
        ("delay", spec(json!({ "healthyDelay": "-1s" }))),
        ("cooldown", spec(json!({ "stormCooldownDuration": "1.5h" }))),
        ("paused", spec(json!({ "pauseRequests": ["an upgrade"] }))),
        (
            "expression",
            spec(json!({ "selector": { "matchExpressions": exists } })),
        ),
        (
            "condition",
            spec(json!({ "unhealthyConditions": [condition("Ready", "300s")] })),
        ),
    ]
    .map(|(name, spec)| (name, spec, None))
    .into()
}

fn refused_limits_and_selectors() -> Vec<Case> {
    let none = Value::Null;
    let selector = |selector: Value| spec(json!({ "selector": selector }));
    [
        (
            "no-selector",
            spec(json!({ "selector": none })),
            "spec.selector",
        ),
        ("empty-selector", selector(json!({})), "must not be empty"),
        (
            "empty-lists",
            selector(json!({ "matchLabels": {}, "matchExpressions": [] })),
            "must not be empty",
        ),
        (
            "label-key",
            selector(json!({ "matchLabels": { "a b": "c" } })),
            "spec.selector.matchLabels",
        ),
        (
            "operator",
            selector(json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] })),
            "spec.selector.matchExpressions[0].operator",
        ),
        (
            "no-values",
            selector(json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] })),
            "In and NotIn need values",
        ),
        (
            "two-limits",
            spec(json!({ "maxUnhealthy": 1 })),
            "only one of minHealthy",
        ),
        (
            "no-limit",
            without(escalating(&json!([step(1, "60s")])), "minHealthy"),
            "spec.minHealthy",
        ),
        (
            "much",
            spec(json!({ "minHealthy": "101%" })),
            "spec.minHealthy",
        ),
        (
            "negative",
            spec(json!({ "minHealthy": -1 })),
            "spec.minHealthy",
        ),
        (
            "word",
            spec(json!({ "minHealthy": "half" })),
            "spec.minHealthy",
        ),
        (
            "large-quoted",
            spec(json!({ "minHealthy": "4294967296" })),
            "spec.minHealthy",
        ),
    ]
    .map(|(name, spec, word)| (name, spec, Some(word)))
    .into()
}

fn refused_templates_and_conditions() -> Vec<Case> {
    let none = Value::Null;
    let deletion = || template("machineDeletionRemediationTemplate");
    let conditions = |list: Value| spec(json!({ "unhealthyConditions": list }));
    let mut deleting = step(1, "60s");
    deleting["remediationTemplate"] = deletion();
    let mut no_apiversion = template("XTemplate");
    no_apiversion.as_object_mut().unwrap().remove("apiVersion");
    let steps = json!([step(1, "60s")]);
    [
        (
            "no-template",
            spec(json!({ "remediationTemplate": none })),
            "exactly one of",
        ),
        (
            "two-templates",
            spec(json!({ "escalatingRemediations": steps })),
            "exactly one of",
        ),
        (
            "no-steps",
            escalating(&json!([])),
            "spec.escalatingRemediations",
        ),
        (
            "kind",
            spec(json!({ "remediationTemplate": template("X") })),
            "spec.remediationTemplate.kind",
        ),
        (
            "no-api-version",
            spec(json!({ "remediationTemplate": no_apiversion })),
            "spec.remediationTemplate.apiVersion",
        ),
        (
            "deletion",
            at_most(json!({ "remediationTemplate": deletion() })),
            "MachineDeletion",
        ),
        (
            "deletion-step",
            at_most(json!({
                "remediationTemplate": none,
                "escalatingRemediations": [step(2, "60s"), deleting],
            })),
            "MachineDeletion",
        ),
        (
            "same-order",
            escalating(&json!([step(1, "60s"), step(1, "60s")])),
            "order",
        ),
        (
            "no-order",
            escalating(&json!([without(step(1, "60s"), "order")])),
            "spec.escalatingRemediations[0].order",
        ),
        (
            "short-step",
            escalating(&json!([step(1, "60s"), step(2, "59.9s")])),
            "60s or more",
        ),
        (
            "step-word",
            escalating(&json!([step(1, "soon")])),
            "spec.escalatingRemediations[0].timeout",
        ),
        (
            "soon",
            spec(json!({ "healthyDelay": "soon" })),
            "spec.healthyDelay",
        ),
        (
            "minus",
            spec(json!({ "stormCooldownDuration": "-5m" })),
            "spec.stormCooldownDuration",
        ),
        (
            "no-type",
            conditions(json!([condition("", "1s")])),
            "spec.unhealthyConditions[0].type",
        ),
        (
            "no-duration",
            conditions(json!([{ "type": "A", "status": "B" }])),
            "spec.unhealthyConditions[0].duration",
        ),
        (
            "negative-duration",
            conditions(json!([condition("Ready", "-1s")])),
            "spec.unhealthyConditions[0].duration",
        ),
        (
            "twice",
            conditions(json!([condition("Ready", "1s"), condition("Ready", "2s")])),
            "Duplicate value",
        ),
    ]
    .map(|(name, spec, word)| (name, spec, Some(word)))
    .into()
}
