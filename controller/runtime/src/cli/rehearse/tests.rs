use rackhand_core::rehearsal::RehearsalOutcome;
use serde_json::{Value, json};

use super::*;

const CHECK: &str = r"
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: { name: workers, namespace: metal3 }
spec:
  clusterName: c
  selector: { matchLabels: { pool: a } }
  maxUnhealthy: 40%
  unhealthyConditions:
    - { type: Ready, status: Unknown, timeout: 1m }
  remediationTemplate:
    apiVersion: rackhand.dev/v1alpha1
    kind: PowerRemediationTemplate
    name: t
    namespace: metal3
";

const POLICY: &str = r"
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: { name: racks }
spec:
  budgets: [{ per: Rack, maxConcurrent: 1 }]
";

fn line(minute: u32, object: &Value) -> String {
    let at = format!("2026-03-01T10:{minute:02}:00Z");
    json!({ "at": at, "type": "MODIFIED", "object": object }).to_string()
}

fn node(name: &str, ready: &str, minute: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "rackhand.dev/rack": "r1" } },
        "status": { "conditions": [{
            "type": "Ready", "status": ready,
            "lastTransitionTime": format!("2026-03-01T10:{minute:02}:00Z"),
        }] },
    })
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": format!("m-{name}"), "namespace": "metal3", "uid": format!("u-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "pool": "a", "cluster.x-k8s.io/cluster-name": "c" },
        },
        "spec": { "clusterName": "c" },
        "status": { "nodeRef": { "name": name } },
    })
}

/// Five Machines; two of their Nodes fail at minute 10.
fn recording() -> String {
    let mut lines = Vec::new();
    for number in 0..5 {
        let name = format!("n{number}");
        lines.push(line(0, &machine(&name)));
        lines.push(line(0, &node(&name, "True", 0)));
    }
    for name in ["n1", "n2"] {
        lines.push(line(10, &node(name, "Unknown", 10)));
    }
    lines.push(line(40, &node("n0", "True", 0)));
    lines.join("\n")
}

fn input(rules: &str, history: String) -> RehearsalInput {
    RehearsalInput {
        files: vec![("rules.yaml".into(), rules.into())],
        history: vec![("history".into(), history)],
        takes: Duration::from_secs(300),
        ..RehearsalInput::default()
    }
}

#[test]
fn recording_of_machines_and_nodes_is_rehearsed_with_a_budget_per_rack() {
    let rules = format!("{CHECK}{POLICY}");
    let mut input = input(&rules, recording());
    input.compared = vec![("check.yaml".into(), CHECK.into())];
    let rehearsed = rehearse(&input).unwrap();
    let begun: Vec<(&str, Option<String>)> = rehearsed
        .report
        .remediations
        .iter()
        .map(|r| (r.machine.as_str(), r.begun.map(|at| at.to_string())))
        .collect();
    assert_eq!(
        begun,
        [
            ("m-n1", Some("2026-03-01T10:11:00Z".into())),
            ("m-n2", Some("2026-03-01T10:16:00Z".into())),
        ]
    );
    let all = &rehearsed.report.remediations;
    assert!(
        all.iter()
            .all(|r| r.outcome == RehearsalOutcome::Remediated),
        "{all:#?}"
    );
    let [difference] = rehearsed.differences.as_slice() else {
        panic!("{:#?}", rehearsed.differences);
    };
    assert_eq!(difference.machine, "m-n2");
    let [note] = rehearsed.notes.as_slice() else {
        panic!("{:?}", rehearsed.notes);
    };
    assert!(
        note.contains("Cluster metal3/c is not in the files"),
        "{note}"
    );
}

#[test]
fn failure_trace_without_machines_is_rehearsed_node_by_node() {
    let mut trace = String::from("node,down,up\n");
    for number in 0..5 {
        // The failures of the other nodes are too short.
        let up = if number == 3 { 5000 } else { 1030 };
        trace += &format!("n{number},1000,{up}\n");
    }
    let rehearsed = rehearse(&input(CHECK, trace)).unwrap();
    let [only] = rehearsed.report.remediations.as_slice() else {
        panic!("{:#?}", rehearsed.report);
    };
    assert_eq!(
        (only.machine.as_str(), only.requested.as_second()),
        ("n3", 1060)
    );
    assert!(
        rehearsed
            .notes
            .iter()
            .any(|n| n.contains("each Node counts as"))
    );
}

#[test]
fn files_without_a_check_and_wrong_policies_are_reported() {
    let error = rehearse(&input(POLICY, recording())).unwrap_err();
    assert!(
        error.to_string().contains("no MachineHealthCheck"),
        "{error}"
    );
    let wrong = POLICY.replace("budgets: [{ per: Rack, maxConcurrent: 1 }]", "windows: 3");
    let rehearsed = rehearse(&input(&format!("{CHECK}{wrong}"), recording())).unwrap();
    assert_eq!(rehearsed.report.totals.waiting, 2);
    assert!(
        rehearsed
            .notes
            .iter()
            .any(|n| n.contains("PowerPolicy racks holds"))
    );
}

const NODE_CHECK: &str = r"
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: { name: nodes, uid: u-check }
spec:
  selector: { matchLabels: { rackhand.dev/rack: r1 } }
  minHealthy: 51%
  unhealthyConditions:
    - { type: Ready, status: Unknown, duration: 2m }
  remediationTemplate:
    apiVersion: rackhand.dev/v1alpha1
    kind: PowerRemediationTemplate
    name: t
    namespace: default
";

