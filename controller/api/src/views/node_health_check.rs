//! NodeHealthCheck, of medik8s (v1alpha1).
//!
//! Owns reading its rules and what its status remembers. It must never fill in
//! a default: the evaluator does, and knows which form of the kind it sees.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;

use super::condition::Condition;
use super::fields::{Fields, ViewError};
use super::machine_health_check::{ConditionCheck, LabelSelector};
use super::meta::{Meta, ObjectRef};
use crate::duration::GoDuration;
use crate::int_or_percent::IntOrPercent;
use crate::names;

/// What we read of a NodeHealthCheck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealthCheckView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Which Nodes it checks; empty is all of them.
    pub selector: LabelSelector,
    /// Conditions of a Node that make it unhealthy; absent leaves it to the
    /// evaluator.
    pub unhealthy_conditions: Option<Vec<ConditionCheck>>,
    /// At least so many Nodes have to be healthy.
    pub min_healthy: Option<IntOrPercent>,
    /// No more than so many Nodes may be anything else.
    pub max_unhealthy: Option<IntOrPercent>,
    /// How long nothing is done after the limit was reached.
    pub storm_cooldown: Option<Duration>,
    /// The only template.
    pub template: Option<NodeTemplateRef>,
    /// Templates that are tried one after another, as they are written.
    pub escalation: Vec<EscalationStep>,
    /// Why it is paused; any entry pauses it.
    pub pause_requests: Vec<String>,
    /// How long a Node has to be healthy before its remediation goes.
    pub healthy_delay: HealthyDelay,
    /// How long a Node may take until its kubelet has said anything: our
    /// annotation.
    pub startup_timeout: Option<Duration>,
    /// What its status says: the conditions.
    pub conditions: Vec<Condition>,
    /// What its status says: the Nodes that are unhealthy.
    pub unhealthy_nodes: Vec<UnhealthyEntry>,
    /// What its status says: `inFlightRemediations` is there.
    pub in_flight: bool,
}

/// A reference to a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeTemplateRef {
    /// Group and version, to be used as written.
    pub api_version: String,
    /// The kind of the template.
    pub kind: String,
    /// Its namespace; empty for kinds without.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// One step of an escalation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationStep {
    /// The template.
    pub template: NodeTemplateRef,
    /// Position in the order of escalation.
    pub order: i64,
    /// How long it is given.
    pub timeout: Duration,
}

/// How long a Node has to be healthy before its remediation goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthyDelay {
    /// Not at all.
    #[default]
    None,
    /// For this long after the Node became healthy.
    For(Duration),
    /// Until a person says so.
    UntilConfirmed,
}

/// A Node of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyEntry {
    /// Name of the object.
    pub name: String,
    /// Remediations of this Node.
    pub remediations: Vec<UnhealthyRemediation>,
    /// Since when its conditions are healthy again.
    pub healthy_since: Option<Timestamp>,
    /// Its remediation waits for the delay.
    pub delayed: bool,
}

/// A remediation of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnhealthyRemediation {
    /// The object.
    pub resource: ObjectRef,
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub started: Option<Timestamp>,
    /// When it was told to stop.
    pub timed_out: Option<Timestamp>,
    /// The template it was made from.
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

    /// The kind of the remediations made from it.
    #[must_use]
    pub fn request_kind(&self) -> &str {
        names::request_kind(&self.kind)
    }

    /// Its group; empty for Kubernetes' core kinds.
    #[must_use]
    pub fn group(&self) -> &str {
        super::meta::group_of(&self.api_version)
    }
}

/// A limit. A quoted plain number passes medik8s' schema, and so is read here.
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
    fn a_template_is_all_that_the_older_form_has_to_say() {
        let view = read(&json!({ "remediationTemplate": template("t") }), &json!({})).unwrap();
        assert!(view.selector.is_empty());
        assert_eq!(view.unhealthy_conditions, None);
        assert_eq!((view.min_healthy, view.max_unhealthy), (None, None));
        assert_eq!(view.healthy_delay, HealthyDelay::None);
        let template = view.template.unwrap();
        assert_eq!((template.request_kind(), template.group()), ("X", "x.y"));
    }

    #[test]
    fn every_field_of_todays_form_is_read() {
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
    fn a_quoted_number_is_a_number_and_a_field_of_the_wrong_form_is_named() {
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
