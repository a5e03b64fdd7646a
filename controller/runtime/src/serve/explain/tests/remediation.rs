use rackhand_core::remediation::{
    CommandTaken, HostRef, Mode, OffEvidence, OffProof, PinnedNode, PowerReading, PowerState,
    Reason, State, Step, TaintOwner,
};
use serde_json::{Value, json};

use jiff::Timestamp;
use rackhand_core::explanation::RemediationView;

use super::explain_file_at;
use crate::config::Config;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn state(step: Step) -> State {
    let mut s = State::new(at(0));
    s.step = step;
    s.since = at(20);
    s.mode = Mode::Cooperative;
    s.host = Some(HostRef {
        rack: "r1".into(),
        host: "metal3/node-7".into(),
        bmh: Some("metal3/node-7".into()),
        bmc: "redfish://192.0.2.7".into(),
    });
    s.attempt.node = Some(PinnedNode {
        name: "node-7".into(),
        uid: "n7".into(),
        boot_id: "b".into(),
        system_uuid: "x".into(),
        unproven: false,
    });
    let reading = |second| PowerReading {
        state: PowerState::Off,
        raw: "Off".into(),
        protocol: "Redfish".into(),
        identity: String::new(),
        at: at(second),
        since_start_ms: 1,
        bmc: "192.0.2.7".into(),
    };
    s.attempt.off = Some(OffEvidence::Bmc {
        at: at(15),
        readings: vec![reading(12), reading(14)],
        taken: Some(CommandTaken {
            command: "ForceOff".into(),
            answer: "204".into(),
            since_start_ms: 0,
            proof: Some(OffProof::Taken),
        }),
    });
    // The Node has no Lease, which was recorded with the confirmed off.
    s.attempt.lease_at_off = Some(String::new());
    s.attempt.taint = Some(TaintOwner::Us);
    s.agent_holds = true;
    s
}

fn request(state: Option<&State>) -> Value {
    // A finalizer without a state would mean that the state was lost.
    let finalizers: &[&str] = match state {
        Some(_) => &["rackhand.dev/power-remediation"],
        None => &[],
    };
    json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": {
            "name": "node-7", "namespace": "metal3", "uid": "u-7",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "finalizers": finalizers,
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "name": "node-7", "uid": "m-7",
            }],
        },
        "spec": { "strategy": { "type": "Reboot", "retryLimit": 2 } },
        "status": { "message": "an older word", "cursor": state },
    })
}

fn others() -> Vec<Value> {
    vec![
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": { "name": "node-7", "namespace": "metal3", "uid": "m-7" },
            "spec": {
                "clusterName": "demo",
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine", "name": "node-7",
                },
            },
            "status": { "nodeRef": { "name": "node-7" } },
        }),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine",
            "metadata": {
                "name": "node-7", "namespace": "metal3", "uid": "m3m-7",
                "annotations": { "metal3.io/BareMetalHost": "metal3/node-7" },
            },
        }),
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {
                "name": "node-7", "namespace": "metal3", "uid": "h-7",
                "labels": { "rackhand.dev/rack": "r1" },
                "annotations": { "reboot.metal3.io/rackhand-u-7": "{\"mode\":\"hard\"}" },
            },
            "spec": { "online": true, "bmc": { "address": "redfish://192.0.2.7" } },
            "status": { "provisioning": { "state": "provisioned" } },
        }),
        json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent",
            "metadata": { "name": "r1", "uid": "a-1" },
            "spec": { "rack": "r1", "endpoint": "192.0.2.1:7443" },
        }),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "node-7", "uid": "n7" },
            "spec": { "taints": [{
                "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown",
                "effect": "NoExecute",
            }]},
            "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "db-0", "namespace": "shop" },
            "spec": { "nodeName": "node-7", "containers": [] },
        }),
    ]
}

fn file(objects: &[Value]) -> String {
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    format!("# a dump\n---\n{}\n", documents.join("\n---\n"))
}

fn explained(objects: &[Value], now: i64) -> RemediationView {
    explain_file_at(&file(objects), None, &Config::default(), at(now)).unwrap()
}

fn dump(state: Option<&State>) -> Vec<Value> {
    let mut objects = others();
    objects.push(request(state));
    objects
}

