//! NodeHealthCheck, of medik8s (v1alpha1).
//!
//! Owns reading the rules and the status. It must never fill in a default: the
//! evaluator does, because the defaults depend on the form of the kind.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::condition::Condition;
use super::fields::{Fields, ViewError};
use super::machine_health_check::{ConditionCheck, LabelSelector};
use super::meta::{Meta, ObjectRef};
use crate::GoDuration;
use crate::IntOrPercent;
use crate::names;

/// The fields of a NodeHealthCheck that Rackhand uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealthCheckView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Which Nodes the check covers; an empty selector covers all of them.
    pub selector: LabelSelector,
    /// Conditions of a Node that make it unhealthy; absent for the evaluator's
    /// default.
    pub unhealthy_conditions: Option<Vec<ConditionCheck>>,
    /// At least this many Nodes must be healthy.
    pub min_healthy: Option<IntOrPercent>,
    /// At most this many Nodes may be unhealthy.
    pub max_unhealthy: Option<IntOrPercent>,
    /// How long no remediation begins after the end of a storm.
    pub storm_cooldown: Option<Duration>,
    /// The template, if there is no escalation.
    pub template: Option<NodeTemplateRef>,
    /// The steps of the escalation, in the order of the list.
    pub escalation: Vec<EscalationStep>,
    /// Why the check is paused; any entry pauses it.
    pub pause_requests: Vec<String>,
    /// How long a Node must be healthy before its remediation is deleted.
    pub healthy_delay: HealthyDelay,
    /// How long a new Node may take until the first status of its kubelet, by
    /// our annotation.
    pub startup_timeout: Option<Duration>,
    /// Status: the conditions.
    pub conditions: Vec<Condition>,
    /// Status: the Nodes that are unhealthy.
    pub unhealthy_nodes: Vec<UnhealthyEntry>,
    /// Whether the status has `inFlightRemediations`.
    pub in_flight: bool,
}

/// A reference to a template, with its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTemplateRef {
    /// Group and version of the template, used as they are written.
    pub api_version: String,
    /// The kind of the template.
    pub kind: String,
    /// The namespace of the template; empty for a cluster-scoped kind.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
}

/// One step of an escalation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationStep {
    /// The template of the remediation.
    pub template: NodeTemplateRef,
    /// The position of the step: lower ones are tried first.
    pub order: i64,
    /// How long the remediation may take before the next step begins.
    pub timeout: Duration,
}

/// How long a Node must be healthy before its remediation is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthyDelay {
    /// The remediation is deleted at once.
    #[default]
    None,
    /// For this long after the Node became healthy.
    For(Duration),
    /// Until a person confirms it by an annotation of the Node.
    UntilConfirmed,
}

/// An unhealthy Node in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyEntry {
    /// The name of the Node.
    pub name: String,
    /// The remediations of the Node.
    pub remediations: Vec<UnhealthyRemediation>,
    /// Since when the conditions of the Node are healthy again.
    pub healthy_since: Option<Timestamp>,
    /// Whether the remediation is kept until the end of the healthy delay.
    pub delayed: bool,
}

/// A remediation in the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyRemediation {
    /// The reference to the remediation.
    pub resource: ObjectRef,
    /// The UID of the remediation.
    pub uid: String,
    /// When the remediation was created.
    pub started: Option<Timestamp>,
    /// When the remediation timed out and was requested to stop.
    pub timed_out: Option<Timestamp>,
    /// The name of the template that the remediation was made from.
    pub template_name: Option<String>,
}

impl NodeTemplateRef {
    fn read(fields: &Fields<'_>, path: &str) -> Result<Option<Self>, ViewError> {
        if !fields.has(path) {
            return Ok(None);
        }
        let at = |name: &str| fields.required_string(&format!("{path}.{name}"));
        Ok(Some(Self {
            api_version: at("apiVersion")?,
            kind: at("kind")?,
            name: at("name")?,
            namespace: fields
                .string(&format!("{path}.namespace"))?
                .unwrap_or_default(),
        }))
    }

    /// The kind of the remediations that are made from the template.
    #[must_use]
    pub fn remediation_kind(&self) -> &str {
        names::remediation_kind(&self.kind)
    }

    /// The group of the template; empty for Kubernetes' core kinds.
    #[must_use]
    pub fn group(&self) -> &str {
        super::meta::group_of(&self.api_version)
    }
}

