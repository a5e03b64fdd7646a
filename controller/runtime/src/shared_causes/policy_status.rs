//! The status of PowerPolicies.
//!
//! Best effort: a policy is applied whether or not its status can be written.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{
    Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_api::{
    kinds::{
        conditions::{ConditionStatus, StatusCondition},
        power_policy::{PowerPolicyStatus, SharedCauseStatus},
    },
    names::conditions::VALID,
};
use rackhand_core::{limits::power_policy::PowerPolicy, remediation::Progress};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::SharedCauses;
use crate::{
    hosts::ActiveRemediations,
    leader::{events::Events, writer::Writer},
    store::{
        index::Index,
        object::{Kind, Served, api},
        watch::pause,
    },
};

/// Longest time until a status shows a change.
const INTERVAL: Duration = Duration::from_secs(2);

/// The reason of the condition Valid, and of the Event, of a policy that cannot be applied.
const INVALID: &str = "InvalidPolicy";

/// Keeps the status of all policies up to date.
pub(crate) struct PolicyStatus {
    pub(crate) client: Client,
    pub(crate) served: Arc<Served>,
    pub(crate) index: Arc<Index>,
    /// In the lane of reports.
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) active: Arc<ActiveRemediations>,
    pub(crate) causes: Arc<SharedCauses>,
}

/// Runs until `cancel`.
pub(crate) async fn run(context: PolicyStatus, cancel: CancellationToken) {
    while !pause(&cancel, INTERVAL).await {
        let (active, held) = counts(&context);
        for entry in context.index.power_policies() {
            let Ok(stored) = &entry.view else { continue };
            let count = |of: &BTreeMap<String, i32>| {
                of.get(&stored.policy.name).copied().unwrap_or_default()
            };
            let old = shown(&entry.object);
            let numbers = (count(&active), count(&held));
            let generation = entry.object.metadata.generation;
            let now = Timestamp::now();
            let mut new = status(&old, &stored.policy, numbers, generation, now);
            new.shared_causes = causes(&context.causes, &old, &stored.policy, now);
            if new != old {
                write(&context, &entry.object, &new).await;
            }
        }
    }
}

/// The causes of a policy. Those of an earlier leader stay until this one has judged them: it reads them from there.
pub(super) fn causes(
    known: &SharedCauses,
    old: &PowerPolicyStatus,
    policy: &PowerPolicy,
    now: Timestamp,
) -> Vec<SharedCauseStatus> {
    match known.status(&policy.name, now) {
        Some(judged) => judged,
        None if policy.shared_causes.is_some() => old.shared_causes.clone(),
        None => Vec::new(),
    }
}

/// Numbers of running and of held remediations, by policy.
fn counts(context: &PolicyStatus) -> (BTreeMap<String, i32>, BTreeMap<String, i32>) {
    let (mut active, mut held) = (BTreeMap::new(), BTreeMap::new());
    for remediation in context.active.lock().values() {
        if remediation.progress == Progress::Begun {
            for name in &remediation.policy.policies {
                *active.entry(name.clone()).or_default() += 1;
            }
        }
        if let Some(name) = &remediation.policy.held_by {
            *held.entry(name.clone()).or_default() += 1;
        }
    }
    (active, held)
}

fn shown(object: &DynamicObject) -> PowerPolicyStatus {
    let status = object.data.get("status").cloned().unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

/// The new status. The condition keeps the time of its last transition.
fn status(
    old: &PowerPolicyStatus,
    policy: &PowerPolicy,
    (active, held): (i32, i32),
    generation: Option<i64>,
    now: Timestamp,
) -> PowerPolicyStatus {
    let (valid, reason, message) = match &policy.invalid {
        None => (
            ConditionStatus::True,
            "Applied",
            "the policy is applied".to_owned(),
        ),
        Some(why) => {
            let message = format!("{why}; until it is corrected, what it selects is held");
            (ConditionStatus::False, INVALID, message)
        }
    };
    let mut conditions = old.conditions.clone();
    conditions.retain(|c| c.condition_type != VALID);
    let condition = StatusCondition {
        condition_type: VALID.to_owned(),
        status: valid,
        reason: reason.to_owned(),
        message,
        last_transition_time: now,
        observed_generation: generation,
    };
    conditions.push(condition.since_last_transition(&old.conditions));
    PowerPolicyStatus {
        shared_causes: Vec::new(),
        conditions,
        active: Some(active),
        held: Some(held),
    }
}

async fn write(context: &PolicyStatus, object: &DynamicObject, status: &PowerPolicyStatus) {
    let Some(resource) = context.served.known(Kind::PowerPolicy) else {
        return;
    };
    let name = object.name_any();
    let invalid = |c: &&StatusCondition| c.condition_type == VALID && c.reason == INVALID;
    if let Some(condition) = status.conditions.iter().find(invalid) {
        context
            .events
            .send(object, true, INVALID, &condition.message);
    }
    let objects = api(&context.client, &resource, "");
    let mut body = json!({ "status": status });
    // A merge patch keeps what it does not name.
    body["status"]["sharedCauses"] = json!(status.shared_causes);
    let what = format!("status of PowerPolicy {name}");
    let written = context
        .writer
        .write("policy_status", what, move || async move {
            let patch = Patch::Merge(&body);
            objects
                .patch_status(&name, &PatchParams::default(), &patch)
                .await
                .map(drop)
        })
        .await;
    if let Err(error) = written {
        tracing::debug!(%error, "the status of a policy could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn condition_reports_what_is_wrong_and_keeps_its_time() {
        let mut policy = PowerPolicy::default();
        let first = status(
            &PowerPolicyStatus::default(),
            &policy,
            (1, 2),
            Some(1),
            at(10),
        );
        assert_eq!((first.active, first.held), (Some(1), Some(2)));
        assert_eq!(first.conditions[0].status, ConditionStatus::True);
        let again = status(&first, &policy, (1, 2), Some(1), at(20));
        assert_eq!(again, first);
        policy.invalid = Some("spec.windows[0]: bad".into());
        let wrong = status(&again, &policy, (0, 0), Some(2), at(30));
        let condition = &wrong.conditions[0];
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(condition.last_transition_time, at(30));
        assert!(
            condition.message.contains("spec.windows[0]"),
            "{}",
            condition.message
        );
    }
}
