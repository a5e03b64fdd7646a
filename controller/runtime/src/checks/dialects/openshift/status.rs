//! The status of a check of OpenShift: conditions with severity, and counts.
//!
//! Invariant: an unchanged status, and the status of a paused check, are never written.

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::conditions::REMEDIATION_ALLOWED,
    views::{OpenShiftHealthCheckView, Shape},
};
use serde_json::{Value, json};

use crate::{
    checks::{Context, conditions, engine::status_writer::patch_check, machines::dialect::Summary},
    store::{
        api::ApiError,
        conditions::{NewCondition, both_lists},
        object::{Key, Kind},
    },
};

/// The patch of the status; `None` if nothing changes. Unlike upstream, conditions of template and
/// remediations are kept, and removed when they no longer apply.
pub(super) fn patch(
    object: &DynamicObject,
    view: &OpenShiftHealthCheckView,
    summary: &Summary,
    now: Timestamp,
) -> Option<Value> {
    let gate = &summary.gate;
    let failed = summary.failed.as_ref().map(|f| (f.reason, f.why.as_str()));
    let (complaint, mut gone) = conditions::external(|t| view.condition(t).is_some(), failed);
    let mut new: Vec<NewCondition<'_>> = complaint.into_iter().collect();
    gone.extend(summary.notices.resolved(|t| view.condition(t).is_some()));
    new.extend(summary.notices.conditions());
    new.push(NewCondition {
        type_: REMEDIATION_ALLOWED,
        status: if gate.open { "True" } else { "False" },
        reason: if gate.open { "" } else { "TooManyUnhealthy" },
        message: &gate.message,
        severity: (!gate.open).then_some("Warning"),
    });
    let list = conditions_of(object, &new, &gone, now);
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let counts = [
        (
            "expectedMachines",
            number(summary.tally.expected),
            view.expected_machines,
        ),
        (
            "currentHealthy",
            number(summary.tally.healthy),
            view.current_healthy,
        ),
        (
            "remediationsAllowed",
            number(gate.remediations_allowed),
            view.remediations_allowed,
        ),
    ];
    if list.is_none() && counts.iter().all(|(_, new, old)| *old == Some(*new)) {
        return None;
    }
    let mut status = serde_json::Map::new();
    for (field, number, _) in counts {
        status.insert(field.into(), number.into());
    }
    status.extend(list.map(|list| ("conditions".to_owned(), list)));
    Some(json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": status,
    }))
}

/// The list of conditions in the v1beta1 form, which is the only one of OpenShift.
fn conditions_of(
    object: &DynamicObject,
    new: &[NewCondition<'_>],
    gone: &[&str],
    now: Timestamp,
) -> Option<Value> {
    let mut body = both_lists(object, Shape::V1Beta1, new, &[], gone, now)?;
    body.pointer_mut("/status/conditions").map(Value::take)
}

/// The patch for a check that cannot be parsed; `None` if nothing changes.
fn invalid(object: &DynamicObject, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let said = NewCondition {
        type_: REMEDIATION_ALLOWED,
        status: "False",
        reason,
        message,
        severity: Some("Error"),
    };
    let list = conditions_of(object, &[said], &[], now)?;
    Some(json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": { "conditions": list },
    }))
}

/// Writes the status of a check, and sends its Events.
pub(super) async fn write(context: &Context, key: &Key, summary: &Summary) -> Result<(), ApiError> {
    let Some(entry) = context.index.openshift_check(key) else {
        return Ok(());
    };
    let Ok(view) = entry.view else {
        return Ok(());
    };
    let events = &context.events;
    for notice in summary.notices.conditions() {
        events.send(&entry.object, true, notice.reason, notice.message);
    }
    if !summary.gate.open {
        let message = &summary.gate.message;
        events.send(&entry.object, true, "RemediationRestricted", message);
    }
    if let Some(body) = patch(&entry.object, &view, summary, Timestamp::now()) {
        patch_check(context, Kind::OpenShiftCheck, key, body).await?;
    }
    Ok(())
}