#[test]
fn explain_names_pod_deadline_and_next_step_of_blocked_drain() {
    let e = explained(&dump(Some(&state(Step::Draining))), 80);
    assert_eq!((e.step.as_str(), e.attempt, e.attempts), ("Draining", 1, 3));
    assert_eq!(e.reason, "Draining");
    assert!(e.message.contains("1 pod (shop/db-0)"), "{}", e.message);
    assert_eq!(
        (e.until, e.overdue, e.blocked),
        (Some(at(620)), false, false)
    );
    assert_eq!(e.next.what, "wait");
    assert_eq!(e.recorded.as_deref(), Some("an older word"));
    let text = e.to_string();
    for part in [
        "PowerRemediation metal3/node-7: Draining, attempt 1 of 3, for 1m00s",
        "why        waiting until these are deleted: 1 pod (shop/db-0) (Draining)",
        "(in 9m00s)",
        "never before they are gone",
        "node-7: Ready is Unknown, out of service",
        "metal3/node-7 of rack r1",
        "held by us",
        "Redfish \"Off\"",
        "the BMC still reports off",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let late = explained(&dump(Some(&state(Step::Draining))), 700);
    assert!(late.blocked && late.overdue);
    let text = late.to_string();
    assert!(
        text.contains("BLOCKED") && text.contains("OVERDUE"),
        "{text}"
    );
}

#[test]
fn explain_predicts_next_step_of_engine() {
    let mut objects = dump(Some(&state(Step::Draining)));
    objects.retain(|o| o["kind"] != "Pod");
    let volume = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": { "name": "csi-1" },
        "spec": { "nodeName": "other", "attacher": "csi", "source": {} },
    });
    objects.push(volume);
    let e = explained(&objects, 80);
    assert_eq!(
        (e.next.what.as_str(), e.next.message.as_str()),
        ("write", "goes to PoweringOn")
    );

    let mut waiting = state(Step::AwaitingConfirmation);
    (waiting.attempt.off, waiting.attempt.taint) = (None, None);
    waiting.failure = Some("no answer from 192.0.2.7".into());
    let e = explained(&dump(Some(&waiting)), 80);
    assert!(e.blocked && e.message.contains("rackhand.dev/confirm-fenced"));
    assert_eq!(e.uid, "u-7");

    let mut objects = dump(None);
    objects.retain(|o| o["kind"] != "RackAgent");
    let silent = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent",
        "metadata": { "name": "r1", "uid": "a-1" },
        "spec": { "rack": "r1", "endpoint": "192.0.2.1:7443" },
        "status": { "conditions": [{
            "type": "Connected", "status": "False", "message": "connection refused",
        }]},
    });
    objects.push(silent);
    let e = explained(&objects, 1);
    assert_eq!(
        (e.next.what.as_str(), e.step.as_str()),
        ("write", "Pending")
    );
    let pending = State::new(at(0));
    let mut objects: Vec<Value> = objects
        .into_iter()
        .filter(|o| o["kind"] != "PowerRemediation")
        .collect();
    objects.push(request(Some(&pending)));
    let e = explained(&objects, 1);
    assert_eq!(e.reason, "AgentUnreachable");
    assert!(e.message.contains("connection refused"), "{}", e.message);
}

#[test]
fn explain_names_unfinished_conflicting_remediation_only() {
    let mut objects = dump(Some(&State::new(at(0))));
    let mut other = request(Some(&state(Step::Draining)));
    other["metadata"]["name"] = "first".into();
    other["metadata"]["uid"] = "u-1".into();
    objects.push(other.clone());
    let ask = |objects: &[Value]| {
        let text = file(objects);
        explain_file_at(&text, Some("node-7"), &Config::default(), at(30)).unwrap()
    };
    let e = ask(&objects);
    assert_eq!(e.reason, "OtherRemediation");
    assert!(e.message.contains("PowerRemediation metal3/first"));
    let mut over = state(Step::Blocked);
    over.attempt.end_reason = Some(Reason::TimedOut);
    objects.pop();
    other["status"]["cursor"] = serde_json::to_value(&over).unwrap();
    objects.push(other);
    assert_ne!(ask(&objects).reason, "OtherRemediation");
}

