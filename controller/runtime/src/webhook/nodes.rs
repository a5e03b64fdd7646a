//! What is refused of a NodeHealthCheck (docs/reference/medik8s.md, Fields), each verdict a function.
//!
//! Must never refuse the older form of the kind, in which a template is all that has to be said. What
//! only other objects can tell (whether a template is there, and whether several of its kind may be) is
//! said by the check's condition Disabled, and not here.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::DynamicObject;
use rackhand_api::{
    IntOrPercent,
    names::{GROUP, MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION, kinds, request_kind},
    views::{NodeHealthCheckView, NodeTemplateRef},
};
use serde_json::Value;

use super::refusal::{Refusal, each_once};
use super::selector;

/// A step is given at least so long.
const LEAST_TIMEOUT: Duration = Duration::from_secs(60);
/// It deletes Machines, so that the number of Nodes, and with it the limit, moves with what it does.
const MACHINE_DELETION: &str = "machinedeletionremediationtemplate";
/// What may not change under a remediation.
const KEPT: [&str; 3] = ["selector", "remediationTemplate", "escalatingRemediations"];
/// How many Nodes a message names.
const NAMED: usize = 5;

/// All that is wrong with a check; `old` is what stands there before an update.
pub(super) fn refusals(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Refusal> {
    let spec = spec(new);
    let mut found = Vec::new();
    found.extend(old.into_iter().flat_map(|old| kept(spec, old)));
    found.extend(selector::parses(spec));
    found.extend(selector_given(spec));
    found.extend(one_limit(spec));
    found.extend(limits(spec));
    found.extend(one_kind_of_template(spec));
    found.extend(templates(spec));
    found.extend(machine_deletion(spec));
    found.extend(orders(spec));
    found.extend(conditions(spec));
    match NodeHealthCheckView::from_dynamic(new) {
        Ok(view) => found.extend(timeouts(&view)),
        Err(error) => found.push(Refusal::new(&error.field, error.problem)),
    }
    each_once(found)
}

/// Why a check cannot be deleted now.
pub(super) fn deletion(old: &DynamicObject) -> Option<String> {
    let nodes = remediated(old);
    (!nodes.is_empty()).then(|| {
        format!(
            "cannot be deleted while it remediates {}: its remediations would be taken away in the \
             middle; wait until the status names no remediation",
            listed(&nodes)
        )
    })
}

/// What is taken, but hardly meant.
pub(super) fn warnings(new: &DynamicObject) -> Vec<String> {
    let Ok(view) = NodeHealthCheckView::from_dynamic(new) else {
        return Vec::new();
    };
    let mut said = Vec::new();
    said.extend(only_observes(&view));
    said.extend(several_of_a_kind(&view));
    if view
        .storm_cooldown
        .is_some_and(|cooldown| cooldown.is_zero())
    {
        said.push("spec.stormCooldownDuration: 0 is no cooldown at all".to_owned());
    }
    said
}

fn spec(object: &DynamicObject) -> &Value {
    object.data.get("spec").unwrap_or(&Value::Null)
}

fn given<'a>(spec: &'a Value, field: &str) -> Option<&'a Value> {
    spec.get(field).filter(|value| !value.is_null())
}

/// The steps of an escalation, with their places.
fn steps(spec: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let list = given(spec, "escalatingRemediations").and_then(Value::as_array);
    list.into_iter().flatten().enumerate()
}

/// The templates that a check names, with the paths of their fields.
fn references(spec: &Value) -> Vec<(String, &Value)> {
    let single = given(spec, "remediationTemplate");
    let single = single.map(|only| ("spec.remediationTemplate".to_owned(), only));
    let several = steps(spec).filter_map(|(place, step)| {
        let path = format!("spec.escalatingRemediations[{place}].remediationTemplate");
        Some((path, given(step, "remediationTemplate")?))
    });
    single.into_iter().chain(several).collect()
}

