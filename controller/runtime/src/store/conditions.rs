//! Patches of conditions in Cluster API's two lists.
//!
//! Pure. Entries of other controllers in the same list are kept.

use crate::store::clock::whole_seconds;
use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::views::{ConditionList, Shape};
use serde_json::{Map, Value, json};

/// A condition to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewCondition<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    /// The severity, which only the v1beta1 list has, and only if the status is False.
    pub(crate) severity: Option<&'a str>,
}

/// One of the two lists of conditions.
pub(crate) fn conditions(object: &DynamicObject, shape: Shape, list: ConditionList) -> Vec<Value> {
    let found = shape
        .path(list)
        .split('.')
        .try_fold(&object.data, |value, key| value.get(key))
        .and_then(Value::as_array);
    found.cloned().unwrap_or_default()
}

/// The list with the condition set; `None` if nothing changes. `lastTransitionTime` changes with
/// the status in the v1beta2 list, and with any field in the v1beta1 list
/// (docs/reference/cluster-api.md, Conditions and Events).
pub(crate) fn set_condition(
    mut conditions: Vec<Value>,
    new: &NewCondition<'_>,
    list: ConditionList,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<Vec<Value>> {
    let text = |value: &Value, field: &str| -> String {
        value
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let target = conditions.iter().position(|c| text(c, "type") == new.type_);
    let old = target.and_then(|i| conditions.get(i));
    let same_status = old.is_some_and(|c| text(c, "status") == new.status);
    let same = same_status
        && old.is_some_and(|c| {
            text(c, "reason") == new.reason
                && text(c, "message") == new.message
                && text(c, "severity") == new.severity.unwrap_or_default()
        });
    if same {
        return None;
    }
    let keep_time = list == ConditionList::V1Beta2 && same_status;
    let since = match old {
        Some(c) if keep_time => text(c, "lastTransitionTime"),
        _ => whole_seconds(now),
    };
    let mut fields = Map::new();
    fields.insert("type".into(), new.type_.into());
    fields.insert("status".into(), new.status.into());
    fields.insert("lastTransitionTime".into(), since.into());
    match list {
        ConditionList::V1Beta1 => {
            for (name, value) in [
                ("severity", new.severity.unwrap_or_default()),
                ("reason", new.reason),
                ("message", new.message),
            ] {
                if !value.is_empty() {
                    fields.insert(name.into(), value.into());
                }
            }
        }
        ConditionList::V1Beta2 => {
            fields.insert("reason".into(), new.reason.into());
            fields.insert("message".into(), new.message.into());
            if let Some(generation) = generation {
                fields.insert("observedGeneration".into(), generation.into());
            }
        }
    }
    match target {
        Some(i) => {
            if let Some(slot) = conditions.get_mut(i) {
                *slot = Value::Object(fields);
            }
        }
        None => conditions.push(Value::Object(fields)),
    }
    Some(conditions)
}

/// A patch that sets conditions in both lists of a Cluster API object and removes conditions of the types
/// `gone`; `None` if nothing changes. It fails if the object has changed meanwhile, because other controllers
/// write into the same lists.
pub(crate) fn both_lists(
    object: &DynamicObject,
    shape: Shape,
    v1beta1: &[NewCondition<'_>],
    v1beta2: &[NewCondition<'_>],
    gone: &[&str],
    now: Timestamp,
) -> Option<Value> {
    let generation = object.metadata.generation;
    let mut changed = false;
    let mut apply = |list: ConditionList, changes: &[NewCondition<'_>]| -> Value {
        let mut conditions = conditions(object, shape, list);
        let before = conditions.len();
        conditions.retain(|c| {
            !c.get("type")
                .and_then(Value::as_str)
                .is_some_and(|t| gone.contains(&t))
        });
        changed |= conditions.len() != before;
        for new in changes {
            if let Some(set) = set_condition(conditions.clone(), new, list, generation, now) {
                conditions = set;
                changed = true;
            }
        }
        Value::Array(conditions)
    };
    let old = apply(ConditionList::V1Beta1, v1beta1);
    let new = apply(ConditionList::V1Beta2, v1beta2);
    changed.then(|| {
        json!({
            "metadata": { "resourceVersion": object.metadata.resource_version },
            "status": shape.status_with(&old, &new),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new<'a>(status: &'a str, message: &'a str) -> NewCondition<'a> {
        NewCondition {
            type_: "T",
            status,
            reason: "R",
            message,
            severity: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_changes_with_status_in_v1beta2_and_any_change_in_v1beta1() {
        let list = |which, second, message: &str, old: Vec<Value>| {
            set_condition(old, &new("False", message), which, Some(3), at(second)).unwrap()
        };
        let first = list(ConditionList::V1Beta2, 1, "a", vec![]);
        let second = list(ConditionList::V1Beta2, 2, "b", first.clone());
        assert_eq!(
            first[0]["lastTransitionTime"],
            second[0]["lastTransitionTime"]
        );
        let third = set_condition(
            second,
            &new("True", "b"),
            ConditionList::V1Beta2,
            None,
            at(3),
        );
        assert_eq!(
            third.unwrap()[0]["lastTransitionTime"],
            "1970-01-01T00:00:03Z"
        );
        let first = list(ConditionList::V1Beta1, 1, "a", vec![]);
        let second = list(ConditionList::V1Beta1, 2, "b", first);
        assert_eq!(second[0]["lastTransitionTime"], "1970-01-01T00:00:02Z");
        assert!(second[0].get("observedGeneration").is_none());
    }

    #[test]
    fn unchanged_condition_is_not_written_and_other_conditions_are_kept() {
        let other = json!({"type": "Other", "status": "True", "x": 1});
        let set = set_condition(
            vec![other.clone()],
            &new("False", "m"),
            ConditionList::V1Beta2,
            None,
            at(1),
        )
        .unwrap();
        assert_eq!(set[0], other);
        assert_eq!(
            set_condition(set, &new("False", "m"), ConditionList::V1Beta2, None, at(9)),
            None
        );
    }
}
