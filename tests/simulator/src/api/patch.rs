//! Patches of objects.

use serde_json::{Map, Value};

/// A JSON merge patch (RFC 7386).
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(into) = object else {
        return;
    };
    for (name, value) in fields {
        if value.is_null() {
            into.remove(name);
        } else {
            merge(into.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A server-side apply by one manager with `force`: what it applies stands there, and what it applied
/// before and does not apply any more is removed. Lists are replaced as a whole, except conditions, which
/// are merged by their type.
pub(super) fn apply(object: &mut Value, before: Option<&Value>, applied: &Value) {
    if let Some(before) = before {
        remove_missing(object, before, applied);
    }
    put(object, applied);
}

fn remove_missing(object: &mut Value, before: &Value, applied: &Value) {
    let (Value::Object(object), Value::Object(before)) = (object, before) else {
        return;
    };
    for (name, old) in before {
        match applied.get(name) {
            None => {
                object.remove(name);
            }
            Some(new) => {
                if let Some(inner) = object.get_mut(name) {
                    remove_missing(inner, old, new);
                }
            }
        }
    }
}

fn put(object: &mut Value, applied: &Value) {
    let Value::Object(fields) = applied else {
        *object = applied.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(into) = object else {
        return;
    };
    for (name, value) in fields {
        let there = into.entry(name.clone()).or_insert(Value::Null);
        match (name.as_str(), there.as_array_mut(), value.as_array()) {
            ("conditions", Some(there), Some(new)) => {
                for condition in new {
                    match there.iter_mut().find(|c| c["type"] == condition["type"]) {
                        Some(old) => put(old, condition),
                        None => there.push(condition.clone()),
                    }
                }
            }
            _ => put(there, value),
        }
    }
}
