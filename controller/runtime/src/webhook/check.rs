//! What is refused of a MachineHealthCheck (docs/reference/cluster-api.md, Fields), each verdict a function.
//!
//! Must never refuse what Cluster API's webhook takes and the evaluator understands; what is only odd is
//! a warning.

use std::time::Duration;

use kube::api::DynamicObject;
use rackhand_api::{
    GoDuration, IntOrPercent, names::CLUSTER_NAME_LABEL, views::MachineHealthCheckView,
};
use serde_json::Value;

use super::refusal::{Refusal, each_once};
use super::selector;

/// The least startup timeout but for none.
const LEAST_STARTUP: Duration = Duration::from_secs(30);
/// Conditions that follow from the verdict, so that a rule on them would feed on itself.
const OWN_CONDITIONS: [&str; 5] = [
    "Ready",
    "Available",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "ExternallyRemediated",
];
const FLAT_CHECKS: [&str; 3] = [
    "nodeStartupTimeout",
    "unhealthyConditions",
    "unhealthyMachineConditions",
];
const FLAT_REMEDIATION: [&str; 3] = ["maxUnhealthy", "unhealthyRange", "remediationTemplate"];

/// All that is wrong with a check; `old` is what stands there before an update.
pub(super) fn refusals(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Refusal> {
    let spec = spec(new);
    let mut found = Vec::new();
    found.extend(cluster_name_given(spec));
    found.extend(old.and_then(|old| cluster_name_kept(spec, self::spec(old))));
    found.extend(selector::parses(spec));
    found.extend(selector::not_empty(spec));
    found.extend(selector_of_cluster(spec));
    found.extend(one_shape(spec));
    found.extend(own_conditions(spec));
    found.extend(limits(spec));
    found.extend(startup_timeout(spec));
    if let Err(error) = MachineHealthCheckView::from_dynamic(new) {
        found.extend(unreadable(&error.field, &error.problem));
    }
    each_once(found)
}

/// What is taken, but hardly meant.
pub(super) fn warnings(new: &DynamicObject) -> Vec<String> {
    let spec = spec(new);
    let mut said: Vec<String> = reversed_range(spec).into_iter().collect();
    let Ok(view) = MachineHealthCheckView::from_dynamic(new) else {
        return said;
    };
    said.extend(only_observes(&view));
    said.extend(never_unhealthy(&view));
    said
}

fn spec(object: &DynamicObject) -> &Value {
    object.data.get("spec").unwrap_or(&Value::Null)
}

fn text<'a>(spec: &'a Value, path: &str) -> Option<&'a str> {
    spec.pointer(path)?.as_str()
}

/// A check is of a cluster.
fn cluster_name_given(spec: &Value) -> Option<Refusal> {
    let name = text(spec, "/clusterName").unwrap_or_default();
    (name.is_empty() || name.len() > 63)
        .then(|| Refusal::new("spec.clusterName", "must have 1 to 63 characters"))
}

/// And stays with it.
fn cluster_name_kept(spec: &Value, old: &Value) -> Option<Refusal> {
    (spec.get("clusterName") != old.get("clusterName"))
        .then(|| Refusal::new("spec.clusterName", "cannot be changed"))
}

/// A selector cannot reach for another cluster.
fn selector_of_cluster(spec: &Value) -> Option<Refusal> {
    let labels = spec.pointer("/selector/matchLabels")?;
    let named = labels.get(CLUSTER_NAME_LABEL)?;
    (Some(named) != spec.get("clusterName")).then(|| {
        Refusal::new(
            "spec.selector",
            format!("its label {CLUSTER_NAME_LABEL} must equal clusterName"),
        )
    })
}