fn listed(nodes: &[String]) -> String {
    let first = nodes.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let first = format!("Node {}", first.join(", "));
    match nodes.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The Nodes that have a remediation, by the status.
fn remediated(check: &DynamicObject) -> Vec<String> {
    let entries = check.data.pointer("/status/unhealthyNodes");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let has = |entry: &&Value| {
        let list = entry.get("remediations").and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    let name = |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
    entries.filter(has).filter_map(name).collect()
}

/// What is remediated, and how, stays while it is.
fn kept(new: &Value, old: &DynamicObject) -> Vec<Refusal> {
    let nodes = remediated(old);
    if nodes.is_empty() {
        return Vec::new();
    }
    let changed = |field: &&&str| given(new, field) != given(spec(old), field);
    let refusal = |field: &&str| {
        let why = format!(
            "cannot be changed while the check remediates {}; the limit, the conditions, healthyDelay \
             and pauseRequests can",
            listed(&nodes)
        );
        Refusal::new(&format!("spec.{field}"), why)
    };
    KEPT.iter().filter(changed).map(refusal).collect()
}

/// An empty selector is hardly meant. None at all is the older form, which selects every Node.
fn selector_given(spec: &Value) -> Option<Refusal> {
    if given(spec, "selector").is_some() {
        return selector::not_empty(spec);
    }
    let today = given(spec, "minHealthy").or(given(spec, "escalatingRemediations"));
    today.map(|_| Refusal::new("spec.selector", "must be set"))
}

/// One of the two; none only in the older form, which knows a default.
fn one_limit(spec: &Value) -> Option<Refusal> {
    let (min, max) = (given(spec, "minHealthy"), given(spec, "maxUnhealthy"));
    let older = given(spec, "remediationTemplate").is_some();
    match (min, max) {
        (Some(_), Some(_)) => Some(Refusal::new(
            "spec.minHealthy",
            "only one of minHealthy and maxUnhealthy may be set",
        )),
        (None, None) if !older => Some(Refusal::new(
            "spec.minHealthy",
            "one of minHealthy and maxUnhealthy must be set",
        )),
        _ => None,
    }
}

/// A limit is a number from 0, or a percentage up to 100. A quoted number is a number.
fn limits(spec: &Value) -> Vec<Refusal> {
    let problem = |value: &Value| {
        let quoted = value.as_str().and_then(|text| text.parse::<u32>().ok());
        if quoted.is_some() {
            return None;
        }
        match IntOrPercent::from_json(value) {
            Ok(IntOrPercent::Int(0..) | IntOrPercent::Percent(0..=100)) => None,
            Ok(_) => Some(format!(
                "is {value}, want a number from 0 or a percentage up to 100%"
            )),
            Err(problem) => Some(problem.to_string()),
        }
    };
    let fields = ["minHealthy", "maxUnhealthy"].into_iter();
    let wrong = fields.filter_map(|field| {
        let problem = problem(given(spec, field)?)?;
        Some(Refusal::new(&format!("spec.{field}"), problem))
    });
    wrong.collect()
}

/// One template, or several that are tried one after another.
fn one_kind_of_template(spec: &Value) -> Option<Refusal> {
    let single = given(spec, "remediationTemplate").is_some();
    let several = steps(spec).next().is_some();
    (single == several).then(|| {
        Refusal::new(
            "spec.remediationTemplate",
            "exactly one of remediationTemplate and escalatingRemediations must be set",
        )
    })
}

/// The kind of a remediation is what is left of its template's.
fn templates(spec: &Value) -> Vec<Refusal> {
    let wrong = references(spec).into_iter().filter_map(|(path, template)| {
        let kind = template.get("kind").and_then(Value::as_str)?;
        (request_kind(kind) == kind).then(|| {
            let problem = format!("is {kind:?}, which does not end with \"Template\"");
            Refusal::new(&format!("{path}.kind"), problem)
        })
    });
    wrong.collect()
}

/// A limit on the unhealthy means nothing where the number of all is changed by what is done.
fn machine_deletion(spec: &Value) -> Option<Refusal> {
    given(spec, "maxUnhealthy")?;
    let deletes = |(_, template): &(String, &Value)| {
        let kind = template.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(MACHINE_DELETION))
    };
    references(spec).iter().any(deletes).then(|| {
        Refusal::new(
            "spec.maxUnhealthy",
            "cannot be used with a MachineDeletionRemediationTemplate; use minHealthy",
        )
    })
}

/// Each step has a place of its own.
fn orders(spec: &Value) -> Option<Refusal> {
    let mut known = BTreeSet::new();
    steps(spec).find_map(|(place, step)| {
        let field = format!("spec.escalatingRemediations[{place}].order");
        let Some(order) = given(step, "order").and_then(Value::as_i64) else {
            return Some(Refusal::new(&field, "must be given, as a whole number"));
        };
        (!known.insert(order)).then(|| {
            let problem = format!("is {order} a second time; each step has an order of its own");
            Refusal::new(&field, problem)
        })
    })
}

/// A step that is over at once never remediates anything.
fn timeouts(view: &NodeHealthCheckView) -> Option<Refusal> {
    let mut steps = view.escalation.iter().enumerate();
    steps.find_map(|(place, step)| {
        (step.timeout < LEAST_TIMEOUT).then(|| {
            let field = format!("spec.escalatingRemediations[{place}].timeout");
            Refusal::new(&field, "must be 60s or more")
        })
    })
}

/// Each condition says for how long, and is there once.
fn conditions(spec: &Value) -> Option<Refusal> {
    let list = given(spec, "unhealthyConditions").and_then(Value::as_array);
    let mut known = BTreeSet::new();
    list.into_iter()
        .flatten()
        .enumerate()
        .find_map(|(place, rule)| {
            let field = format!("spec.unhealthyConditions[{place}]");
            let text = |name: &str| {
                given(rule, name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            for name in ["type", "status", "duration"] {
                if text(name).is_empty() {
                    return Some(Refusal::new(&format!("{field}.{name}"), "must be given"));
                }
            }
            let (type_, status) = (text("type"), text("status"));
            (!known.insert((type_, status)))
                .then(|| Refusal::new(&field, format!("is {type_}={status} a second time")))
        })
}

fn only_observes(view: &NodeHealthCheckView) -> Option<String> {
    let never = |field: &str, limit: IntOrPercent| {
        format!("spec.{field}: with {limit} this check only observes: nothing is ever remediated")
    };
    match (view.min_healthy, view.max_unhealthy) {
        (Some(min @ IntOrPercent::Percent(100)), _) => Some(never("minHealthy", min)),
        (None, Some(max @ (IntOrPercent::Int(0) | IntOrPercent::Percent(0)))) => {
            Some(never("maxUnhealthy", max))
        }
        _ => None,
    }
}

/// Whether several remediations of a kind may be there for one Node only their templates say.
fn several_of_a_kind(view: &NodeHealthCheckView) -> Option<String> {
    let mut known = BTreeSet::new();
    let kind = |of: &NodeTemplateRef| (of.group().to_owned(), of.kind.clone());
    let foreign = view.escalation.iter().map(|step| &step.template);
    let twice = foreign
        .filter(|template| template.group() != GROUP)
        .find(|template| !known.insert(kind(template)))?;
    Some(format!(
        "spec.escalatingRemediations: {} stands in several steps: each of these templates must carry the \
         annotation {MEDIK8S_MULTIPLE_TEMPLATES_ANNOTATION}, without which the {} is disabled",
        twice.kind,
        kinds::NODE_HEALTH_CHECK
    ))
}
