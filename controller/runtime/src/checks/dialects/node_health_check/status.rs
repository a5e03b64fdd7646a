//! The status of a NodeHealthCheck.
//!
//! Invariant: an unchanged status is never written.

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_core::checks::nodes::{Flag, NodeCheckStatus, Tried};
use serde_json::{Value, json};

use crate::store::clock::whole_seconds;

const OURS: [&str; 3] = ["Disabled", "StormActive", "StormCooldownActive"];

fn condition(type_: &str, flag: &Flag, reason: &str, message: &str) -> Value {
    json!({
        "type": type_,
        "status": if flag.on { "True" } else { "False" },
        "reason": reason,
        "message": message,
        "lastTransitionTime": whole_seconds(flag.since),
    })
}

fn tried(tried: &Tried) -> Value {
    let id = &tried.id;
    let mut entry = json!({
        "resource": {
            "apiVersion": id.api_version,
            "kind": id.kind,
            "name": id.name,
            "uid": tried.uid,
        },
        "started": whole_seconds(tried.started),
    });
    if !id.namespace.is_empty() {
        entry["resource"]["namespace"] = id.namespace.clone().into();
    }
    if let Some(at) = tried.timed_out {
        entry["timedOut"] = whole_seconds(at).into();
    }
    if let Some(template) = &tried.template {
        entry["templateName"] = template.clone().into();
    }
    entry
}

/// The patch of the status. Conditions of other controllers are kept.
pub(super) fn body(object: &DynamicObject, memory: &NodeCheckStatus, now: Timestamp) -> Value {
    let others = object.data.pointer("/status/conditions");
    let others = others.and_then(Value::as_array).into_iter().flatten();
    let is_ours = |c: &&Value| {
        let type_ = c.get("type").and_then(Value::as_str).unwrap_or_default();
        !OURS.contains(&type_)
    };
    let mut conditions: Vec<Value> = others.filter(is_ours).cloned().collect();
    if let Some((flag, reason, message)) = &memory.disabled {
        conditions.push(condition("Disabled", flag, reason, message));
    }
    let threshold = "HealthyNodeThresholdChange";
    if let Some(flag) = &memory.storm {
        let message = if flag.on {
            "the limit was reached; nothing new is remediated"
        } else {
            "the last storm is over"
        };
        conditions.push(condition("StormActive", flag, threshold, message));
    }
    if let Some(flag) = &memory.cooldown {
        let message = if flag.on {
            "enough Nodes are healthy again; the cooldown runs"
        } else {
            "no cooldown runs"
        };
        conditions.push(condition("StormCooldownActive", flag, threshold, message));
    }
    let unhealthy = memory.nodes.iter().map(|(name, entry)| {
        let mut value = json!({ "name": name });
        if !entry.tried.is_empty() {
            value["remediations"] = entry.tried.iter().map(tried).collect();
        }
        if let Some(since) = entry.healthy_since {
            value["conditionsHealthyTimestamp"] = whole_seconds(since).into();
        }
        if entry.delayed {
            value["healthyDelayed"] = true.into();
        }
        value
    });
    json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": {
            "observedNodes": memory.observed,
            "healthyNodes": memory.healthy,
            "unhealthyNodes": unhealthy.collect::<Vec<_>>(),
            "inFlightRemediations": null,
            "conditions": conditions,
            "phase": memory.phase.map(rackhand_core::checks::nodes::Phase::word),
            "reason": memory.reason,
            "lastUpdateTime": whole_seconds(now),
        },
    })
}

/// Whether the status of the object differs.
pub(super) fn differs(object: &DynamicObject, memory: &NodeCheckStatus) -> bool {
    let mut new = body(object, memory, Timestamp::UNIX_EPOCH);
    let mut new = new["status"].take();
    let mut old = object.data.get("status").cloned().unwrap_or_default();
    for status in [&mut new, &mut old] {
        if let Some(status) = status.as_object_mut() {
            status.remove("lastUpdateTime");
            status.retain(|_, value| !value.is_null());
            // An API server stores an empty list either as written or not at all.
            status.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
    }
    new != old
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rackhand_api::views::NodeHealthCheckView;
    use rackhand_core::checks::nodes::{Entry, Phase, RemediationId};

    use super::*;
    use crate::checks::dialects::node_health_check::rules;

    #[test]
    fn check_status_round_trips_through_object() {
        let at = |s: i64| Timestamp::from_second(1_800_000_000 + s).unwrap();
        let flag = |on, s| Flag { on, since: at(s) };
        let tried = |template: &str, timed_out| Tried {
            id: RemediationId {
                api_version: "x.y/v1".into(),
                kind: "X".into(),
                namespace: "ns".into(),
                name: format!("n-{template}"),
            },
            uid: format!("u-{template}"),
            template: Some(template.into()),
            started: at(5),
            timed_out,
        };
        let memory = NodeCheckStatus {
            observed: 3,
            healthy: 2,
            nodes: BTreeMap::from([(
                "n".to_owned(),
                Entry {
                    tried: vec![tried("a", Some(at(7))), tried("b", None)],
                    healthy_since: Some(at(9)),
                    delayed: true,
                },
            )]),
            disabled: Some((
                flag(false, 1),
                "NodeHealthCheckEnabled".into(),
                "yes".into(),
            )),
            storm: Some(flag(true, 2)),
            cooldown: Some(flag(true, 3)),
            phase: Some(Phase::Remediating),
            reason: "because".into(),
        };
        let mut object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "c", "resourceVersion": "7" },
            "status": { "conditions": [
                { "type": "Other", "status": "True" },
                { "type": "StormActive", "status": "False" },
            ] },
        }))
        .unwrap();
        let written = body(&object, &memory, at(10));
        assert_eq!(written["metadata"]["resourceVersion"], "7");
        let conditions = written["status"]["conditions"].as_array().unwrap();
        assert_eq!(
            conditions.len(),
            4,
            "conditions of other controllers are kept"
        );
        assert_eq!(written["status"]["lastUpdateTime"], "2027-01-15T08:00:10Z");
        object.data["status"] = written["status"].clone();
        assert!(
            !differs(&object, &memory),
            "an unchanged status is not written"
        );
        let view = NodeHealthCheckView::from_dynamic(&object).unwrap();
        let read = rules::memory(&view);
        let kept = NodeCheckStatus {
            observed: 0,
            healthy: 0,
            phase: None,
            reason: String::new(),
            ..memory
        };
        assert_eq!(read, kept);
    }
}
