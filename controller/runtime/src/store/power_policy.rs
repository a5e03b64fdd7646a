//! A parsed PowerPolicy, as it is evaluated.
//!
//! Invariant: a policy that cannot be parsed is kept with its error, because it blocks what it selects.

use std::{collections::BTreeMap, time::Duration};

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    kinds::{
        machine_health_check::{Selector, SelectorOperator},
        power_policy::{
            BudgetDomain, PolicyBudget, PolicyFirmwareUpdate, PolicyPeriod, PolicySelector,
            PolicySharedCauses, PowerPolicySpec,
        },
    },
    views::{LabelRequirement, LabelSelector, ViewError},
};
use rackhand_core::{
    fleet::shared_cause::SharedCauseRules,
    limits::power_policy::{AttemptLimit, Budget, Domain, PowerPolicy, Schedule},
    remediation::UpdateRules,
};

/// A PowerPolicy and what it selects.
#[derive(Debug, Clone)]
pub(crate) struct StoredPolicy {
    selector: PolicySelector,
    pub(crate) policy: PowerPolicy,
}

/// Whether a policy selects a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selected {
    Yes,
    No,
    /// The labels of the Node cannot be read.
    Unknown,
}

/// The labels of a Node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeLabels<'a> {
    Known(&'a BTreeMap<String, String>),
    /// The host has no Node.
    NoNode,
    Unknown,
}

impl StoredPolicy {
    /// Parses a policy. A mistake is kept in [`PowerPolicy::invalid`].
    #[allow(
        clippy::unnecessary_wraps,
        reason = "the index reads every kind like this"
    )]
    pub(crate) fn read(object: &DynamicObject) -> Result<Self, ViewError> {
        let name = object.name_any();
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        Ok(match serde_json::from_value::<PowerPolicySpec>(spec) {
            Ok(spec) => Self::of(name, spec),
            Err(error) => Self {
                // The selector cannot be parsed either.
                selector: PolicySelector::default(),
                policy: PowerPolicy {
                    name,
                    invalid: Some(format!("spec: {error}")),
                    ..PowerPolicy::default()
                },
            },
        })
    }

    fn of(name: String, spec: PowerPolicySpec) -> Self {
        let mut mistakes = Vec::new();
        let windows = periods("windows", &spec.windows, &mut mistakes);
        let freezes = periods("freezes", &spec.freezes, &mut mistakes);
        let policy = PowerPolicy {
            name,
            windows,
            freezes,
            freeze_annotations: spec.freeze_annotations.into_iter().collect(),
            budgets: spec.budgets.into_iter().map(budget).collect(),
            cooldown: spec.cooldown_seconds.map(seconds),
            attempts: spec
                .attempts
                .into_iter()
                .map(|limit| AttemptLimit {
                    max: u32::try_from(limit.max).unwrap_or_default(),
                    within: seconds(limit.within_seconds),
                    then: limit.then,
                })
                .collect(),
            approval: spec.require_approval,
            shared_causes: spec.shared_causes.map(shared_causes),
            firmware_update: spec.firmware_update.as_ref().map(firmware_update),
            invalid: (!mistakes.is_empty()).then(|| mistakes.join("; ")),
        };
        Self {
            selector: spec.selector,
            policy,
        }
    }

    /// Whether the policy selects a host.
    pub(crate) fn selects(
        &self,
        node: NodeLabels<'_>,
        machine: Option<&BTreeMap<String, String>>,
        rack: Option<&str>,
    ) -> Selected {
        let racks = &self.selector.racks;
        let in_rack = racks.is_empty() || rack.is_some_and(|rack| racks.iter().any(|r| r == rack));
        let by_machine = self.selector.machines.as_ref().is_none_or(|selector| {
            machine.is_some_and(|labels| label_selector(selector).matches(labels))
        });
        if !in_rack || !by_machine {
            return Selected::No;
        }
        match (&self.selector.nodes, node) {
            (None, _) => Selected::Yes,
            (Some(_), NodeLabels::Unknown) => Selected::Unknown,
            (Some(selector), NodeLabels::Known(labels))
                if label_selector(selector).matches(labels) =>
            {
                Selected::Yes
            }
            (Some(_), _) => Selected::No,
        }
    }
}

fn periods(field: &str, periods: &[PolicyPeriod], mistakes: &mut Vec<String>) -> Vec<Schedule> {
    let parsed = periods.iter().enumerate().filter_map(|(index, period)| {
        let duration = seconds(period.duration_seconds);
        match Schedule::parse(&period.schedule, period.time_zone.as_deref(), duration) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                mistakes.push(format!("spec.{field}[{index}]: {error}"));
                None
            }
        }
    });
    parsed.collect()
}

