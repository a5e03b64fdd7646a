//! The Helm chart: it renders the objects of the kustomize overlays, refuses invalid values, and a real API
//! server accepts all rendered objects.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use rackhand_tests::cluster::{ControlPlane, Parts, apply, parse_yaml, rendered_whole};
use serde_json::Value;

const NAMESPACE: &str = "rackhand-system";

/// Labels that Helm or kustomize add.
const ADDED: [&str; 6] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Renders the chart.
pub fn chart(args: &[&str]) -> Result<Vec<Value>, String> {
    let helm = std::env::var("RACKHAND_HELM").unwrap_or_else(|_| "helm".into());
    let output = Command::new(helm)
        .args(["template", "release", "--namespace", NAMESPACE])
        .arg(deploy().join("helm/rackhand"))
        .args(args)
        .output()
        .expect("helm is missing; run hack/setup and set RACKHAND_HELM as hack/test does");
    if output.status.success() {
        Ok(parse_yaml(&String::from_utf8(output.stdout).unwrap()).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Objects by kind, namespace and name, without the labels of their installer.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for mut object in objects {
        let metadata = &mut object["metadata"];
        for (field, added) in [
            ("labels", ADDED.as_slice()),
            ("annotations", &["helm.sh/resource-policy"]),
        ] {
            let Some(entries) = metadata[field].as_object_mut() else {
                metadata.as_object_mut().unwrap().remove(field);
                continue;
            };
            entries.retain(|name, _| !added.contains(&name.as_str()));
            if entries.is_empty() {
                metadata.as_object_mut().unwrap().remove(field);
            }
        }
        let name = format!(
            "{} {} {}",
            object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
        );
        assert!(named.insert(name.clone(), object).is_none(), "{name} twice");
    }
    named
}

#[test]
fn helm_chart_and_kustomize_overlays_render_equal_objects() {
    for world in ["cluster-api", "openshift", "medik8s", "nodes"] {
        let overlay = deploy().join("kustomize/overlays").join(world);
        let mut overlay = by_name(rendered_whole(&overlay.display().to_string()).unwrap());
        // Helm creates the namespace by its own flag.
        overlay.retain(|name, _| !name.starts_with("\"Namespace\" null \"rackhand-system\""));
        let values = deploy().join(format!("helm/rackhand/values-{world}.yaml"));
        // The namespaces with Secrets depend on the site, so no overlay contains them.
        let args = [
            "--values",
            values.to_str().unwrap(),
            "--set",
            "access.secretNamespaces=null",
        ];
        let chart = by_name(chart(&args).unwrap());
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&chart), names(&overlay), "{world}");
        for (name, object) in chart {
            assert_eq!(object, overlay[&name], "{world}: {name}");
        }
    }
}

#[test]
fn invalid_helm_values_are_refused_with_their_path() {
    for (values, place) in [
        ("controller.replica=3", "additional properties 'replica'"),
        ("controller.healthChecks=some", "/controller/healthChecks"),
        ("access.openshift=true", "/access/nodes"),
        ("agents[0].rack=r1", "configSecret"),
        ("namePrefix=Upper", "/namePrefix"),
        ("certManager.duration=soon", "/certManager/duration"),
        ("controller.wordsOfPersons=no", "/controller/wordsOfPersons"),
        (
            "controller.otlpEndpoint=collector:4317",
            "/controller/otlpEndpoint",
        ),
        (
            "controller.otlpEndpoint=http://user:word@collector:4317",
            "/controller/otlpEndpoint",
        ),
    ] {
        let error = chart(&["--set", values]).unwrap_err();
        assert!(error.contains(place), "{values}: {error}");
    }
}

/// The arguments of the controller with these values.
fn arguments(values: &[&str]) -> Value {
    let rendered = chart(values).unwrap();
    let deployment = rendered.iter().find(|o| o["kind"] == "Deployment").unwrap();
    deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone()
}

