//! Conversion of a NodeHealthCheck into the rules and the status of the core.

use std::collections::BTreeMap;

use rackhand_api::{
    names::PAUSED_ANNOTATION,
    views::{HealthyDelay, NodeHealthCheckView, NodeTemplateRef},
};
use rackhand_core::checks::nodes::{
    Check, Delay, Entry, Flag, Limit, NodeCheckStatus, RemediationId, Step, Template, Tried,
};

use crate::checks::facts;

/// The rules of a check. The defaults of absent fields depend on the form of the check.
pub(crate) fn check(view: &NodeHealthCheckView, spares_terminating: bool) -> Check {
    let limit = match (view.min_healthy, view.max_unhealthy) {
        (Some(min), _) => Some(Limit::MinHealthy(min.without_negative_percentage())),
        (None, max) => max.map(|max| Limit::MaxUnhealthy(max.without_negative_percentage())),
    };
    let conditions = match &view.unhealthy_conditions {
        Some(given) => given.iter().map(facts::rule).collect(),
        None => Check::default_conditions(limit.is_none()),
    };
    let mut steps: Vec<_> = view.escalation.iter().collect();
    steps.sort_by_key(|step| step.order);
    let escalation = steps.into_iter().map(|step| Step {
        template: template(&step.template),
        timeout: Some(step.timeout),
    });
    let single = view.template.iter().map(|only| Step {
        template: template(only),
        timeout: None,
    });
    let mut pauses = view.pause_requests.clone();
    if view.meta.has_annotation(PAUSED_ANNOTATION) {
        pauses.push(format!("annotation {PAUSED_ANNOTATION}"));
    }
    Check {
        name: view.meta.name.clone(),
        uid: view.meta.uid.clone(),
        conditions,
        limit: limit.unwrap_or(Limit::OLDER),
        storm_cooldown: view.storm_cooldown,
        steps: single.chain(escalation).collect(),
        delay: match view.healthy_delay {
            HealthyDelay::None => Delay::None,
            HealthyDelay::For(delay) => Delay::For(delay),
            HealthyDelay::UntilConfirmed => Delay::UntilConfirmed,
        },
        pauses,
        startup_timeout: view.startup_timeout,
        spares_terminating,
    }
}

/// Converts the reference to a template.
pub(crate) fn template(of: &NodeTemplateRef) -> Template {
    Template {
        api_version: of.api_version.clone(),
        remediation_kind: of.remediation_kind().to_owned(),
        namespace: of.namespace.clone(),
        name: of.name.clone(),
    }
}

/// The templates that a check names.
pub(crate) fn templates(view: &NodeHealthCheckView) -> Vec<NodeTemplateRef> {
    let steps = view.escalation.iter().map(|step| &step.template);
    view.template.iter().chain(steps).cloned().collect()
}

/// Converts the status of a check.
pub(crate) fn memory(view: &NodeHealthCheckView) -> NodeCheckStatus {
    let flag = |type_: &str| {
        let found = view.conditions.iter().find(|c| c.condition_type == type_)?;
        let since = found.last_transition?;
        let on = found.is_true();
        Some((Flag { on, since }, found))
    };
    let nodes = view.unhealthy_nodes.iter().map(|entry| {
        let tried = entry.remediations.iter().filter_map(|tried| {
            let resource = &tried.resource;
            Some(Tried {
                id: RemediationId {
                    api_version: resource.api_version.clone()?,
                    kind: resource.kind.clone()?,
                    namespace: resource.namespace.clone().unwrap_or_default(),
                    name: resource.name.clone()?,
                },
                uid: tried.uid.clone(),
                template: tried.template_name.clone(),
                started: tried.started?,
                timed_out: tried.timed_out,
            })
        });
        let known = Entry {
            tried: tried.collect(),
            healthy_since: entry.healthy_since,
            delayed: entry.delayed,
        };
        (entry.name.clone(), known)
    });
    NodeCheckStatus {
        nodes: nodes.collect::<BTreeMap<_, _>>(),
        disabled: flag("Disabled").map(|(flag, c)| {
            let words = |text: &Option<String>| text.clone().unwrap_or_default();
            (flag, words(&c.reason), words(&c.message))
        }),
        storm: flag("StormActive").map(|(flag, _)| flag),
        cooldown: flag("StormCooldownActive").map(|(flag, _)| flag),
        ..NodeCheckStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::api::DynamicObject;
    use rackhand_core::values::int_or_percent::IntOrPercent;
    use serde_json::{Value, json};

    use super::*;

    fn view(spec: &Value) -> NodeHealthCheckView {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "c", "uid": "u" }, "spec": spec,
        }))
        .unwrap();
        NodeHealthCheckView::from_dynamic(&object).unwrap()
    }

    fn reference(name: &str) -> Value {
        json!({ "apiVersion": "x.y/v1", "kind": "XTemplate", "name": name, "namespace": "ns" })
    }

    #[test]
    fn defaults_depend_on_presence_of_min_healthy() {
        let check = |spec: &Value| super::check(&view(spec), false);
        let older = check(&json!({ "remediationTemplate": reference("t") }));
        assert_eq!(older.limit, Limit::MaxUnhealthy(IntOrPercent::Percent(49)));
        assert_eq!(older.conditions, Check::default_conditions(true));
        let today = check(&json!({
            "remediationTemplate": reference("t"), "minHealthy": "51%",
        }));
        assert_eq!(today.limit, Limit::MinHealthy(IntOrPercent::Percent(51)));
        assert_eq!(today.conditions, Check::default_conditions(false));
        assert_eq!(today.steps[0].timeout, None);
    }

    #[test]
    fn escalation_steps_are_sorted_by_order() {
        let spec = json!({
            "maxUnhealthy": "8",
            "escalatingRemediations": [
                { "remediationTemplate": reference("b"), "order": 7, "timeout": "5m" },
                { "remediationTemplate": reference("a"), "order": 1, "timeout": "60s" },
            ],
        });
        let check = check(&view(&spec), false);
        let names: Vec<_> = check
            .steps
            .iter()
            .map(|s| s.template.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(check.steps[0].timeout, Some(Duration::from_secs(60)));
        assert_eq!(check.limit, Limit::MaxUnhealthy(IntOrPercent::Int(8)));
        assert!(check.shares_a_kind(&check.steps[0].template));
    }
}
