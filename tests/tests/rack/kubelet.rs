//! The simulated kubelet: its decisions, and one host with a kubelet and a small API server in
//! memory.

use std::time::Duration;

use crate::rack_support::SOON;
use crate::rack_support::api::Api;
use k8s_openapi::api::core::v1::{Node, Pod};
use rackhand_tests::rack::kubelet::{node, pods};
use rackhand_tests::rack::{
    HostConfig, HostView, OsState, PowerState, PowerTimings, Rack, RackConfig, ResetType,
    StopReason,
};
use serde_json::{Value, json};

fn mk_pod(uid: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "default", "uid": uid, "resourceVersion": "1"},
        "spec": {"nodeName": "n1", "containers": [{"name": "db", "image": "db:1"}]},
        "status": status,
    })
}

fn typed(pod: Value) -> Pod {
    serde_json::from_value(pod).unwrap()
}

fn mk_running() -> pods::Running {
    pods::Running {
        since: "2026-01-01T00:00:00Z".parse().unwrap(),
        ip: "10.64.0.2".to_owned(),
        host_ip: "127.0.0.1".to_owned(),
        boot_id: "boot-1".to_owned(),
    }
}

#[test]
fn pod_action_follows_its_phase_and_deletion() {
    use pods::PodAction;
    let mut pod = typed(mk_pod("a", &json!({"phase": "Pending"})));
    assert_eq!(pods::decide(&pod, false), PodAction::Start);
    assert_eq!(pods::decide(&pod, true), PodAction::Report);
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    assert_eq!(
        pods::decide(&typed(mk_pod("a", &ready)), true),
        PodAction::Nothing
    );
    assert_eq!(
        pods::decide(&typed(mk_pod("a", &unready)), true),
        PodAction::Report
    );
    let failed = typed(mk_pod("a", &json!({"phase": "Failed"})));
    assert_eq!(pods::decide(&failed, false), PodAction::Nothing);
    pod.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(pods::decide(&pod, true), PodAction::Terminate);
    assert_eq!(pods::decide(&pod, false), PodAction::Remove);
}

#[test]
fn container_of_an_earlier_boot_counts_as_a_restart() {
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let first = pods::status(&typed(mk_pod("a", &json!({}))), &mk_running(), now);
    assert_eq!(first["metadata"]["uid"], "a");
    let status = first["status"].clone();
    assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
    let again = pods::status(&typed(mk_pod("a", &status)), &mk_running(), now);
    assert_eq!(again["status"]["containerStatuses"][0]["restartCount"], 0);
    let later = pods::Running {
        boot_id: "boot-2".to_owned(),
        ..mk_running()
    };
    let later = pods::status(&typed(mk_pod("a", &status)), &later, now);
    assert_eq!(later["status"]["containerStatuses"][0]["restartCount"], 1);
}

#[test]
fn condition_keeps_its_last_transition_time() {
    let host = HostConfig::new("n1");
    let (early, late) = (
        "2026-01-01T00:00:00Z".parse().unwrap(),
        "2026-01-01T01:00:00Z".parse().unwrap(),
    );
    let mut status = node::status(&host, "boot-1", node::Readiness::Ready, None, early);
    let ready = |status: &Value| {
        let all = status["status"]["conditions"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["type"] == "Ready").unwrap()["lastTransitionTime"].clone()
    };
    assert_eq!(ready(&status), "2026-01-01T00:00:00Z");
    let later = |existing: &Node| {
        node::status(
            &host,
            "boot-1",
            node::Readiness::Ready,
            Some(existing),
            late,
        )
    };
    let existing: Node = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(ready(&later(&existing)), "2026-01-01T00:00:00Z");
    status["status"]["conditions"][3]["status"] = json!("Unknown");
    let existing: Node = serde_json::from_value(status).unwrap();
    assert_eq!(ready(&later(&existing)), "2026-01-01T01:00:00Z");
}

