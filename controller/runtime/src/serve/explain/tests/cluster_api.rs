//! Explanations of a MachineHealthCheck of Cluster API.

use rackhand_api::names::{CAPI_PAUSED_ANNOTATION, EVALUATE_ANNOTATION};
use serde_json::{Value, json};

use jiff::Timestamp;
use rackhand_core::explanation::{CheckView, TargetView};

use super::{ExplainError, explain_check_files, texts};
use crate::config::{Config, HealthChecks};

const NOW: &str = "2026-08-01T02:10:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn check() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": { "name": "workers", "namespace": "metal3", "uid": "c-1" },
        "spec": {
            "clusterName": "demo",
            "maxUnhealthy": "60%",
            "selector": { "matchLabels": { "pool": "a" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
            "remediationTemplate": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "Metal3RemediationTemplate", "name": "reboot",
            },
        },
        "status": { "conditions": [{ "type": "RemediationAllowed", "status": "True" }] },
    })
}

fn cluster() -> Value {
    let ready = |t: &str| json!({ "type": t, "status": "True", "lastTransitionTime": "2026-07-01T00:00:00Z" });
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": { "name": "demo", "namespace": "metal3", "uid": "k-1" },
        "status": { "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")] },
    })
}

fn crd(ours: bool) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "machinehealthchecks.cluster.x-k8s.io",
            "labels": { "rackhand.dev/crd": if ours { "true" } else { "false" } },
        },
    })
}

fn machine(name: &str, node: bool) -> Value {
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "metal3", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-08-01T02:05:00Z",
            "labels": { "pool": "a", "cluster.x-k8s.io/cluster-name": "demo" },
        },
        "spec": { "clusterName": "demo" },
        "status": {},
    });
    if node {
        machine["status"]["nodeRef"] = json!({ "name": name });
    }
    machine
}

fn node(name: &str, ready: &str, since: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("n-{name}") },
        "status": { "conditions": [{
            "type": "Ready", "status": ready, "reason": "NodeStatusUnknown",
            "lastTransitionTime": since,
        }]},
    })
}

/// Five Machines: one unhealthy since 02:01, one since 02:07, two healthy, one without a Node yet.
fn fleet() -> Vec<Value> {
    let mut objects = vec![check(), cluster(), crd(true)];
    for (name, ready, since) in [
        ("a-dead", "Unknown", "2026-08-01T02:01:00Z"),
        ("b-soon", "Unknown", "2026-08-01T02:07:00Z"),
        ("c-well", "True", "2026-07-01T00:00:00Z"),
        ("d-well", "True", "2026-07-01T00:00:00Z"),
    ] {
        objects.push(machine(name, true));
        objects.push(node(name, ready, since));
    }
    objects.push(machine("e-new", false));
    objects
}

fn text(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    documents.join("\n---\n")
}

fn asked(
    objects: &[Value],
    name: Option<&str>,
    mode: HealthChecks,
) -> Result<CheckView, ExplainError> {
    let files = [("dump.yaml".to_owned(), text(objects))];
    explain_check_files(&files, name, None, None, &of(mode), at(NOW))
}

fn of(health_checks: HealthChecks) -> Config {
    Config {
        health_checks,
        ..Config::default()
    }
}

fn explained(objects: &[Value]) -> CheckView {
    asked(objects, None, HealthChecks::Auto).unwrap()
}

fn row<'a>(e: &'a CheckView, name: &str) -> &'a TargetView {
    e.targets.iter().find(|m| m.name() == name).unwrap()
}

fn set(objects: &mut [Value], kind: &str, pointer: (&str, &str), value: &Value) {
    for object in objects.iter_mut().filter(|o| o["kind"] == kind) {
        object["metadata"][pointer.0][pointer.1] = value.clone();
    }
}

#[test]
fn explain_shows_verdict_cause_and_times_of_each_machine() {
    let e = explained(&fleet());
    let order: Vec<&str> = e.targets.iter().map(TargetView::name).collect();
    assert_eq!(order, ["a-dead", "b-soon", "e-new", "c-well", "d-well"]);
    let dead = row(&e, "a-dead");
    assert_eq!(dead.verdict, "unhealthy");
    assert_eq!(dead.since, Some(at("2026-08-01T02:06:00Z")));
    assert_eq!(
        dead.why,
        "Condition Ready on Node is Unknown (NodeStatusUnknown) for 5m0s or longer"
    );
    assert_eq!(dead.causes[0].since, Some(at("2026-08-01T02:01:00Z")));
    let soon = row(&e, "b-soon");
    assert_eq!(
        (soon.verdict.as_str(), soon.since, soon.until, soon.counts),
        (
            "suspect",
            Some(at("2026-08-01T02:07:00Z")),
            Some(at("2026-08-01T02:12:00Z")),
            true
        )
    );
    let new = row(&e, "e-new");
    assert_eq!(
        (new.verdict.as_str(), new.until, new.counts),
        ("suspect", Some(at("2026-08-01T02:15:00Z")), true)
    );
}

