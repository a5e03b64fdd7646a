//! A label selector, as it stands in the spec of a check of either kind.
//!
//! Owns what holds for both; must never look at another field.

use serde_json::Value;

use super::labels::{is_key, is_value};
use super::refusal::Refusal;

/// The names and values of a selector's labels are such as labels have.
pub(super) fn parses(spec: &Value) -> Option<Refusal> {
    let refuse = |field: &str, problem: String| Some(Refusal::new(field, problem));
    let labels = spec
        .pointer("/selector/matchLabels")
        .and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        if !is_key(key) {
            return refuse(
                "spec.selector.matchLabels",
                format!("{key:?} is not a label's name"),
            );
        }
        if value.as_str().is_some_and(|value| !is_value(value)) {
            return refuse(
                "spec.selector.matchLabels",
                format!("{value} at {key:?} is not a label's value"),
            );
        }
    }
    let demands = spec
        .pointer("/selector/matchExpressions")
        .and_then(Value::as_array);
    for demand in demands.into_iter().flatten() {
        let field = "spec.selector.matchExpressions";
        let key = demand
            .get("key")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !is_key(key) {
            return refuse(field, format!("{key:?} is not a label's name"));
        }
        let values = demand.get("values").and_then(Value::as_array);
        for value in values.into_iter().flatten().filter_map(Value::as_str) {
            if !is_value(value) {
                return refuse(field, format!("{value:?} is not a label's value"));
            }
        }
    }
    None
}

/// An empty selector would select everything.
pub(super) fn not_empty(spec: &Value) -> Option<Refusal> {
    let labels = spec
        .pointer("/selector/matchLabels")
        .and_then(Value::as_object);
    let demands = spec
        .pointer("/selector/matchExpressions")
        .and_then(Value::as_array);
    let empty = labels.is_none_or(serde_json::Map::is_empty) && demands.is_none_or(Vec::is_empty);
    empty.then(|| Refusal::new("spec.selector", "must not be empty"))
}