#[test]
fn words_of_persons_of_chart_is_an_argument_of_the_controller() {
    let set = arguments(&["--set", "controller.wordsOfPersons=ignored"]);
    let argument = "--words-of-persons=ignored";
    assert!(set.as_array().unwrap().contains(&argument.into()), "{set}");
    let unset = arguments(&[]);
    assert!(!unset.to_string().contains("words"), "{unset}");
}

#[test]
fn triggers_of_chart_are_off_unless_set() {
    let set = arguments(&["--set", "controller.remediationTriggers=true"]);
    let argument = "--remediation-triggers";
    assert!(set.as_array().unwrap().contains(&argument.into()), "{set}");
    let unset = arguments(&[]);
    assert!(!unset.to_string().contains("triggers"), "{unset}");
}

#[test]
fn otlp_endpoint_of_chart_is_an_argument_of_the_controller() {
    let endpoint = "https://collector.monitoring:4317";
    let argument = format!("--otlp-endpoint={endpoint}");
    let set = arguments(&["--set", &format!("controller.otlpEndpoint={endpoint}")]);
    assert!(set.as_array().unwrap().contains(&argument.into()), "{set}");
    let unset = arguments(&[]);
    assert!(!unset.to_string().contains("otlp"), "{unset}");
}

#[test]
fn prometheus_rule_of_chart_contains_all_alerts() {
    let rendered = chart(&["--set", "prometheusRule.enabled=true"]).unwrap();
    let rule = rendered.iter().find(|o| o["kind"] == "PrometheusRule");
    let file = std::fs::read_to_string(deploy().join("prometheus/alerts.yaml")).unwrap();
    let alerts = parse_yaml(&file).unwrap();
    assert_eq!(rule.unwrap()["spec"], alerts[0]);
}

#[test]
fn dashboard_config_map_has_grafana_label() {
    let rendered = chart(&["--set", "grafanaDashboard.enabled=true"]).unwrap();
    let map = rendered.iter().find(|o| o["kind"] == "ConfigMap").unwrap();
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let file = std::fs::read_to_string(deploy().join("prometheus/dashboard.json")).unwrap();
    assert_eq!(map["data"]["rackhand.json"], file);
}

#[test]
fn two_helm_releases_share_only_crds() {
    let names = |prefix: &str| {
        let args = [
            "--set",
            &format!("namePrefix={prefix}"),
            "--set",
            "crds.install=false",
            "--set",
            "personsPolicy=false",
        ];
        by_name(chart(&args).unwrap())
    };
    let (one, other) = (names("rackhand"), names("blue"));
    let shared: Vec<_> = one
        .keys()
        .filter(|name| other.contains_key(*name))
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
    // They share no Lease either, because then only one of them could lead.
    let role = other
        .values()
        .find(|object| object["kind"] == "Role")
        .unwrap();
    assert!(role.to_string().contains("blue-controller"), "{role}");
    let deployment = other
        .values()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    assert!(
        deployment
            .to_string()
            .contains("--lease-name=blue-controller"),
        "{deployment}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_accepts_chart_with_strict_validation() {
    let dir = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(&dir.path().join("control-plane"), Parts::ApiOnly)
        .await
        .unwrap();
    let client = plane.client().await.unwrap();
    let namespace = serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    apply(&client, namespace).await.unwrap();
    let values = deploy().join("helm/rackhand/values-nodes.yaml");
    let objects = chart(&[
        "--values",
        values.to_str().unwrap(),
        "--set",
        "access.openshift=true,crds.standalone=true,controller.logFormat=json",
        "--set",
        "controller.watchFilter=blue,controller.extraArgs={--power-timeout=5m}",
        "--set",
        "access.secretNamespaces={default}",
        "--set",
        "agents[0].rack=r1,agents[0].configSecret=r1,agents[1].rack=r2,agents[1].configSecret=r2",
    ])
    .unwrap();
    for object in objects {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        apply(&client, object)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
}