#[test]
fn explain_shows_limit_arithmetic_action_and_next_deadline() {
    let e = explained(&fleet());
    assert!(e.acts && e.limit.allowed, "{e}");
    assert_eq!(
        e.limit.message,
        "5 machines: 2 healthy, 1 unhealthy, 2 suspect. 3 count against the limit: \
         a-dead (unhealthy), b-soon (suspect), e-new (suspect). \
         The limit is 60% of 5, rounded down 3. 3 is not more than 3: remediation is allowed; \
         0 more may fail before it stops."
    );
    assert_eq!(e.due, ["creates Metal3Remediation a-dead"]);
    assert_eq!(row(&e, "a-dead").does, "creates Metal3Remediation a-dead");
    let next = e.next.clone().unwrap();
    assert_eq!(next.at, at("2026-08-01T02:12:00Z"));
    assert_eq!(
        next.message,
        "b-soon becomes unhealthy; then Rackhand creates Metal3Remediation b-soon"
    );
    let shown = e.to_string();
    for part in [
        "MachineHealthCheck metal3/workers of Cluster metal3/demo, at 2026-08-01T02:10:00Z",
        "unhealthy  after Node Ready=Unknown for 5m0s; no Node within 10m0s",
        "now        creates Metal3Remediation a-dead",
        "next       at 02:12:00Z (in 2m00s): b-soon becomes unhealthy",
        "MACHINE  NODE    VERDICT    SINCE",
        "02:06:00Z (4m00s)",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
}

#[test]
fn explain_shows_closed_limit_and_running_remediation() {
    let mut objects = fleet();
    objects[0]["spec"]["maxUnhealthy"] = json!(1);
    objects.push(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
        "metadata": {
            "name": "c-well", "namespace": "metal3", "uid": "r-1",
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "name": "c-well", "uid": "u-c-well",
            }],
        },
    }));
    let e = explained(&objects);
    assert!(!e.limit.allowed);
    assert!(
        e.limit
            .message
            .ends_with("The limit is 1. 4 is more than 1: remediation is NOT allowed."),
        "{}",
        e.limit.message
    );
    assert!(
        e.limit
            .message
            .contains("c-well (its remediation is not over)")
    );
    assert_eq!(row(&e, "a-dead").does, "nothing: the limit forbids it");
    assert_eq!(
        e.due,
        ["deletes Metal3Remediation c-well: the machine is healthy again"]
    );
    assert_eq!(
        row(&e, "c-well").remediations[0].to_string(),
        "Metal3Remediation c-well: running"
    );
    assert_eq!(
        e.recorded.as_deref(),
        Some("RemediationAllowed is True"),
        "the recorded condition is older"
    );
    assert!(e.to_string().contains("  LIMIT      5 machines"));
}

