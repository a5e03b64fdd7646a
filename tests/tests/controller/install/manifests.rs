//! The manifests of `deploy/kustomize`: network policies, and folders that can be installed alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use rackhand_core::signals::Signal;
use rackhand_tests::cluster::{ControlPlane, Parts, apply, parse_yaml, rendered_whole, shipped};
use serde_json::{Value, json};

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
    let bmcs_pdus_and_names = ["TCP 443", "TCP 53", "UDP 161", "UDP 53", "UDP 623"];
    assert_eq!(egress(&objects), text_set(&bmcs_pdus_and_names));
}

fn text_set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// The ports to which the NetworkPolicies let pods connect, as `UDP 161`.
fn egress(objects: &[Value]) -> BTreeSet<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let rules = of_kind(objects, "NetworkPolicy").into_iter();
    let rules = rules.flat_map(|policy| list(&policy["spec"]["egress"]));
    let ports = rules.flat_map(|rule| list(&rule["ports"]));
    let name = |port: Value| {
        let protocol = port["protocol"].as_str().unwrap_or_default();
        format!("{protocol} {}", port["port"])
    };
    ports.map(name).collect()
}

/// The only agent that the chart renders with these values, and its NetworkPolicy.
fn agent_of_chart() -> Vec<Value> {
    let values = "controller.enabled=false,agents[0].rack=r1,agents[0].configSecret=r1";
    super::chart::chart(&["--set", values]).unwrap()
}

#[test]
fn chart_lets_agents_connect_where_the_kustomization_does() {
    let folder = render(&kustomize().join("agent"));
    assert_eq!(egress(&agent_of_chart()), egress(&folder));
}

/// The port and path of a probe of a Deployment's only container.
fn probe(deployment: &Value, kind: &str) -> (u64, String) {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let get = &container[kind]["httpGet"];
    let mut ports = container["ports"].as_array().unwrap().iter();
    let port = ports.find(|port| port["name"] == get["port"]);
    let port = port.unwrap_or_else(|| panic!("{kind} names no port: {container}"));
    let path = get["path"].as_str().unwrap_or_default();
    (port["containerPort"].as_u64().unwrap(), path.to_owned())
}

#[test]
fn probes_of_agents_are_those_that_the_daemon_serves() {
    for objects in [render(&kustomize().join("agent")), agent_of_chart()] {
        let agent = deployment(&objects);
        let args = &agent["spec"]["template"]["spec"]["containers"][0]["args"];
        let args: Vec<&str> = args
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for (kind, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")] {
            let (port, found) = probe(&agent, kind);
            assert_eq!(found, path, "{kind}");
            let listens = format!("--probe-listen=0.0.0.0:{port}");
            assert!(args.contains(&listens.as_str()), "{args:?}");
        }
    }
}

/// The last cells of the rows of the table of ports in docs/sizing.md, by their first two cells.
fn documented_ports() -> BTreeMap<(String, String), BTreeSet<String>> {
    let page = kustomize().join("../../docs/sizing.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## Network\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [from, to, ports] = cells.as_slice() else {
            panic!("{line}");
        };
        let words: Vec<&str> = ports.split([' ', ',']).collect();
        let pairs = words
            .windows(2)
            .filter(|pair| ["TCP", "UDP"].contains(&pair[0]));
        let ports = pairs.map(|pair| pair.join(" ")).collect();
        (((*from).to_owned(), (*to).to_owned()), ports)
    };
    rows.map(row).collect()
}

#[test]
fn documented_ports_are_those_of_the_manifests() {
    let documented = documented_ports();
    let of = |from: &str, to: &str| {
        let found = documented.get(&(from.to_owned(), to.to_owned()));
        found
            .unwrap_or_else(|| panic!("no row from {from} to {to}"))
            .clone()
    };
    let (agents, base) = (
        render(&kustomize().join("agent")),
        render(&kustomize().join("base")),
    );
    let (agent, controller) = (deployment(&agents), deployment(&base));
    let named = |deployment: &Value, name: &str| {
        let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
        let mut ports = ports.as_array().unwrap().iter();
        let port = ports.find(|port| port["name"] == name).unwrap();
        text_set(&[&format!("TCP {}", port["containerPort"])])
    };
    let mut out = of("agent", "BMCs");
    out.extend(of("agent", "PDUs"));
    out.extend(text_set(&["TCP 53", "UDP 53"]));
    assert_eq!(out, egress(&agents));
    assert_eq!(of("controller", "agents"), named(&agent, "grpc"));
    assert_eq!(
        of("Prometheus", "controller"),
        named(&controller, "metrics")
    );
    for (deployment, to) in [
        (&agent, "agent's probes"),
        (&controller, "controller's probes"),
    ] {
        for kind in ["readinessProbe", "livenessProbe"] {
            let (port, _) = probe(deployment, kind);
            assert_eq!(
                of("kubelet", to),
                text_set(&[&format!("TCP {port}")]),
                "{kind}"
            );
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn example_checks_fence_a_host_that_has_lost_its_power_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(dir.path(), Parts::ApiOnly)
        .await
        .unwrap();
    let client = plane.client().await.unwrap();
    for folder in ["standalone", "node-health-checks"] {
        for object in shipped(&format!("kustomize/{folder}")).unwrap() {
            apply(&client, object).await.unwrap();
        }
    }
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "metal3" } });
    apply(&client, namespace).await.unwrap();
    let mut kinds = BTreeSet::new();
    for entry in std::fs::read_dir(kustomize().join("../examples")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for example in parse_yaml(&text).unwrap() {
            let written = apply(&client, example.clone()).await.unwrap();
            let kind = example["kind"].as_str().unwrap().to_owned();
            // What the schema does not know is removed.
            for (field, value) in example["spec"].as_object().unwrap() {
                assert!(
                    written.data["spec"][field].is_object() == value.is_object(),
                    "{kind} {field}"
                );
            }
            let conditions = match kind.as_str() {
                "MachineHealthCheck" => &written.data["spec"]["checks"]["unhealthyNodeConditions"],
                "NodeHealthCheck" => &written.data["spec"]["unhealthyConditions"],
                _ => continue,
            };
            let lost = conditions[0].clone();
            assert_eq!(lost["type"], Signal::PowerLost.condition_type());
            assert_eq!(lost["status"], "True");
            let timeout = lost.get("timeoutSeconds").or(lost.get("duration"));
            assert!(
                timeout == Some(&json!(0)) || timeout == Some(&json!("0s")),
                "{lost}"
            );
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.len(), 2);
}