/// Fields of v1beta1 and of v1beta2 do not mix: one of the two would count and the other be ignored.
fn one_shape(spec: &Value) -> Vec<Refusal> {
    let has = |field: &&&str| spec.get(**field).is_some_and(|value| !value.is_null());
    let mixed = |nested: &str, flat: &[&str]| {
        let beside = flat.iter().find(has)?;
        spec.get(nested).filter(|value| !value.is_null())?;
        Some(Refusal::new(
            &format!("spec.{nested}"),
            format!("is of v1beta2, {beside} beside it of v1beta1: use those of one version"),
        ))
    };
    [
        mixed("checks", &FLAT_CHECKS),
        mixed("remediation", &FLAT_REMEDIATION),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// No rule on a condition that follows from the verdict.
fn own_conditions(spec: &Value) -> Option<Refusal> {
    [
        "/checks/unhealthyMachineConditions",
        "/unhealthyMachineConditions",
    ]
    .into_iter()
    .find_map(|path| {
        let rules = spec.pointer(path)?.as_array()?;
        rules.iter().find_map(|rule| {
            let type_ = rule.get("type")?.as_str()?;
            OWN_CONDITIONS.contains(&type_).then(|| {
                let field = format!("spec{}", path.replace('/', "."));
                Refusal::new(&field, format!("{type_} follows from the verdict itself"))
            })
        })
    })
}

/// A limit is an integer or a percentage.
fn limits(spec: &Value) -> Vec<Refusal> {
    [
        "/remediation/triggerIf/unhealthyLessThanOrEqualTo",
        "/maxUnhealthy",
    ]
    .into_iter()
    .filter_map(|path| {
        let value = spec.pointer(path).filter(|value| !value.is_null())?;
        let problem = IntOrPercent::from_json(value).err()?;
        let field = format!("spec{}", path.replace('/', "."));
        Some(Refusal::new(&field, problem.to_string()))
    })
    .collect()
}

/// The startup timeout is off, or long enough for a machine to start at all. What does not read is told
/// with everything else that does not.
fn startup_timeout(spec: &Value) -> Option<Refusal> {
    let (field, timeout) = match text(spec, "/nodeStartupTimeout") {
        Some(written) => {
            let timeout = written.parse::<GoDuration>().and_then(GoDuration::to_std);
            ("spec.nodeStartupTimeout", timeout.ok()?)
        }
        None => {
            let seconds = spec
                .pointer("/checks/nodeStartupTimeoutSeconds")?
                .as_u64()?;
            let field = "spec.checks.nodeStartupTimeoutSeconds";
            (field, Duration::from_secs(seconds))
        }
    };
    (!timeout.is_zero() && timeout < LEAST_STARTUP)
        .then(|| Refusal::new(field, "must be 0, which is never, or at least 30s"))
}

/// What the evaluator cannot read, but for a range that ends before it begins: Cluster API takes one.
fn unreadable(field: &str, problem: &str) -> Option<Refusal> {
    (!problem.ends_with("ends before it begins")).then(|| Refusal::new(field, problem))
}

fn reversed_range(spec: &Value) -> Option<String> {
    ["/remediation/triggerIf/unhealthyInRange", "/unhealthyRange"]
        .into_iter()
        .find_map(|path| {
            let range = text(spec, path)?;
            let (min, max) = range.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
            let (min, max): (u32, u32) = (min.parse().ok()?, max.parse().ok()?);
            (max < min).then(|| {
                let field = path.replace('/', ".");
                format!("spec{field} {range} ends before it begins: nothing is evaluated until it is corrected")
            })
        })
}

fn only_observes(view: &MachineHealthCheckView) -> Option<String> {
    let limit = view
        .max_unhealthy
        .filter(|_| view.unhealthy_range.is_none())?;
    (limit.of_rounded_down(100) <= 0).then(|| {
        format!("with a limit of {limit} this check only observes: nothing is ever remediated")
    })
}

fn never_unhealthy(view: &MachineHealthCheckView) -> Option<String> {
    let off = view
        .node_startup_timeout
        .is_some_and(|timeout| timeout.is_zero());
    (off && view.node_checks.is_empty() && view.machine_checks.is_empty()).then(|| {
        "without conditions and without a startup timeout only a deleted Node makes a Machine unhealthy"
            .to_owned()
    })
}