#[test]
fn explain_reports_not_acting_first_and_still_shows_verdicts() {
    let says = |change: &dyn Fn(&mut Vec<Value>), mode| {
        let mut objects = fleet();
        change(&mut objects);
        let e = asked(&objects, None, mode).unwrap();
        assert!(!e.acts);
        assert_eq!(row(&e, "a-dead").verdict, "unhealthy");
        assert_eq!(e.due.len(), 1, "the planned action is shown");
        let shown = e.to_string();
        assert!(
            shown.lines().nth(1).unwrap().contains("NOT ACTING"),
            "{shown}"
        );
        e.not_acting.join("; ")
    };
    let auto = HealthChecks::Auto;
    let theirs = says(&|o| o[2] = crd(false), auto);
    assert!(theirs.contains("not installed by Rackhand"), "{theirs}");
    assert!(theirs.contains(EVALUATE_ANNOTATION));
    let none = says(&|_| {}, HealthChecks::None);
    assert!(none.contains("--health-checks=none"), "{none}");
    let annotation = |key: &'static str, value: &'static str| {
        move |o: &mut Vec<Value>| {
            set(o, "MachineHealthCheck", ("annotations", key), &json!(value));
        }
    };
    let paused = says(&annotation(CAPI_PAUSED_ANNOTATION, ""), auto);
    assert!(paused.contains("paused by its annotation cluster.x-k8s.io/paused"));
    let dry = says(&annotation("rackhand.dev/dry-run", "true"), auto);
    assert!(dry.contains("dry run"), "{dry}");
    let held = says(&|o| o[1]["spec"] = json!({ "paused": true }), auto);
    assert!(held.contains("Cluster metal3/demo is paused (spec.paused)"));
    let going = says(
        &|o| o[0]["metadata"]["deletionTimestamp"] = json!("2026-08-01T02:00:00Z"),
        auto,
    );
    assert!(going.contains("being deleted"));
    let files = [("dump.yaml".to_owned(), text(&fleet()))];
    let told =
        |config: &Config| explain_check_files(&files, None, None, None, config, at(NOW)).unwrap();
    let watched = |namespace: &str| {
        told(&Config {
            namespace: Some(namespace.into()),
            ..Config::default()
        })
    };
    let elsewhere = watched("other").not_acting.join("; ");
    assert!(elsewhere.contains("only namespace other"), "{elsewhere}");
    assert!(watched("metal3").acts);
    let filtered = told(&Config {
        watch_filter: Some("blue".into()),
        ..Config::default()
    });
    assert_eq!(
        filtered.not_acting,
        ["the check does not carry the label cluster.x-k8s.io/watch-filter=blue (--watch-filter)"]
    );
}

#[test]
fn explain_warns_if_cluster_api_controller_acts_on_same_check() {
    let mut objects = fleet();
    objects[2] = crd(false);
    let evaluate = ("annotations", EVALUATE_ANNOTATION);
    set(&mut objects, "MachineHealthCheck", evaluate, &json!("true"));
    let e = explained(&objects);
    assert!(e.acts);
    assert!(e.notes.iter().any(|n| n.contains("acts on this check too")));
    let paused = ("annotations", CAPI_PAUSED_ANNOTATION);
    set(&mut objects, "MachineHealthCheck", paused, &json!(""));
    let e = explained(&objects);
    assert!(e.acts && e.notes.is_empty(), "{:?}", e.notes);
}

#[test]
fn explain_treats_objects_missing_from_files_as_unknown() {
    let mut objects = fleet();
    objects.retain(|o| {
        !(o["kind"] == "Node" && o["metadata"]["name"] == "a-dead") && o["kind"] != "Cluster"
    });
    let e = explained(&objects);
    let dead = row(&e, "a-dead");
    assert_eq!(dead.verdict, "unknown");
    assert!(dead.why.contains("Node a-dead is not in the files"));
    assert!(
        e.notes
            .iter()
            .any(|n| n.contains("Cluster metal3/demo is not in the files"))
    );
    assert!(
        e.notes
            .iter()
            .any(|n| n.contains("1 of the Machines name a Node"))
    );
    objects.retain(|o| o["kind"] != "Node");
    let e = explained(&objects);
    assert!(e.notes.iter().any(|n| n.contains("the files hold no Node")));
}