#[test]
fn node_patch_adds_only_missing_fields() {
    let mut host = HostConfig::new("n1");
    host.kubelet.provider_id = Some("sim://n1".to_owned());
    let mut existing: Node = serde_json::from_value(node::registration(&host)).unwrap();
    assert_eq!(node::amendment(&host, &existing), None);
    existing.spec.as_mut().unwrap().provider_id = Some("metal3://other".to_owned());
    assert_eq!(
        node::amendment(&host, &existing),
        None,
        "a provider id is never changed"
    );
    existing.metadata.labels = None;
    let patch = node::amendment(&host, &existing).unwrap();
    assert_eq!(patch["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
}

async fn start(api: &Api) -> Rack {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let config = RackConfig::new("rack-a", ["n1"]).each(|host| {
        host.bmc.tls = false;
        host.kubelet.lease_interval = Duration::from_millis(20);
        host.kubelet.status_interval = Duration::from_millis(50);
        host.timings = PowerTimings {
            off_takes: Duration::from_millis(20),
            on_takes: Duration::from_millis(20),
            boot_takes: Duration::from_millis(20),
            ..PowerTimings::default()
        };
    });
    Rack::start(config, None, Some(api.client())).await.unwrap()
}

fn is_running(api: &Api) -> bool {
    api.get("db-0")
        .is_some_and(|pod| pod["status"]["phase"] == "Running")
}

/// The changes of a Node since this boot, and the first renewal of its Lease, as in the record of a real kubelet.
fn changes(writes: &[(String, Value)], boot: &str) -> Vec<String> {
    let mut changes: Vec<String> = Vec::new();
    let mut last = [String::new(), String::new()];
    for (key, object) in writes {
        if key == "lease/n1" {
            if !changes.contains(&"lease".to_owned()) {
                changes.push("lease".to_owned());
            }
            continue;
        }
        let status = &object["status"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready");
        let Some(ready) = ready else { continue };
        if status["nodeInfo"]["bootID"] != *boot {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let now = [
            text(&status["nodeInfo"]["bootID"]),
            format!(
                "ready {} {}",
                text(&ready["status"]),
                text(&ready["reason"])
            ),
        ];
        if now[0] != last[0] {
            changes.push("boot ID".to_owned());
        }
        if now[1] != last[1] {
            changes.push(now[1].clone());
        }
        last = now;
    }
    changes
}

#[tokio::test]
async fn boot_is_reported_in_the_order_of_a_real_kubelet() {
    let record: Value = serde_json::from_str(include_str!("../real/kubelet.json")).unwrap();
    let recorded = record["phases"]["boot"].as_array().unwrap().iter();
    let recorded = recorded.map(|change| change[1].as_str().unwrap().to_owned());
    // The taints are the control plane's, and later renewals follow a timer of their own.
    let recorded: Vec<_> = recorded
        .enumerate()
        .filter(|(i, change)| !change.starts_with("taints") && (*i == 0 || change != "lease"))
        .map(|(_, change)| change)
        .collect();
    assert_eq!(recorded[0], "lease");

    let api = Api::new();
    let rack = start(&api).await;
    let host = rack.host("n1").unwrap();
    let ready = |api: &Api, boot: &str| {
        let node = api.get("n1").unwrap_or_default();
        node["status"]["nodeInfo"]["bootID"] == json!(boot)
            && node["status"]["conditions"][3]["status"] == "True"
    };
    let first = host.view().boot_id.unwrap();
    api.until("first boot", |api| ready(api, &first)).await;
    host.switch(ResetType::ForceOff, "test");
    let off = |view: &HostView| view.power == PowerState::Off;
    host.wait_for(SOON, "off", off).await.unwrap();
    api.forget_writes();
    host.switch(ResetType::On, "test");
    let up = |view: &HostView| view.os == OsState::Running;
    let view = host.wait_for(SOON, "up", up).await.unwrap();
    let second = view.boot_id.unwrap();
    api.until("second boot", |api| ready(api, &second)).await;

    assert_eq!(changes(&api.writes(), &second), recorded);
}

#[tokio::test]
async fn kubelet_registers_renews_its_lease_and_runs_bound_pods() {
    let api = Api::new();
    let rack = start(&api).await;
    let host = rack.host("n1").unwrap();
    let boot = host.view().boot_id.unwrap();
    api.until("node ready", |api| {
        api.get("n1")
            .is_some_and(|node| node["status"]["nodeInfo"]["bootID"] == json!(boot))
    })
    .await;
    let renewed = |api: &Api| {
        api.get("lease/n1")
            .map(|lease| lease["spec"]["renewTime"].clone())
    };
    api.until("lease", |api| renewed(api).is_some()).await;
    let first = renewed(&api);
    api.until("renewal", |api| renewed(api) != first).await;

    api.put("db-0", "ADDED", &mk_pod("a", &json!({"phase": "Pending"})));
    api.until("pod running", is_running).await;
    assert_eq!(host.view().pods, ["default/db-0"]);

    let mut pod = api.get("db-0").unwrap();
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put("db-0", "MODIFIED", &pod);
    api.until("pod removed", |api| api.get("db-0").is_none())
        .await;
    assert!(host.running_pods().is_empty());
    assert_eq!(host.processes()[0].process.why, Some(StopReason::Deleted));
}

#[tokio::test]
async fn hung_host_runs_its_pods_and_is_unresponsive_until_cycled() {
    let api = Api::new();
    let rack = start(&api).await;
    let host = rack.host("n1").unwrap();
    api.put("db-0", "ADDED", &mk_pod("a", &json!({"phase": "Pending"})));
    api.until("pod running", is_running).await;

    assert!(host.hang());
    api.take("db-0");
    assert_eq!(
        host.view().pods,
        ["default/db-0"],
        "the pod of a hung host was stopped"
    );

    host.switch(ResetType::ForceOff, "test");
    let off = |view: &HostView| view.power == PowerState::Off;
    let view = host.wait_for(SOON, "off", off).await.unwrap();
    assert!(view.pods.is_empty());
    assert_eq!(host.processes()[0].process.why, Some(StopReason::PowerOff));

    host.switch(ResetType::On, "test");
    host.wait_for(SOON, "up", |view| view.os == OsState::Running)
        .await
        .unwrap();
    let boot = host.view().boot_id.unwrap();
    api.until("new boot id", |api| {
        api.get("n1")
            .is_some_and(|node| node["status"]["nodeInfo"]["bootID"] == json!(boot))
    })
    .await;
    assert!(
        host.view().pods.is_empty(),
        "a deleted pod was started again"
    );
}

#[tokio::test]
async fn bound_pod_is_started_again_after_a_boot() {
    let api = Api::new();
    let rack = start(&api).await;
    let host = rack.host("n1").unwrap();
    api.put("db-0", "ADDED", &mk_pod("a", &json!({"phase": "Pending"})));
    api.until("pod running", is_running).await;
    host.switch(ResetType::PowerCycle, "test");
    host.wait_for(SOON, "running again", |view| {
        view.counters.boots == 1 && !view.pods.is_empty()
    })
    .await
    .unwrap();
    let all = host.processes();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].process.pod, all[1].process.pod);
    assert_ne!(all[0].process.boot_id, all[1].process.boot_id);
    assert!(rack.overlaps().is_empty());
}

#[tokio::test]
async fn pod_deleted_from_the_api_is_stopped() {
    let api = Api::new();
    let rack = start(&api).await;
    let host = rack.host("n1").unwrap();
    api.put("db-0", "ADDED", &mk_pod("a", &json!({"phase": "Pending"})));
    api.until("pod running", is_running).await;
    api.take("db-0");
    host.wait_for(SOON, "ended", |view| view.pods.is_empty())
        .await
        .unwrap();
    assert_eq!(host.processes()[0].process.why, Some(StopReason::Vanished));
}