/// Reports on a check why it is not evaluated.
pub(super) async fn report_invalid(
    context: &Context,
    key: &Key,
    reason: &str,
    message: &str,
) -> Result<(), ApiError> {
    let Some(entry) = context.index.openshift_check(key) else {
        return Ok(());
    };
    if let Some(body) = invalid(&entry.object, reason, message, Timestamp::now()) {
        context.events.send(&entry.object, true, reason, message);
        patch_check(context, Kind::OpenShiftCheck, key, body).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rackhand_core::checks::machines::{FleetCounts, LimitStatus};

    use super::*;
    use crate::checks::{conditions::Notices, remediations::template::Unusable};

    fn object(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": { "name": "c", "namespace": "ns", "resourceVersion": "7" },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    fn patched(object: &DynamicObject, summary: &Summary) -> Option<Value> {
        let view = OpenShiftHealthCheckView::from_dynamic(object).unwrap();
        patch(object, &view, summary, Timestamp::UNIX_EPOCH)
    }

    fn open() -> Summary {
        Summary {
            tally: FleetCounts {
                expected: 2,
                healthy: 2,
                ..FleetCounts::default()
            },
            targets: None,
            gate: gate(true, 1, ""),
            paused: false,
            failed: None,
            notices: Notices::default(),
        }
    }

    fn gate(open: bool, remediations_allowed: u32, message: &str) -> LimitStatus {
        LimitStatus {
            open,
            expected: 2,
            not_healthy: 0,
            remediations_allowed,
            message: message.into(),
        }
    }

    /// Applies a patch as the API server does, which replaces lists.
    fn taken(body: &Value) -> DynamicObject {
        object(&body["status"])
    }

    #[test]
    fn status_matches_openshift_format_and_is_written_once() {
        let body = patched(&object(&json!({})), &open()).unwrap();
        let now = "1970-01-01T00:00:00Z";
        assert_eq!(
            body,
            json!({
                "metadata": { "resourceVersion": "7" },
                "status": {
                    "expectedMachines": 2, "currentHealthy": 2, "remediationsAllowed": 1,
                    "conditions": [
                        { "type": "RemediationAllowed", "status": "True", "lastTransitionTime": now },
                    ],
                },
            })
        );
        assert_eq!(patched(&taken(&body), &open()), None);
        let closed = Summary {
            gate: gate(false, 0, "why"),
            ..open()
        };
        let body = patched(&object(&json!({})), &closed).unwrap();
        assert_eq!(
            body["status"]["conditions"],
            json!([{
                "type": "RemediationAllowed", "status": "False", "severity": "Warning",
                "reason": "TooManyUnhealthy", "message": "why", "lastTransitionTime": now,
            }])
        );
    }

    #[test]
    fn template_conditions_are_kept_until_resolved() {
        let failed = |reason| Summary {
            failed: Some(Unusable {
                reason,
                why: "why".into(),
            }),
            ..open()
        };
        let types = |body: &Value| {
            let list = body["status"]["conditions"].as_array().unwrap();
            let text = |c: &Value| format!("{} {} {}", c["type"], c["reason"], c["severity"]);
            list.iter().map(text).collect::<Vec<_>>()
        };
        let missing = failed("RemediationTemplateNotFound");
        let body = patched(&object(&json!({})), &missing).unwrap();
        assert_eq!(
            types(&body)[0],
            "\"ExternalRemediationTemplateAvailable\" \"ExternalRemediationTemplateNotFound\" \"Error\""
        );
        let there = taken(&body);
        assert_eq!(patched(&there, &missing), None);
        let refused = failed("RemediationRequestCreationFailed");
        let body = patched(&there, &refused).unwrap();
        let said = types(&body).join("; ");
        assert!(
            said.contains("ExternalRemediationRequestCreationFailed"),
            "{said}"
        );
        assert!(!said.contains("TemplateNotFound"), "{said}");
        let body = patched(&taken(&body), &open()).unwrap();
        assert_eq!(types(&body).len(), 1);
    }

    #[test]
    fn overlap_and_clock_skew_conditions_are_removed_once_resolved() {
        let notices = Notices {
            stale: None,
            overlapping: Some("who".into()),
            ahead: Some("when".into()),
        };
        let both = Summary { notices, ..open() };
        let body = patched(&object(&json!({})), &both).unwrap();
        let said = |i: usize| {
            let said = &body["status"]["conditions"][i];
            let word = |field: &str| said[field].as_str().unwrap().to_owned();
            (word("type"), word("message"))
        };
        assert_eq!(said(0), ("Overlapping".into(), "who".into()));
        assert_eq!(said(1), ("ClockSkew".into(), "when".into()));
        assert_eq!(patched(&taken(&body), &both), None);
        let body = patched(&taken(&body), &open()).unwrap();
        assert_eq!(
            body["status"]["conditions"].as_array().map(Vec::len),
            Some(1)
        );
    }

    #[test]
    fn invalid_spec_condition_is_written_once() {
        let body = invalid(
            &object(&json!({})),
            "InvalidSpec",
            "why",
            Timestamp::UNIX_EPOCH,
        )
        .unwrap();
        assert_eq!(body["status"]["conditions"][0]["reason"], "InvalidSpec");
        assert_eq!(
            invalid(&taken(&body), "InvalidSpec", "why", Timestamp::UNIX_EPOCH),
            None
        );
    }
}