#[test]
fn explain_reads_lists_and_v1beta2_and_prints_json_and_yaml() {
    let mut objects = fleet();
    objects[0]["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
    objects[0]["spec"] = json!({
        "clusterName": "demo",
        "selector": { "matchLabels": { "pool": "a" } },
        "checks": {
            "nodeStartupTimeoutSeconds": 0,
            "unhealthyNodeConditions": [{ "type": "Ready", "status": "Unknown", "timeoutSeconds": 300 }],
        },
        "remediation": { "triggerIf": { "unhealthyInRange": "[2-3]" } },
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let e = explained(&[list]);
    assert_eq!(e.rules, ["Node Ready=Unknown for 5m0s", "no Node: never"]);
    assert!(e.remediation[0].starts_with("its owner"));
    // Without a startup timeout the verdict of the new Machine is unknown, and it counts against the limit.
    assert_eq!(row(&e, "e-new").verdict, "unknown");
    assert!(
        e.limit
            .message
            .contains("The limit is from 2 to 3. 3 is within the limit"),
        "{}",
        e.limit.message
    );
    let json: Value = serde_json::from_str(&texts(&e).0).unwrap();
    assert_eq!(json["targets"][0]["machine"], "a-dead");
    assert_eq!(json["limit"]["counting"], 3);
    assert!(texts(&e).1.contains("machine: a-dead"));
}

#[test]
fn explain_lists_available_checks_if_none_matches() {
    let refused = |objects: &[Value], name| {
        asked(objects, name, HealthChecks::Auto)
            .unwrap_err()
            .to_string()
    };
    let other = refused(&fleet(), Some("masters"));
    assert_eq!(
        other,
        "the files hold no MachineHealthCheck masters that fits; there are: metal3/workers"
    );
    assert!(refused(&[cluster()], None).ends_with("there are none"));
    let mut two = fleet();
    let mut second = check();
    second["metadata"]["name"] = json!("masters");
    two.push(second);
    let several = refused(&two, None);
    assert!(
        several.contains("metal3/masters, metal3/workers"),
        "{several}"
    );
    let mut bad = fleet();
    bad[0]["spec"]["maxUnhealthy"] = json!("many");
    let bad = refused(&bad, None);
    assert!(
        bad.contains(
            "is not evaluated: cannot parse it: MachineHealthCheck metal3/workers: \
                      spec.maxUnhealthy is \"many\""
        ),
        "{bad}"
    );
    let files = [("broken.yaml".to_owned(), "a: [".to_owned())];
    let broken = explain_check_files(&files, None, None, None, &Config::default(), at(NOW));
    let broken = broken.unwrap_err().to_string();
    assert!(broken.starts_with("broken.yaml: document 1"), "{broken}");
}

#[test]
fn explain_reports_future_condition_and_counts_timeout_from_it() {
    let mut objects = fleet();
    objects.retain(|o| o["metadata"]["name"] != "c-well");
    objects.push(machine("c-well", true));
    objects.push(node("c-well", "Unknown", "2026-08-01T03:00:00Z"));
    let e = explained(&objects);
    let early = row(&e, "c-well");
    assert_eq!(
        (early.verdict.as_str(), early.until),
        ("suspect", Some(at("2026-08-01T03:05:00Z")))
    );
    let told: Vec<&String> = e
        .notes
        .iter()
        .filter(|n| n.contains("in the future"))
        .collect();
    assert!(
        told.len() == 1
            && told[0].contains("c-well (Ready=Unknown on Node since 2026-08-01T03:00:00Z)"),
        "{:?}",
        e.notes
    );
    // The end of the clock skew is no deadline; the next one is that of the timeout.
    objects.retain(|o| {
        let name = o["metadata"]["name"].as_str().unwrap_or_default();
        !["a-dead", "b-soon", "e-new"].contains(&name)
    });
    let next = explained(&objects).next.unwrap();
    assert_eq!(next.at, at("2026-08-01T03:05:00Z"));
    assert_eq!(next.targets, ["c-well"]);
}

#[test]
fn explain_reports_that_nothing_is_due() {
    let mut objects = fleet();
    objects.retain(|o| {
        let name = o["metadata"]["name"].as_str().unwrap_or_default();
        !["a-dead", "b-soon", "e-new"].contains(&name)
    });
    let e = explained(&objects);
    assert!(e.next.is_none() && e.due.is_empty());
    let shown = e.to_string();
    assert!(shown.contains("now        nothing is due"), "{shown}");
    assert!(
        shown.contains("next       nothing until an object changes"),
        "{shown}"
    );
    objects.retain(|o| o["kind"] != "Machine");
    let e = explained(&objects);
    assert!(
        e.limit
            .message
            .contains("no machines: the selector fits none"),
        "{}",
        e.limit.message
    );
}

#[test]
fn explain_names_older_overlapping_check_as_acting() {
    let mut objects = fleet();
    let mut older = check();
    older["metadata"]["name"] = "all".into();
    older["metadata"]["creationTimestamp"] = "2026-07-01T00:00:00Z".into();
    older["spec"]["selector"] =
        json!({ "matchExpressions": [{ "key": "pool", "operator": "Exists" }] });
    objects.push(older);
    let of = |objects: &[Value]| asked(objects, Some("workers"), HealthChecks::Auto).unwrap();
    let e = of(&objects);
    assert!(e.acts && e.due.is_empty(), "{:?}", e.due);
    assert_eq!(
        row(&e, "a-dead").does,
        "nothing: MachineHealthCheck all acts for it"
    );
    let note = e.notes.iter().find(|n| n.contains("acts for")).unwrap();
    assert!(
        note.starts_with("MachineHealthCheck all acts for a-dead, "),
        "{note}"
    );
    // A paused check does not prevent others from acting.
    let last = objects.last_mut().unwrap();
    last["metadata"]["annotations"] = json!({ "rackhand.dev/paused": "" });
    let e = of(&objects);
    assert!(!row(&e, "a-dead").does.contains("acts for it"));
}