/// Reads a limit. medik8s' schema accepts a quoted plain number, so it is accepted here too.
fn limit(fields: &Fields<'_>, path: &str) -> Result<Option<IntOrPercent>, ViewError> {
    let quoted = fields.get(path).and_then(serde_json::Value::as_str);
    if let Some(number) = quoted.and_then(|text| text.parse().ok()) {
        return Ok(Some(IntOrPercent::Int(number)));
    }
    fields.int_or_percent(path)
}

fn go_duration(
    fields: &Fields<'_>,
    field: &str,
    text: Option<&str>,
) -> Result<Option<GoDuration>, ViewError> {
    text.map(|text| {
        text.parse::<GoDuration>()
            .map_err(|problem| fields.error(field, problem))
    })
    .transpose()
}

fn entries(fields: &Fields<'_>) -> Result<Vec<UnhealthyEntry>, ViewError> {
    let items = fields.items("status.unhealthyNodes")?;
    items
        .iter()
        .map(|item| {
            let remediations = item.items("remediations")?;
            let remediations = remediations.iter().map(|item| {
                Ok(UnhealthyRemediation {
                    resource: ObjectRef::read(item, "resource")?.unwrap_or_default(),
                    uid: item.string("resource.uid")?.unwrap_or_default(),
                    started: item.timestamp("started")?,
                    timed_out: item.timestamp("timedOut")?,
                    template_name: item.string("templateName")?,
                })
            });
            Ok(UnhealthyEntry {
                name: item.required_string("name")?,
                remediations: remediations.collect::<Result<_, ViewError>>()?,
                healthy_since: item.timestamp("conditionsHealthyTimestamp")?,
                delayed: item.boolean("healthyDelayed")?.unwrap_or(false),
            })
        })
        .collect()
}