#[test]
fn metal3_remediation_is_explained_from_its_annotation() {
    let mut objects = others();
    let text = json!({ "state": state(Step::Booting), "reason": "R", "message": "m" });
    objects.push(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
        "metadata": {
            "name": "node-7", "namespace": "metal3", "uid": "u-7",
            "annotations": { "rackhand.dev/state": text.to_string() },
            "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "name": "node-7", "uid": "m-7",
            }],
        },
        "spec": { "strategy": { "type": "Reboot", "timeoutSeconds": 300 } },
    }));
    let e = explained(&objects, 80);
    assert_eq!((e.step.as_str(), e.until), ("Booting", Some(at(320))));
    assert!(e.strategy.contains("marked"), "{}", e.strategy);
}

#[test]
fn explain_reads_kubectl_list_and_prints_json() {
    let list =
        json!({ "apiVersion": "v1", "kind": "List", "items": dump(Some(&state(Step::Fenced))) });
    let e = explained(&[list], 80);
    assert_eq!(e.step, "Fenced");
    let json = serde_json::to_value(&e).unwrap();
    assert_eq!(json["request"], "PowerRemediation metal3/node-7");
    assert!(json["next"]["message"].is_string() && json["until"].is_null());
}

#[test]
fn unusable_file_reports_the_cause() {
    let refused = |text: &str, name: Option<&str>| {
        let config = Config::default();
        explain_file_at(text, name, &config, at(0))
            .unwrap_err()
            .to_string()
    };
    assert!(refused("", None).contains("holds no PowerRemediation"));
    assert!(refused("a: [", None).contains("document 1 of the file: not YAML"));
    assert!(refused("- a\n- b\n", None).contains("not a Kubernetes object"));
    let text = file(&dump(None));
    assert!(refused(&text, Some("other")).contains("holds no"));
    let mut two = dump(None);
    let mut second = request(None);
    second["metadata"]["name"] = "node-8".into();
    two.push(second);
    let several = refused(&file(&two), None);
    assert!(
        several.contains("node-7") && several.contains("node-8"),
        "{several}"
    );
    let mut odd = dump(None);
    odd.last_mut().unwrap()["status"]["cursor"] = json!({ "step": 7 });
    assert!(refused(&file(&odd), None).contains("status.cursor"));
}

#[test]
fn explain_reports_node_missing_from_file() {
    let mut objects = dump(Some(&state(Step::Tainting)));
    objects.retain(|o| o["kind"] != "Node");
    let e = explained(&objects, 30);
    assert_eq!(e.reason, "WorkloadUnreachable");
    assert!(e.assumed.iter().any(|a| a.contains("not in the file")));
}

#[test]
fn explain_shows_rack_agent_status_and_names_unknown_inventories() {
    let mut objects = dump(Some(&State::new(at(0))));
    objects.retain(|o| o["kind"] != "RackAgent");
    let agent = |name: &str, status: &str, why: &str, hosts: i64| {
        json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent",
            "metadata": { "name": name, "uid": name },
            "spec": { "rack": "r1", "endpoint": "192.0.2.1:7443" },
            "status": { "hosts": hosts, "conditions": [{
                "type": "Connected", "status": status, "message": why,
            }]},
        })
    };
    objects.push(agent("r1-a", "False", "connection refused", 0));
    objects.push(agent("r1-b", "True", "ok", 12));
    for (name, status, reason) in [
        ("r1-c", "True", "Standby"),
        ("r1-d", "False", "TermOutlier"),
    ] {
        let mut object = agent(name, status, "term outlier: 2000000000", 0);
        object["status"]["conditions"][0]["reason"] = json!(reason);
        objects.push(object);
    }
    let text = explained(&objects, 5).to_string();
    for part in [
        "r1-a of rack r1: not reachable: connection refused",
        "r1-b of rack r1: connected, serves 12 host(s) of its own inventory",
        "r1-c of rack r1: connected, stands by",
        "r1-d of rack r1: not used: term outlier: 2000000000",
        "only the controller receives the inventories of the agents r1-b (12)",
        "counts more than its BareMetalHost",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    // The inventories no longer matter once a host is chosen.
    let mut begun = objects.clone();
    begun.retain(|o| o["kind"] != "PowerRemediation");
    begun.push(request(Some(&state(Step::Draining))));
    let text = explained(&begun, 80).to_string();
    assert!(!text.contains("only the controller receives"), "{text}");
    // No object names a host, so it may be in an inventory.
    objects.retain(|o| o["kind"] != "BareMetalHost" && o["kind"] != "Metal3Machine");
    let text = explained(&objects, 5).to_string();
    assert!(text.contains("this one may be among them"), "{text}");
    begun.retain(|o| o["kind"] != "RackAgent");
    let text = explained(&begun, 80).to_string();
    assert!(text.contains("no RackAgent of it was found"), "{text}");
}

