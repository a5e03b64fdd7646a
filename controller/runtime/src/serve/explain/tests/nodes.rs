//! Explanations of a NodeHealthCheck, from files.

use jiff::Timestamp;
use serde_json::{Value, json};

use rackhand_core::explanation::{CheckView, TargetView};

use super::{ExplainError, explain_nodes_files, texts};
use crate::config::HealthChecks;

const NOW: &str = "2026-08-01T02:10:00Z";
const OWNER: &str = "check-uid";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "x.y/v1", "kind": "XRemediationTemplate",
        "metadata": {
            "name": name, "namespace": "ns",
            "annotations": { "remediation.medik8s.io/multiple-templates-support": "" },
        },
        "spec": { "template": { "spec": {} } },
    })
}

fn reference(name: &str) -> Value {
    json!({ "apiVersion": "x.y/v1", "kind": "XRemediationTemplate", "name": name, "namespace": "ns" })
}

/// A check that uses the template `quick` for 5 minutes, then `full` for 30 minutes.
fn check(more: Value) -> Value {
    let step = |name: &str, order: i64, timeout: &str| json!({ "remediationTemplate": reference(name), "order": order, "timeout": timeout });
    let mut spec = json!({
        "selector": { "matchLabels": { "pool": "a" } },
        "minHealthy": "51%",
        "escalatingRemediations": [step("full", 2, "30m"), step("quick", 1, "5m")],
    });
    if let (Some(fields), Value::Object(more)) = (spec.as_object_mut(), more) {
        fields.extend(more);
    }
    json!({
        "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
        "metadata": { "name": "workers", "uid": OWNER }, "spec": spec,
        "status": {
            "phase": "Enabled", "reason": "the check is enabled, nothing is being remediated",
        },
    })
}

fn node(name: &str, ready: &str, since: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": name, "labels": { "pool": "a" } },
        "status": { "conditions": [
            { "type": "Ready", "status": ready, "reason": "KubeletStatus", "lastTransitionTime": since },
        ]},
    })
}

fn good(name: &str) -> Value {
    node(name, "True", "2026-08-01T00:00:00Z")
}

fn remediation(node: &str, template: &str, created: &str) -> Value {
    json!({
        "apiVersion": "x.y/v1", "kind": "XRemediation",
        "metadata": {
            "name": format!("{node}-{template}"), "namespace": "ns", "creationTimestamp": created,
            "uid": format!("{node}-{template}"),
            "annotations": {
                "remediation.medik8s.io/node-name": node,
                "remediation.medik8s.io/template-name": template,
            },
            "ownerReferences": [{
                "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                "name": "workers", "uid": OWNER,
            }],
        },
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "nodehealthchecks.remediation.medik8s.io",
            "labels": { "rackhand.dev/crd": "true" },
        },
    })
}

fn asked(objects: &[Value], name: Option<&str>, now: &str) -> Result<CheckView, ExplainError> {
    let text = json!({ "kind": "List", "items": objects }).to_string();
    let files = [("dump.yaml".to_owned(), text)];
    explain_nodes_files(&files, name, HealthChecks::All, at(now))
}

fn explained(mut objects: Vec<Value>, now: &str) -> CheckView {
    objects.extend([template("quick"), template("full"), crd()]);
    asked(&objects, None, now).unwrap()
}

fn of<'a>(e: &'a CheckView, node: &str) -> &'a TargetView {
    e.targets.iter().find(|n| n.name() == node).unwrap()
}

#[test]
fn explain_shows_verdict_cause_and_time_of_each_node() {
    let e = explained(
        vec![
            check(json!({})),
            good("a"),
            good("b"),
            good("c"),
            node("d", "Unknown", "2026-08-01T02:00:00Z"),
            node("e", "False", "2026-08-01T02:08:00Z"),
        ],
        NOW,
    );
    assert!(e.acts && e.notes.is_empty(), "{:?}", e.notes);
    let (d, e5) = (of(&e, "d"), of(&e, "e"));
    assert_eq!(
        (d.verdict.as_str(), d.since),
        ("unhealthy", Some(at("2026-08-01T02:00:00Z")))
    );
    assert!(d.why.contains("condition Ready is Unknown"), "{}", d.why);
    assert!(
        d.does
            .contains("creates a XRemediation for Node d (step 1 of 2, template quick), for 5m"),
        "{}",
        d.does
    );
    assert_eq!(
        (e5.verdict.as_str(), e5.until),
        ("suspect", Some(at("2026-08-01T02:13:00Z")))
    );
    assert_eq!(e5.does, "nothing");
    let order: Vec<_> = e.targets.iter().map(TargetView::name).collect();
    assert_eq!(
        order,
        ["d", "e", "a", "b", "c"],
        "unhealthy Nodes come first"
    );
    let limit = &e.limit;
    assert_eq!(
        (
            limit.expected,
            limit.healthy,
            limit.counting,
            limit.remediations_allowed
        ),
        (5, 3, 2, 0)
    );
    assert!(limit.allowed);
    for part in [
        "5 Nodes selected, 3 healthy; not: d (unhealthy), e (suspect).",
        "minHealthy is 51% of 5, rounded up 3: remediation is allowed; 0 more may fail",
    ] {
        assert!(
            limit.message.contains(part),
            "{part:?} is missing in {}",
            limit.message
        );
    }
    let next = e.next.as_ref().unwrap();
    assert_eq!(next.at, at("2026-08-01T02:13:00.001Z"));
    assert!(
        next.message.contains("Node e becomes unhealthy"),
        "{}",
        next.message
    );
}