#[test]
fn node_health_check_is_rehearsed_with_the_nodes_that_it_selects() {
    let rehearsed = rehearse(&input(NODE_CHECK, recording())).unwrap();
    let begun: Vec<(&str, String)> = rehearsed
        .report
        .remediations
        .iter()
        .map(|r| {
            (
                r.machine.as_str(),
                r.begun.unwrap().strftime("%H:%M").to_string(),
            )
        })
        .collect();
    assert_eq!(begun, [("n1", "10:12".into()), ("n2", "10:12".into())]);
    let [cause] = rehearsed.report.remediations[0].causes.as_slice() else {
        panic!("{:#?}", rehearsed.report);
    };
    assert!(cause.contains("condition Ready is Unknown"), "{cause}");
}

const OPENSHIFT_CHECK: &str = r"
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: workers
  namespace: openshift-machine-api
  annotations: { machine.openshift.io/remediation-strategy: external-baremetal }
spec:
  selector: { matchLabels: { pool: a } }
  maxUnhealthy: 60%
  unhealthyConditions:
    - { type: Ready, status: Unknown, timeout: 60s }
";

const SHARED_CAUSES: &str = r"
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: { name: together }
spec:
  sharedCauses: { minHosts: 2, minPercent: 40 }
";

/// The same failure with Machines of OpenShift, and a Machine of another namespace.
fn openshift_recording() -> String {
    let of_openshift = |name: &str, namespace: &str| {
        let mut machine = machine(name);
        machine["apiVersion"] = json!("machine.openshift.io/v1beta1");
        machine["metadata"]["namespace"] = json!(namespace);
        machine
    };
    let mut lines = vec![line(0, &of_openshift("n1", "other"))];
    for number in 0..5 {
        let machine = of_openshift(&format!("n{number}"), "openshift-machine-api");
        lines.push(line(0, &machine));
    }
    let nodes = recording();
    lines.extend(
        nodes
            .lines()
            .filter(|l| l.contains("\"Node\""))
            .map(str::to_owned),
    );
    lines.join("\n")
}

#[test]
fn check_of_openshift_is_rehearsed_with_the_machines_of_its_namespace() {
    let rehearsed = rehearse(&input(OPENSHIFT_CHECK, openshift_recording())).unwrap();
    let begun: Vec<(&str, &str, String)> = rehearsed
        .report
        .remediations
        .iter()
        .map(|r| {
            let begun = r.begun.unwrap().strftime("%H:%M").to_string();
            (r.check.as_str(), r.machine.as_str(), begun)
        })
        .collect();
    let check = "openshift-machine-api/workers";
    assert_eq!(
        begun,
        [
            (check, "m-n1", "10:11".into()),
            (check, "m-n2", "10:11".into()),
        ]
    );
    assert!(rehearsed.notes.is_empty(), "{:?}", rehearsed.notes);
    // The Machines of Cluster API are no Machines of OpenShift.
    let rehearsed = rehearse(&input(OPENSHIFT_CHECK, recording())).unwrap();
    let all = &rehearsed.report.remediations;
    assert_eq!(all.len(), 2, "{all:#?}");
    assert_eq!(all[0].machine, "n1");
    assert!(
        rehearsed.notes.iter().any(|n| n.contains(check)),
        "{:?}",
        rehearsed.notes
    );
}

#[test]
fn what_a_shared_cause_would_have_held_is_reported_and_compared() {
    let rules = format!("{OPENSHIFT_CHECK}{SHARED_CAUSES}");
    let mut input = input(&rules, openshift_recording());
    input.compared = vec![("check.yaml".into(), OPENSHIFT_CHECK.into())];
    let rehearsed = rehearse(&input).unwrap();
    let [span] = rehearsed.report.shared_causes.as_slice() else {
        panic!("{:#?}", rehearsed.report);
    };
    assert_eq!(
        (span.policy.as_str(), span.cause.as_str(), span.held),
        ("together", "rack r1", 2)
    );
    assert!(
        span.message.starts_with("2 of 5 hosts of rack r1 failed"),
        "{}",
        span.message
    );
    // Blocked from 10:11 for 15 minutes.
    let begun = rehearsed.report.remediations[0].begun.unwrap();
    assert_eq!(begun.strftime("%H:%M").to_string(), "10:26");
    let other = rehearsed.compared.unwrap();
    assert!(other.shared_causes.is_empty());
    assert_eq!(rehearsed.differences.len(), 2);
}

const COOLDOWN: &str = r"
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: { name: rest }
spec:
  cooldownSeconds: 3600
---
apiVersion: rackhand.dev/v1alpha1
kind: HostHistory
metadata: { name: r1.n1 }
spec: { rack: r1, host: n1 }
status:
  total: 1
  remediations:
    - uid: u
      kind: PowerRemediation
      namespace: metal3
      name: m-n1
      node: n1
      createdAt: 2026-03-01T09:00:00Z
      finishedAt: 2026-03-01T09:30:00Z
      outcome: succeeded
      attempts:
        - number: 1
          startedAt: 2026-03-01T09:00:00Z
          poweredOffAt: 2026-03-01T09:01:00Z
";

#[test]
fn cooldown_counts_the_remediations_of_the_host_histories_in_the_files() {
    let rehearsed = rehearse(&input(&format!("{CHECK}{COOLDOWN}"), recording())).unwrap();
    let begun: Vec<(&str, String)> = rehearsed
        .report
        .remediations
        .iter()
        .map(|r| {
            let begun = r.begun.map(|at| at.strftime("%H:%M").to_string());
            (r.machine.as_str(), begun.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        begun,
        [("m-n1", "10:30".into()), ("m-n2", "10:11".into())],
        "{:#?}",
        rehearsed.report
    );
}
