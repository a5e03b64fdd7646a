//! What an evaluation leaves in a check of OpenShift: conditions with severity, and counts.
//!
//! Must never write what stands there already, nor anything into a check that is paused.

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::{
    names::conditions::REMEDIATION_ALLOWED,
    views::{OpenShiftHealthCheckView, Shape},
};
use serde_json::{Value, json};

use super::super::{
    Context,
    conditions::patch_status,
    recipe::Unusable,
    shown::{self, Asides},
};
use crate::{
    api::ApiError,
    object::{Key, Kind},
    remediation::{NewCondition, both_lists},
    writer::Lane,
};

/// What a check shall show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) expected: u32,
    pub(super) healthy: u32,
    pub(super) allowed: u32,
    pub(super) open: bool,
    /// Why it is closed.
    pub(super) message: String,
    /// Why a request that is due was not made.
    pub(super) failed: Option<Unusable>,
    pub(super) asides: Asides,
}

/// The patch; `None`: it stands there already. Unlike upstream's, what is said of template and
/// requests is kept, and taken back when it holds no more.
pub(super) fn patch(
    object: &DynamicObject,
    view: &OpenShiftHealthCheckView,
    shown: &Shown,
    now: Timestamp,
) -> Option<Value> {
    let failed = shown.failed.as_ref().map(|f| (f.reason, f.why.as_str()));
    let (complaint, mut gone) = shown::external(|t| view.condition(t).is_some(), failed);
    let mut new: Vec<NewCondition<'_>> = complaint.into_iter().collect();
    gone.extend(shown.asides.gone(|t| view.condition(t).is_some()));
    new.extend(shown.asides.said());
    new.push(NewCondition {
        type_: REMEDIATION_ALLOWED,
        status: if shown.open { "True" } else { "False" },
        reason: if shown.open { "" } else { "TooManyUnhealthy" },
        message: &shown.message,
        severity: (!shown.open).then_some("Warning"),
    });
    let conditions = conditions(object, &new, &gone, now);
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let counts = [
        (
            "expectedMachines",
            number(shown.expected),
            view.expected_machines,
        ),
        (
            "currentHealthy",
            number(shown.healthy),
            view.current_healthy,
        ),
        (
            "remediationsAllowed",
            number(shown.allowed),
            view.remediations_allowed,
        ),
    ];
    if conditions.is_none() && counts.iter().all(|(_, new, old)| *old == Some(*new)) {
        return None;
    }
    let mut status = serde_json::Map::new();
    for (field, number, _) in counts {
        status.insert(field.into(), number.into());
    }
    status.extend(conditions.map(|list| ("conditions".to_owned(), list)));
    Some(json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": status,
    }))
}

/// The list of conditions, in the old form, which is the only one there.
fn conditions(
    object: &DynamicObject,
    new: &[NewCondition<'_>],
    gone: &[&str],
    now: Timestamp,
) -> Option<Value> {
    let mut body = both_lists(object, Shape::V1Beta1, new, &[], gone, now)?;
    body.pointer_mut("/status/conditions").map(Value::take)
}

/// Writes it.
pub(super) async fn write(context: &Context, key: &Key, body: Value) -> Result<(), ApiError> {
    match patch_status(context, Lane::Words, Kind::OpenShiftCheck, key, body).await {
        Ok(object) => {
            context.index.apply(Kind::OpenShiftCheck, object);
            Ok(())
        }
        // Changed meanwhile: the watch brings it back.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a check says that does not read; `None`: it says so already.
pub(super) fn invalid(object: &DynamicObject, message: &str, now: Timestamp) -> Option<Value> {
    let said = NewCondition {
        type_: REMEDIATION_ALLOWED,
        status: "False",
        reason: "InvalidSpec",
        message,
        severity: Some("Error"),
    };
    let conditions = conditions(object, &[said], &[], now)?;
    Some(json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": { "conditions": conditions },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
            "metadata": { "name": "c", "namespace": "ns", "resourceVersion": "7" },
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    fn patched(object: &DynamicObject, shown: &Shown) -> Option<Value> {
        let view = OpenShiftHealthCheckView::from_dynamic(object).unwrap();
        patch(object, &view, shown, Timestamp::UNIX_EPOCH)
    }

    fn open() -> Shown {
        Shown {
            expected: 2,
            healthy: 2,
            allowed: 1,
            open: true,
            message: String::new(),
            failed: None,
            asides: Asides::default(),
        }
    }

    /// Merges as the API server does with a list.
    fn taken(body: &Value) -> DynamicObject {
        object(&body["status"])
    }

    #[test]
    fn counts_and_conditions_read_as_openshift_writes_them_and_are_written_once() {
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
        let closed = Shown {
            open: false,
            allowed: 0,
            message: "why".into(),
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
    fn what_is_said_of_the_template_is_kept_and_taken_back() {
        let failed = |reason| Shown {
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
    fn it_says_who_acts_in_its_place_and_what_lies_ahead_as_long_as_that_is_so() {
        let asides = Asides {
            stale: None,
            shared: Some("who".into()),
            ahead: Some("when".into()),
        };
        let both = Shown { asides, ..open() };
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
    fn a_check_that_does_not_read_says_so_once() {
        let body = invalid(&object(&json!({})), "why", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(body["status"]["conditions"][0]["reason"], "InvalidSpec");
        assert_eq!(invalid(&taken(&body), "why", Timestamp::UNIX_EPOCH), None);
    }
}