/// A remediation of a control-plane Machine of OpenShift.
fn openshift(guard: &[Value]) -> Vec<Value> {
    let role = "node-role.kubernetes.io/master";
    let mut objects = vec![
        json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": {
                "name": "m1", "namespace": "api", "uid": "u-1",
                "ownerReferences": [{
                    "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m1",
                    "uid": "m-1",
                }],
            },
            "status": { "cursor": State::new(at(0)) },
        }),
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {
                "name": "m1", "namespace": "api", "uid": "m-1",
                "annotations": { "metal3.io/BareMetalHost": "api/h1" },
            },
            "status": { "nodeRef": { "name": "master-0" } },
        }),
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": { "name": "h1", "namespace": "api", "uid": "h-1" },
            "spec": {
                "online": true, "bmc": { "address": "redfish://192.0.2.7" },
                "consumerRef": { "kind": "Machine", "name": "m1", "namespace": "api" },
            },
            "status": { "provisioning": { "state": "provisioned" } },
        }),
        json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "RackAgent",
            "metadata": { "name": "r1", "uid": "a-1" },
            "spec": { "rack": "r1", "endpoint": "192.0.2.1:7443" },
        }),
    ];
    for (name, ready) in [
        ("master-0", "Unknown"),
        ("master-1", "True"),
        ("master-2", "True"),
    ] {
        objects.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "uid": name,
                "labels": { role: "", "node.openshift.io/os_id": "rhcos" },
            },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        }));
    }
    objects.extend(guard.iter().cloned());
    objects
}

#[test]
fn f6_explain_shows_and_respects_openshift_etcd_guard() {
    let budget = |allowed: i64| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "etcd-guard-pdb", "namespace": "openshift-etcd" },
            "status": {
                "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2,
                "expectedPods": 3,
            },
        })
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "etcd-guard-master-0", "namespace": "openshift-etcd",
            "labels": { "app": "guard" },
        },
        "spec": { "nodeName": "master-0", "containers": [] },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let e = explained(&openshift(&[budget(1), pod.clone()]), 5);
    assert_eq!(e.next.message, "adds its finalizer to the object", "{e}");
    let text = e.to_string();
    for part in [
        "api/m1",
        "master-0: Ready is Unknown",
        "api/h1 of rack r1",
        "its guard allows 1 disruption now; the member of this node is ready",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let e = explained(&openshift(&[budget(0), pod]), 5);
    assert_eq!(e.reason, "ControlPlaneQuorum", "{e}");
    let e = explained(&openshift(&[]), 5);
    let said = e.assumed.iter().any(|a| a.contains("guard of etcd"));
    assert!(said && e.reason != "ControlPlaneQuorum", "{e}");
}

#[test]
fn remediation_waiting_for_its_own_cause_does_not_block_others() {
    let mut objects = dump(Some(&State::new(at(0))));
    let mut other = request(Some(&State::new(at(0))));
    other["metadata"]["name"] = "first".into();
    other["metadata"]["uid"] = "u-1".into();
    other["metadata"]["creationTimestamp"] = "2027-01-15T07:00:00Z".into();
    let ask = |objects: &[Value]| {
        let text = file(objects);
        let config = Config::default();
        let asked = explain_file_at(&text, Some("node-7"), &config, at(30));
        asked.unwrap().reason
    };
    for (said, reason) in [
        ("Paused", "Started"),
        ("Started", "OtherRemediation"),
        ("OtherRemediation", "OtherRemediation"),
    ] {
        other["status"]["reason"] = said.into();
        objects.push(other.clone());
        assert_eq!(ask(&objects), reason, "{said}");
        objects.pop();
    }
}