impl NodeHealthCheckView {
    /// Reads a NodeHealthCheck.
    ///
    /// # Errors
    /// When a field that we need has the wrong form.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let meta = Meta::of(object);
        let fields = Fields::of(names::kinds::NODE_HEALTH_CHECK, object);
        let conditions = fields.items("spec.unhealthyConditions")?;
        let conditions: Vec<ConditionCheck> = conditions
            .iter()
            .map(|item| {
                Ok(ConditionCheck {
                    condition_type: item.required_string("type")?,
                    status: item.required_string("status")?,
                    timeout: item.duration("duration")?.unwrap_or_default(),
                })
            })
            .collect::<Result<_, ViewError>>()?;
        let steps = fields.items("spec.escalatingRemediations")?;
        let escalation = steps
            .iter()
            .map(|item| {
                let template = NodeTemplateRef::read(item, "remediationTemplate")?
                    .ok_or_else(|| item.error("remediationTemplate", "is missing"))?;
                Ok(EscalationStep {
                    template,
                    order: item.int64("order")?.unwrap_or_default(),
                    timeout: item.duration("timeout")?.unwrap_or_default(),
                })
            })
            .collect::<Result<_, ViewError>>()?;
        let delay = fields.string("spec.healthyDelay")?;
        let delay = go_duration(&fields, "spec.healthyDelay", delay.as_deref())?;
        let startup = meta
            .annotations
            .get(names::NODE_STARTUP_TIMEOUT_ANNOTATION)
            .map(String::as_str);
        let startup = go_duration(
            &fields,
            "metadata.annotations[rackhand.dev/node-startup-timeout]",
            startup,
        )?;
        Ok(Self {
            selector: LabelSelector::read(&fields)?,
            unhealthy_conditions: (!conditions.is_empty()).then_some(conditions),
            min_healthy: limit(&fields, "spec.minHealthy")?,
            max_unhealthy: limit(&fields, "spec.maxUnhealthy")?,
            storm_cooldown: fields.duration("spec.stormCooldownDuration")?,
            template: NodeTemplateRef::read(&fields, "spec.remediationTemplate")?,
            escalation,
            pause_requests: fields.strings("spec.pauseRequests")?,
            healthy_delay: match delay {
                None => HealthyDelay::None,
                Some(delay) if delay.nanoseconds() == 0 => HealthyDelay::None,
                Some(delay) => delay
                    .to_std()
                    .map_or(HealthyDelay::UntilConfirmed, HealthyDelay::For),
            },
            startup_timeout: startup.and_then(|timeout| timeout.to_std().ok()),
            conditions: Condition::list(&fields, "status.conditions")?,
            unhealthy_nodes: entries(&fields)?,
            in_flight: fields.has("status.inFlightRemediations"),
            meta,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(spec: &Value, status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1",
            "kind": "NodeHealthCheck",
            "metadata": { "name": "c", "uid": "u" },
            "spec": spec,
            "status": status,
        }))
        .unwrap()
    }

    fn read(spec: &Value, status: &Value) -> Result<NodeHealthCheckView, ViewError> {
        NodeHealthCheckView::from_dynamic(&object(spec, status))
    }

    fn template(name: &str) -> Value {
        json!({ "apiVersion": "x.y/v1", "kind": "XTemplate", "name": name, "namespace": "ns" })
    }

    #[test]
    fn older_form_needs_only_a_template() {
        let view = read(&json!({ "remediationTemplate": template("t") }), &json!({})).unwrap();
        assert!(view.selector.is_empty());
        assert_eq!(view.unhealthy_conditions, None);
        assert_eq!((view.min_healthy, view.max_unhealthy), (None, None));
        assert_eq!(view.healthy_delay, HealthyDelay::None);
        let template = view.template.unwrap();
        assert_eq!(
            (template.remediation_kind(), template.group()),
            ("X", "x.y")
        );
    }

    #[test]
    fn every_field_of_the_current_form_is_read() {
        let view = read(
            &json!({
                "selector": { "matchLabels": { "a": "b" } },
                "minHealthy": "51%",
                "stormCooldownDuration": "5m",
                "healthyDelay": "-1s",
                "pauseRequests": ["upgrade"],
                "unhealthyConditions": [{ "type": "Ready", "status": "False", "duration": "1.5s" }],
                "escalatingRemediations": [
                    { "remediationTemplate": template("a"), "order": 2, "timeout": "60s" },
                    { "remediationTemplate": template("b"), "order": -1, "timeout": "5m" },
                ],
            }),
            &json!({
                "inFlightRemediations": {},
                "unhealthyNodes": [{
                    "name": "n", "healthyDelayed": true,
                    "remediations": [{
                        "resource": { "apiVersion": "x.y/v1", "kind": "X", "name": "n", "uid": "r" },
                        "started": "2026-01-01T00:00:00Z", "timedOut": "2026-01-01T00:01:00Z",
                        "templateName": "a",
                    }],
                }],
            }),
        )
        .unwrap();
        assert_eq!(view.min_healthy, Some(IntOrPercent::Percent(51)));
        assert_eq!(view.storm_cooldown, Some(Duration::from_secs(300)));
        assert_eq!(view.healthy_delay, HealthyDelay::UntilConfirmed);
        assert_eq!(view.pause_requests, ["upgrade"]);
        let conditions = view.unhealthy_conditions.unwrap();
        assert_eq!(conditions[0].timeout, Duration::from_millis(1500));
        assert_eq!(view.escalation[1].order, -1);
        assert!(view.in_flight);
        let entry = &view.unhealthy_nodes[0];
        assert!(entry.delayed && entry.remediations[0].timed_out.is_some());
        assert_eq!(entry.remediations[0].uid, "r");
    }

    #[test]
    fn quoted_limit_is_parsed_and_an_invalid_field_is_named() {
        let view = read(&json!({ "maxUnhealthy": "8" }), &json!({})).unwrap();
        assert_eq!(view.max_unhealthy, Some(IntOrPercent::Int(8)));
        let view = read(
            &json!({ "minHealthy": 3, "healthyDelay": "0s" }),
            &json!({}),
        )
        .unwrap();
        assert_eq!(view.min_healthy, Some(IntOrPercent::Int(3)));
        assert_eq!(view.healthy_delay, HealthyDelay::None);
        for (spec, field) in [
            (json!({ "minHealthy": "half" }), "spec.minHealthy"),
            (json!({ "healthyDelay": "soon" }), "spec.healthyDelay"),
            (
                json!({ "escalatingRemediations": [{ "order": 1, "timeout": "60s" }] }),
                "spec.escalatingRemediations[0].remediationTemplate",
            ),
        ] {
            assert_eq!(read(&spec, &json!({})).unwrap_err().field, field);
        }
    }
}