fn budget(budget: PolicyBudget) -> Budget {
    Budget {
        per: match (budget.per, budget.label) {
            (BudgetDomain::Policy, _) => Domain::Policy,
            (BudgetDomain::Cluster, _) => Domain::Cluster,
            (BudgetDomain::Rack, _) => Domain::Rack,
            (BudgetDomain::PDU, _) => Domain::Pdu,
            (BudgetDomain::Label, label) => Domain::Label(label.unwrap_or_default()),
        },
        max_concurrent: u32::try_from(budget.max_concurrent).unwrap_or_default(),
    }
}

fn shared_causes(rules: PolicySharedCauses) -> SharedCauseRules {
    SharedCauseRules {
        window: seconds(rules.window_seconds),
        min_hosts: u32::try_from(rules.min_hosts).unwrap_or_default(),
        min_percent: u32::try_from(rules.min_percent).unwrap_or_default(),
        settling: seconds(rules.settling_seconds),
        hold: seconds(rules.hold_seconds),
        recovery: seconds(rules.recovery_seconds),
        on_timeout: rules.on_timeout,
    }
}

fn firmware_update(rules: &PolicyFirmwareUpdate) -> UpdateRules {
    UpdateRules {
        on_running: rules.on_running,
        proceed_after: rules.proceed_after_seconds.map(seconds),
        stalled_after: seconds(rules.stalled_after_seconds),
        on_stalled: rules.on_stalled,
        on_unknown: rules.on_unknown,
    }
}

/// The CRD allows no negative number.
fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn label_selector(selector: &Selector) -> LabelSelector {
    let operator = |operator| match operator {
        SelectorOperator::In => "In",
        SelectorOperator::NotIn => "NotIn",
        SelectorOperator::Exists => "Exists",
        SelectorOperator::DoesNotExist => "DoesNotExist",
    };
    LabelSelector {
        match_labels: selector.match_labels.clone(),
        match_expressions: selector
            .match_expressions
            .iter()
            .map(|requirement| LabelRequirement {
                key: requirement.key.clone(),
                operator: operator(requirement.operator).to_owned(),
                values: requirement.values.clone(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(spec: &Value) -> StoredPolicy {
        let object = json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
            "metadata": { "name": "p" },
            "spec": spec,
        });
        StoredPolicy::read(&serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn policy_selects_what_matches_all_of_its_selectors() {
        let policy = stored(&json!({ "selector": {
            "nodes": { "matchLabels": { "pool": "gpu" } },
            "machines": { "matchExpressions": [{ "key": "role", "operator": "Exists" }] },
            "racks": ["r1"],
        }}));
        let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let (gpu, cpu) = (labels("pool", "gpu"), labels("pool", "cpu"));
        let machine = labels("role", "x");
        let selects = |node, machine, rack| policy.selects(node, machine, Some(rack));
        let known = NodeLabels::Known(&gpu);
        assert_eq!(selects(known, Some(&machine), "r1"), Selected::Yes);
        assert_eq!(
            selects(NodeLabels::Known(&cpu), Some(&machine), "r1"),
            Selected::No
        );
        assert_eq!(
            selects(NodeLabels::NoNode, Some(&machine), "r1"),
            Selected::No
        );
        assert_eq!(
            selects(NodeLabels::Unknown, Some(&machine), "r1"),
            Selected::Unknown
        );
        // A selector that does not match without the Node does not match with it.
        assert_eq!(
            selects(NodeLabels::Unknown, Some(&machine), "r2"),
            Selected::No
        );
        assert_eq!(selects(known, Some(&cpu), "r1"), Selected::No);
        assert_eq!(selects(known, None, "r1"), Selected::No);
        let all = stored(&json!({}));
        assert_eq!(all.selects(NodeLabels::Unknown, None, None), Selected::Yes);
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let policy = stored(&json!({
            "windows": [
                { "schedule": "0 22 * * *", "durationSeconds": 60 },
                { "schedule": "0 25 * * *", "durationSeconds": 60 },
            ],
            "freezes": [
                { "schedule": "0 22 * * *", "timeZone": "Nowhere", "durationSeconds": 60 },
            ],
        }));
        let invalid = policy.policy.invalid.unwrap();
        assert!(invalid.contains("spec.windows[1]"), "{invalid}");
        assert!(invalid.contains("spec.freezes[0]"), "{invalid}");
        assert!(!invalid.contains("windows[0]"), "{invalid}");
    }

    #[test]
    fn policy_that_cannot_be_decoded_holds_everything() {
        let policy = stored(&json!({ "windows": 3 }));
        assert!(policy.policy.invalid.is_some());
        assert_eq!(
            policy.selects(NodeLabels::Unknown, None, None),
            Selected::Yes
        );
    }
}
