//! The manifests of `deploy/kustomize`: network policies, and folders that can be installed alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use rackhand_tests::cluster::{ControlPlane, Parts, apply, rendered_whole};
use serde_json::Value;

fn kustomize() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kustomize")
}

fn render(path: &Path) -> Vec<Value> {
    rendered_whole(&path.display().to_string()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|o| o["kind"] == kind).collect()
}

/// Whether a selector matches these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object();
    let wanted = wanted.unwrap_or_else(|| panic!("no labels: {selector}"));
    wanted.iter().all(|(name, value)| labels[name] == *value)
}

/// The open ports of a Deployment's pods by name, with the allowed sources.
fn open_ports(objects: &[Value], deployment: &Value) -> BTreeMap<String, Value> {
    let pod = &deployment["spec"]["template"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = list(&pod["spec"]["containers"]);
    let named: BTreeSet<String> = containers
        .iter()
        .flat_map(|container| list(&container["ports"]))
        .filter_map(|port| port["name"].as_str().map(str::to_owned))
        .collect();
    let mut open = BTreeMap::new();
    let mut is_behind = false;
    for policy in of_kind(objects, "NetworkPolicy") {
        let is_near = policy["metadata"]["namespace"] == deployment["metadata"]["namespace"];
        let spec = &policy["spec"];
        if !is_near || !selects(&spec["podSelector"], &pod["metadata"]["labels"]) {
            continue;
        }
        is_behind |= list(&spec["policyTypes"]).iter().any(|t| t == "Ingress");
        for rule in list(&spec["ingress"]) {
            for port in list(&rule["ports"]) {
                let name = port["port"].as_str().unwrap_or_default().to_owned();
                assert!(named.contains(&name), "{name} is no port of {deployment}");
                open.insert(name, rule["from"].clone());
            }
        }
    }
    let name = &deployment["metadata"]["name"];
    assert!(is_behind, "no NetworkPolicy is for {name}");
    open
}

fn deployment(objects: &[Value]) -> Value {
    let found = of_kind(objects, "Deployment");
    assert_eq!(found.len(), 1);
    found[0].clone()
}

#[test]
fn network_policy_admits_only_allowed_scrapers_over_https() {
    let objects = render(&kustomize().join("base"));
    let controller = deployment(&objects);
    let open = open_ports(&objects, &controller);
    let ports: Vec<&str> = open.keys().map(String::as_str).collect();
    assert_eq!(ports, ["metrics"], "probes come from the node itself");
    let from = &open["metrics"][0]["namespaceSelector"]["matchLabels"];
    assert_eq!(from["metrics"], "enabled", "{from}");

    let args = &controller["spec"]["template"]["spec"]["containers"][0]["args"];
    assert!(args.to_string().contains("--metrics-address="), "{args}");
    for service in of_kind(&objects, "Service") {
        let ports = service["spec"]["ports"].as_array().unwrap();
        assert!(
            ports.iter().all(|p| p["targetPort"] == "metrics"),
            "{service}"
        );
    }
}

#[test]
fn network_policy_of_agent_allows_its_port_and_bmcs_only() {
    let objects = render(&kustomize().join("agent"));
    let agent = deployment(&objects);
    let open = open_ports(&objects, &agent);
    let ports: Vec<&str> = open.keys().map(String::as_str).collect();
    assert_eq!(ports, ["grpc"]);
    let policies = of_kind(&objects, "NetworkPolicy");
    let egress = policies[0]["spec"]["egress"].to_string();
    for port in ["443", "623", "53"] {
        assert!(egress.contains(port), "{port}: {egress}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copied_agent_kustomization_installs_on_empty_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("agent");
    copy(&kustomize().join("agent"), &folder);
    let objects = render(&folder);
    let plane = ControlPlane::start(&dir.path().join("control-plane"), Parts::ApiOnly)
        .await
        .unwrap();
    let client = plane.client().await.unwrap();
    for object in objects {
        apply(&client, object).await.unwrap();
    }
    // It shares no object with the controller that would be deleted with either of them.
    let names = |folder: &str| -> BTreeSet<String> {
        let objects = render(&kustomize().join(folder));
        let name = |o: &Value| format!("{} {}", o["kind"], o["metadata"]["name"]);
        objects.iter().map(name).collect()
    };
    let shared: Vec<String> = names("agent")
        .intersection(&names("base"))
        .cloned()
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
}
