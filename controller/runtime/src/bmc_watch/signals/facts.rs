//! What of the objects of a host says why it may be off.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use rackhand_core::{
    limits::concurrency::ActiveRemediation,
    signals::{BareMetalHostReport, ConditionStatus, NotAFailure, Signal},
};
use serde_json::Value;

use crate::{
    agents::WatchedHost,
    bmc_watch::watched::Watched,
    store::{index::Index, object::Key},
};

/// Message of the condition Ready while a kubelet ends its pods.
const SHUTTING_DOWN: &str = "node is shutting down";

/// The status and the reason of the condition of a signal.
pub(super) fn published(node: &Node, signal: Signal) -> Option<(ConditionStatus, String)> {
    let status = node.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == signal.condition_type())?;
    let reason = found.reason.clone().unwrap_or_default();
    Some((ConditionStatus::of(&found.status), reason))
}

/// The remediation of a host. One that waits counts as well, because it may begin at any time.
pub(super) fn remediation<'a>(
    mut active: impl Iterator<Item = &'a ActiveRemediation>,
    watched: &Watched,
    node: &str,
) -> Option<NotAFailure> {
    let of_host = |remediation: &&ActiveRemediation| {
        remediation.node.as_deref() == Some(node)
            || remediation.bmc.as_deref() == Some(watched.host.bmc.as_str())
    };
    let found = active.find(of_host)?;
    Some(NotAFailure::Switched(found.name.clone()))
}

/// What the agent has done to the host since it was on for the last time.
pub(super) fn switched(host: &WatchedHost, on: Timestamp) -> Option<NotAFailure> {
    let by = host.switched_by.clone();
    let last = host.last_switch.filter(|at| *at >= on);
    let by = by.or_else(|| last.map(|_| "an operation at its agent".to_owned()));
    by.map(NotAFailure::Switched)
}

/// Whether the Node went down in order or was cordoned, by a live read of it.
pub(super) fn by_node(node: &Node) -> Option<NotAFailure> {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
    let is_shut_down = conditions.into_iter().flatten().any(|condition| {
        let message = condition.message.as_deref().unwrap_or_default();
        condition.type_ == "Ready" && condition.status == "False" && message.contains(SHUTTING_DOWN)
    });
    if is_shut_down {
        return Some(NotAFailure::ShutDown);
    }
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    is_cordoned.then_some(NotAFailure::Cordoned)
}

/// Whether the owner of the host wants it off, or does with it what it wants.
pub(super) fn by_owner(index: &Index, watched: &Watched) -> Option<NotAFailure> {
    let key = watched.host.bmh.as_deref().map(Key::parse)?;
    let entry = index.host(&key)?;
    let view = entry.view.as_ref().ok()?;
    let wants = if view.online == Some(false) {
        format!("BareMetalHost {key} has online: false")
    } else if let Some(hold) = view.power_holds().next() {
        let by = hold.key.unwrap_or("a reboot annotation");
        format!("BareMetalHost {key} is kept off by {by}")
    } else if !view.is_provisioned() {
        let state = view.provisioning_state.as_deref().unwrap_or("no state");
        format!("BareMetalHost {key} is not provisioned ({state})")
    } else {
        return None;
    };
    Some(NotAFailure::OwnerWantsOff(wants))
}

/// The conditions Healthy and Manageable of the BareMetalHost.
pub(super) fn owner_report(index: &Index, watched: &Watched) -> BareMetalHostReport {
    let key = watched.host.bmh.as_deref().map(Key::parse);
    let entry = key.and_then(|key| index.host(&key));
    let Some(entry) = entry else {
        return BareMetalHostReport::default();
    };
    let conditions = entry.object.data.pointer("/status/conditions");
    bare_metal_host_report(conditions.unwrap_or(&Value::Null))
}

fn bare_metal_host_report(conditions: &Value) -> BareMetalHostReport {
    let of = |name: &str| {
        let mut all = conditions.as_array().into_iter().flatten();
        all.find(|condition| condition.get("type").and_then(Value::as_str) == Some(name))
    };
    let is = |name: &str| match of(name)?.get("status")?.as_str()? {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    };
    let message = of("Healthy").and_then(|c| c.get("message")?.as_str());
    BareMetalHostReport {
        healthy: is("Healthy"),
        manageable: is("Manageable"),
        message: message.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn node_that_went_down_in_order_or_is_cordoned_is_recognised() {
        let ready = |status: &str, message: &str| {
            node(
                json!({ "metadata": { "name": "n" }, "status": { "conditions": [
                    { "type": "Ready", "status": status, "message": message },
                ]}}),
            )
        };
        assert_eq!(
            by_node(&ready("False", "node is shutting down")),
            Some(NotAFailure::ShutDown)
        );
        assert_eq!(
            by_node(&ready("True", "kubelet is posting ready status")),
            None
        );
        assert_eq!(by_node(&ready("False", "container runtime is down")), None);
        let cordoned =
            node(json!({ "metadata": { "name": "n" }, "spec": { "unschedulable": true } }));
        assert_eq!(by_node(&cordoned), Some(NotAFailure::Cordoned));
    }

    #[test]
    fn only_a_switch_since_the_host_was_on_explains_that_it_is_off() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let host = |switched_by: Option<&str>, last_switch: Option<i64>| WatchedHost {
            id: "r1/h1".into(),
            readings: Vec::new(),
            is_refused: false,
            switched_by: switched_by.map(str::to_owned),
            last_switch: last_switch.map(at),
            is_locator_lit: false,
            stop: None,
            defects: None,
        };
        assert_eq!(switched(&host(None, None), at(100)), None);
        // The power-on of a former remediation.
        assert_eq!(switched(&host(None, Some(90)), at(100)), None);
        for host in [host(None, Some(101)), host(Some("a hold of x"), None)] {
            assert!(matches!(
                switched(&host, at(100)),
                Some(NotAFailure::Switched(_))
            ));
        }
    }

    #[test]
    fn conditions_of_baremetal_operator_are_read_where_they_exist() {
        let conditions = json!([
            { "type": "Healthy", "status": "False", "message": "DIMM" },
            { "type": "Manageable", "status": "True" },
        ]);
        let report = bare_metal_host_report(&conditions);
        assert_eq!(
            (report.healthy, report.manageable),
            (Some(false), Some(true))
        );
        assert_eq!(report.message, "DIMM");
        for odd in [
            json!(null),
            json!([{ "type": "Healthy", "status": 1 }]),
            json!({}),
        ] {
            assert_eq!(bare_metal_host_report(&odd), BareMetalHostReport::default());
        }
    }
}