#[test]
fn explain_shows_step_and_deadline_of_each_remediation() {
    let mut timed_out = remediation("d", "quick", "2026-08-01T02:00:00Z");
    timed_out["metadata"]["annotations"]["remediation.medik8s.io/nhc-timed-out"] =
        json!("2026-08-01T02:05:00Z");
    let e = explained(
        vec![
            check(json!({})),
            good("a"),
            good("b"),
            node("d", "Unknown", "2026-08-01T01:50:00Z"),
            timed_out,
            remediation("d", "full", "2026-08-01T02:05:01Z"),
        ],
        NOW,
    );
    assert_eq!(e.phase.as_deref().unwrap(), "Remediating");
    let steps = &of(&e, "d").remediations;
    assert_eq!(
        (steps[0].step.as_deref(), steps[0].state.as_str()),
        (Some("1 of 2"), "timedOut")
    );
    assert_eq!(
        (steps[1].step.as_deref(), steps[1].state.as_str()),
        (Some("2 of 2"), "running")
    );
    assert_eq!(steps[1].until, Some(at("2026-08-01T02:35:01Z")));
    assert!(
        of(&e, "d").does.contains("renews the Lease"),
        "{}",
        of(&e, "d").does
    );
    assert!(
        e.recorded.as_deref().unwrap().starts_with("Enabled: "),
        "{:?}",
        e.recorded
    );
    let text = e.to_string();
    for part in [
        "NodeHealthCheck workers: Remediating, at 2026-08-01T02:10:00Z",
        "then by    1. a XRemediation from template ns/quick (x.y/v1), for 5m",
        "XRemediation ns/d-full, step 2 of 2: running until 02:35:01Z (in 25m01s)",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    // At a later time the last step has ended, too.
    let later = explained(
        vec![
            check(json!({})),
            good("a"),
            good("b"),
            node("d", "Unknown", "2026-08-01T01:50:00Z"),
            remediation("d", "quick", "2026-08-01T02:00:00Z"),
        ],
        "2026-08-01T02:06:00Z",
    );
    let due = later.due.join("; ");
    assert!(
        due.contains("requests that XRemediation ns/d-quick stops")
            && due.contains("template full"),
        "{due}"
    );
}

#[test]
fn explain_shows_what_closed_limit_and_storm_wait_for() {
    let mut stormy = check(json!({ "stormCooldownDuration": "10m" }));
    let nodes = [
        good("a"),
        node("d", "Unknown", "2026-08-01T01:50:00Z"),
        node("e", "Unknown", "2026-08-01T01:50:00Z"),
    ];
    let with = |check: &Value, nodes: &[Value]| {
        explained([std::slice::from_ref(check), nodes].concat(), NOW)
    };
    let e = with(&stormy, &nodes);
    assert!(!e.limit.allowed);
    assert!(
        e.limit
            .message
            .contains("1 is less than 2, remediation is NOT allowed"),
        "{}",
        e.limit.message
    );
    assert_eq!(e.storm.as_ref().unwrap().state, "active");
    let does = &of(&e, "d").does;
    assert!(
        does.starts_with("nothing is begun: 1 of 3 selected Nodes are healthy"),
        "{does}"
    );
    stormy["status"]["conditions"] = json!([
        { "type": "StormActive", "status": "True", "reason": "HealthyNodeThresholdChange",
          "lastTransitionTime": "2026-08-01T02:00:00Z" },
        { "type": "StormCooldownActive", "status": "True", "reason": "HealthyNodeThresholdChange",
          "lastTransitionTime": "2026-08-01T02:04:00Z" },
    ]);
    let e = with(&stormy, &[good("a"), good("b"), nodes[1].clone()]);
    let storm = e.storm.as_ref().unwrap();
    assert_eq!(
        (storm.state.as_str(), storm.until),
        ("cooldown", Some(at("2026-08-01T02:14:00Z")))
    );
    let next = e.next.as_ref().unwrap();
    assert_eq!(next.at, at("2026-08-01T02:14:00Z"));
    assert!(
        next.message.contains("remediation is allowed again")
            && next.message.contains("for Node d"),
        "{}",
        next.message
    );
}

#[test]
fn explain_names_other_holder_of_node_lease() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "node-d", "namespace": "medik8s-leases" },
        "spec": {
            "holderIdentity": "somebody", "renewTime": "2026-08-01T02:09:00.000000Z",
            "leaseDurationSeconds": 300,
        },
    });
    let bad = node("d", "Unknown", "2026-08-01T01:50:00Z");
    let e = explained(
        vec![check(json!({})), good("a"), good("b"), bad, lease],
        NOW,
    );
    let does = &of(&e, "d").does;
    assert_eq!(does, "nothing is begun: its Lease is held by somebody");
    assert_eq!(e.next.unwrap().at, at("2026-08-01T02:14:00Z"));
}

#[test]
fn explain_reports_pause_missing_template_and_openshift_conflicts() {
    let bad = || node("d", "Unknown", "2026-08-01T01:50:00Z");
    let e = explained(
        vec![
            check(json!({ "pauseRequests": ["new racks"] })),
            good("a"),
            good("b"),
            bad(),
        ],
        NOW,
    );
    assert_eq!(
        (e.phase.as_deref(), e.reason.as_deref()),
        (Some("Paused"), Some("the check is paused: new racks"))
    );
    assert!(of(&e, "d").does.contains("the check is paused: new racks"));
    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": { "name": "version" },
        "status": { "conditions": [{ "type": "Progressing", "status": "True" }] },
    });
    let e = explained(
        vec![check(json!({})), good("a"), good("b"), bad(), version],
        NOW,
    );
    let does = &of(&e, "d").does;
    assert!(
        does.contains("ClusterVersion version is Progressing"),
        "{does}"
    );
    let machines = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": { "name": "m", "namespace": "openshift-machine-api" },
        "spec": { "unhealthyConditions": [{ "type": "Ready" }] },
    });
    let e = explained(vec![check(json!({})), good("a"), bad(), machines], NOW);
    assert_eq!(e.phase.as_deref().unwrap(), "Disabled");
    assert!(
        e.reason
            .as_deref()
            .unwrap()
            .contains("MachineHealthCheck openshift-machine-api/m"),
        "{:?}",
        e.reason
    );
    // Without the annotation the templates of one kind cannot be combined.
    let mut bare = template("quick");
    bare["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    let e = asked(&[check(json!({})), good("a"), bare, crd()], None, NOW).unwrap();
    assert_eq!(e.phase.as_deref().unwrap(), "Disabled");
    assert!(
        e.notes
            .iter()
            .any(|n| n.contains("ns/full is not in the files")),
        "{:?}",
        e.notes
    );
}

#[test]
fn explain_shows_planned_actions_of_check_that_does_not_act() {
    let mut dry = check(json!({}));
    dry["metadata"]["annotations"] = json!({ "rackhand.dev/dry-run": "true" });
    let e = explained(
        vec![
            dry,
            good("a"),
            good("b"),
            node("d", "Unknown", "2026-08-01T01:50:00Z"),
        ],
        NOW,
    );
    assert!(!e.acts && e.not_acting[0].contains("dry run"));
    assert!(e.recorded.is_none() && e.due[0].contains("for Node d"));
    assert!(
        e.to_string()
            .contains("what follows is what it would do otherwise")
    );
    let text = json!({ "kind": "List", "items": [check(json!({})), good("a")] }).to_string();
    let files = [("f".to_owned(), text)];
    let e = explain_nodes_files(&files, None, HealthChecks::None, at(NOW)).unwrap();
    assert!(e.not_acting[0].contains("--health-checks=none"));
}

#[test]
fn deleted_and_unselected_nodes_are_shown_while_remediated() {
    let mut other = good("other");
    other["metadata"]["labels"] = json!({});
    let mut left = good("left");
    left["metadata"]["labels"] = json!({});
    let e = explained(
        vec![
            check(json!({})),
            good("a"),
            other,
            left,
            remediation("gone", "quick", "2026-08-01T02:09:00Z"),
            remediation("left", "quick", "2026-08-01T02:09:00Z"),
        ],
        NOW,
    );
    let names: Vec<_> = e
        .targets
        .iter()
        .map(|n| (n.name(), n.verdict.as_str()))
        .collect();
    assert_eq!(
        names,
        [("gone", "gone"), ("left", "healthy"), ("a", "healthy")]
    );
    assert!(
        of(&e, "gone")
            .does
            .contains("deletes XRemediation ns/gone-quick")
    );
    assert_eq!(of(&e, "left").why, "not selected any more");
}

#[test]
fn explain_error_lists_available_node_health_checks() {
    let said =
        |objects: &[Value], name: Option<&str>| asked(objects, name, NOW).unwrap_err().to_string();
    let mut second = check(json!({}));
    second["metadata"]["name"] = json!("masters");
    let both = [check(json!({})), second];
    assert!(said(&both, None).contains("several checks, name one; there are: masters, workers"));
    assert!(said(&both, Some("x")).contains("no NodeHealthCheck x; there are: masters, workers"));
    assert!(said(&[], None).contains("hold no NodeHealthCheck"));
    let odd = check(json!({ "minHealthy": "half" }));
    assert!(said(&[odd], None).contains("cannot parse it"));
    assert!(asked(&both, Some("masters"), NOW).is_ok());
}

#[test]
fn json_and_yaml_output_are_equal() {
    let e = explained(vec![check(json!({})), good("a")], NOW);
    let json: Value = serde_json::from_str(&texts(&e).0).unwrap();
    let yaml: Value = serde_saphyr::from_str(&texts(&e).1).unwrap();
    assert_eq!(json, yaml);
    assert_eq!(json["targets"][0]["counts"], false);
}
