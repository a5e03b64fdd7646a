//! What is taken and what is refused of a MachineHealthCheck, by three judges on a real API server: the
//! CRD that we ship, our own webhook, and Cluster API's. All of them must say the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use rackhand_tests::{
    cluster::{ControlPlane, Parts, apply, parse_yaml},
    pki::{CertFiles, CertSpec, Pki},
    process::{Process, free_port},
    stage::{LONG, Stage, StageConfig, binaries, wait_until},
};
use serde_json::{Value, json};

const CRD: &str = "machinehealthchecks.cluster.x-k8s.io";
const VALIDATE: &str = "validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
/// How long our webhook may take until it has seen a new certificate, on a busy machine.
const RELOADED: Duration = Duration::from_secs(120);

/// Name, version, spec, and for one that is refused a word of what we say about it.
type Case = (&'static str, &'static str, Value, Option<&'static str>);

fn selector() -> Value {
    json!({ "matchLabels": { "pool": "a" } })
}

/// A spec with one more field.
fn flat(field: &str, value: Value) -> Value {
    let mut spec = json!({ "clusterName": "demo", "selector": selector() });
    spec[field] = value;
    spec
}

/// A v1beta2 spec with these checks.
fn nested(checks: Value) -> Value {
    flat("checks", checks)
}

fn remediation(remediation: Value) -> Value {
    let mut spec = nested(json!({ "nodeStartupTimeoutSeconds": 600 }));
    spec["remediation"] = remediation;
    spec
}

fn machine_rule(type_: &str) -> Value {
    json!([{ "type": type_, "status": "False", "timeoutSeconds": 60 }])
}

fn template(kind: &str, api_version: &str) -> Value {
    remediation(json!({ "templateRef": { "kind": kind, "name": "t", "apiVersion": api_version } }))
}

/// What all three judges agree about.
fn cases() -> Vec<Case> {
    let (old, new) = ("v1beta1", "v1beta2");
    let limit =
        |value: Value| remediation(json!({ "triggerIf": { "unhealthyLessThanOrEqualTo": value } }));
    let range = |value: &str| remediation(json!({ "triggerIf": { "unhealthyInRange": value } }));
    let selected = |value: Value| json!({ "clusterName": "demo", "selector": value });
    let own = "cluster.x-k8s.io/cluster-name";
    vec![
        ("plain", old, flat("nodeStartupTimeout", json!("10m")), None),
        (
            "go-duration",
            old,
            flat("nodeStartupTimeout", json!("20m0s")),
            None,
        ),
        (
            "startup-off",
            old,
            flat("nodeStartupTimeout", json!("0m")),
            None,
        ),
        (
            "startup-least",
            old,
            flat("nodeStartupTimeout", json!("30s")),
            None,
        ),
        (
            "startup-short",
            old,
            flat("nodeStartupTimeout", json!("29.9s")),
            Some("nodeStartupTimeout"),
        ),
        (
            "startup-zero",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": 0 })),
            None,
        ),
        (
            "startup-29",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": 29 })),
            Some("nodeStartupTimeoutSeconds"),
        ),
        (
            "startup-negative",
            new,
            nested(json!({ "nodeStartupTimeoutSeconds": -1 })),
            Some("nodeStartupTimeoutSeconds"),
        ),
        ("checks-empty", new, nested(json!({})), None),
        ("max-int", old, flat("maxUnhealthy", json!(3)), None),
        ("max-percent", old, flat("maxUnhealthy", json!("40%")), None),
        ("max-negative", old, flat("maxUnhealthy", json!(-1)), None),
        (
            "max-quoted",
            old,
            flat("maxUnhealthy", json!("3")),
            Some("maxUnhealthy"),
        ),
        (
            "max-word",
            old,
            flat("maxUnhealthy", json!("many")),
            Some("maxUnhealthy"),
        ),
        ("limit-negative-share", new, limit(json!("-40%")), None),
        (
            "limit-quoted",
            new,
            limit(json!("3")),
            Some("unhealthyLessThanOrEqualTo"),
        ),
        (
            "limit-fraction",
            new,
            limit(json!("40.5%")),
            Some("unhealthyLessThanOrEqualTo"),
        ),
        ("range", new, range("[1-3]"), None),
        ("range-reversed", new, range("[3-1]"), None),
        ("range-open", new, range("1-3"), Some("unhealthyInRange")),
        (
            "range-flat",
            old,
            flat("unhealthyRange", json!("[a-b]")),
            Some("unhealthyRange"),
        ),
        ("selector-none", old, selected(json!({})), Some("selector")),
        (
            "selector-no-label",
            old,
            selected(json!({ "matchLabels": {} })),
            Some("selector"),
        ),
        (
            "selector-own",
            old,
            selected(json!({ "matchLabels": { own: "demo" } })),
            None,
        ),
        (
            "selector-other",
            old,
            selected(json!({ "matchLabels": { own: "other" } })),
            Some("selector"),
        ),
        (
            "selector-key",
            old,
            selected(json!({ "matchLabels": { "a b": "c" } })),
            Some("selector"),
        ),
        (
            "selector-value",
            old,
            selected(json!({ "matchLabels": { "a": "b c" } })),
            Some("selector"),
        ),
        (
            "selector-empty-value",
            old,
            selected(json!({ "matchLabels": { "x.y/a": "" } })),
            None,
        ),
        (
            "selector-operator",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "Is" }] })),
            Some("selector"),
        ),
        (
            "selector-values",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] })),
            Some("selector"),
        ),
        (
            "selector-exists",
            old,
            selected(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] })),
            None,
        ),
        (
            "cluster-empty",
            old,
            json!({ "clusterName": "", "selector": selector() }),
            Some("clusterName"),
        ),
        (
            "machine-rule",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("NodeReady") })),
            None,
        ),
        (
            "machine-ready",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("Ready") })),
            Some("unhealthyMachineConditions"),
        ),
        ("template", new, template("ATemplate", "x.dev/v1"), None),
    ]
}

/// What only the schema of a CRD refuses, Cluster API's and ours alike.
fn schema_cases() -> Vec<Case> {
    let new = "v1beta2";
    let node_rule = json!([{ "type": "", "status": "False", "timeoutSeconds": 1 }]);
    let many = json!(vec![
        json!({ "type": "A", "status": "B", "timeoutSeconds": 1 });
        101
    ]);
    vec![
        (
            "machine-rule-name",
            new,
            nested(json!({ "unhealthyMachineConditions": machine_rule("a b") })),
            Some("unhealthyMachineConditions"),
        ),
        (
            "node-rule-type",
            new,
            nested(json!({ "unhealthyNodeConditions": node_rule })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "node-rules-none",
            new,
            nested(json!({ "unhealthyNodeConditions": [] })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "node-rules-many",
            new,
            nested(json!({ "unhealthyNodeConditions": many })),
            Some("unhealthyNodeConditions"),
        ),
        (
            "remediation-empty",
            new,
            remediation(json!({})),
            Some("remediation"),
        ),
        (
            "trigger-empty",
            new,
            remediation(json!({ "triggerIf": {} })),
            Some("triggerIf"),
        ),
        (
            "template-version",
            new,
            template("ATemplate", "v1"),
            Some("apiVersion"),
        ),
        (
            "template-kind",
            new,
            template("1", "x.dev/v1"),
            Some("kind"),
        ),
    ]
}

/// What we refuse and Cluster API takes: it would not mean what its author meant.
fn stricter() -> Vec<Case> {
    let mut mixed = flat("maxUnhealthy", json!(1));
    mixed["remediation"] = json!({ "triggerIf": { "unhealthyInRange": "[1-2]" } });
    vec![
        // Cluster API makes 0 of it, which is never; here it would be at once.
        (
            "startup-split-second",
            "v1beta1",
            flat("nodeStartupTimeout", json!("500ms")),
            Some("nodeStartupTimeout"),
        ),
        ("shapes-mixed", "v1beta1", mixed, Some("remediation")),
    ]
}

fn documents(cases: &[Case]) -> String {
    let document = |(name, version, spec, _): &Case| {
        json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineHealthCheck",
            "metadata": { "name": name, "namespace": "default" },
            "spec": spec,
        })
        .to_string()
    };
    cases.iter().map(document).collect::<Vec<_>>().join("\n")
}

fn kubectl(kubeconfig: &Path, args: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("kubectl is missing; run hack/setup")?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}

/// What `kubectl apply` says about each case: nothing for one that is taken.
fn judged(kubeconfig: &Path, cases: &[Case]) -> Result<Vec<(&'static str, Option<String>)>> {
    let output = kubectl(
        kubeconfig,
        &["apply", "--dry-run=server", "-f", "-"],
        &documents(cases),
    )?;
    let taken = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut refused: Vec<String> = Vec::new();
    for line in said.lines() {
        match refused.last_mut() {
            Some(last) if !line.starts_with("The ") && !line.starts_with("Error ") => {
                last.push_str(line);
            }
            _ => refused.push(line.to_owned()),
        }
    }
    cases
        .iter()
        .map(|(name, ..)| {
            let created = taken.contains(&format!("/{name} created"));
            let why = refused
                .iter()
                .find(|text| text.contains(&format!("\"{name}\"")));
            match (created, why) {
                (true, _) => Ok((*name, None)),
                (false, Some(why)) => Ok((*name, Some(why.clone()))),
                (false, None) => bail!("nothing is said about {name}:\n{taken}\n{said}"),
            }
        })
        .collect()
}

/// Compares a judge with what is expected; `words` also looks at what it says.
fn agrees(judge: &str, kubeconfig: &Path, cases: &[Case], words: bool) -> Result<()> {
    let mut wrong = Vec::new();
    for ((name, found), (.., expected)) in judged(kubeconfig, cases)?.into_iter().zip(cases) {
        match (found, expected) {
            (None, None) => {}
            (Some(said), Some(word)) if !words || said.contains(word) => {}
            (found, expected) => {
                wrong.push(format!("{name}: expected {expected:?}, it says {found:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{judge}:\n{}", wrong.join("\n"));
    Ok(())
}

/// A check keeps its cluster, and loses nothing by being written again.
fn keeps_its_cluster(judge: &str, kubeconfig: &Path) -> Result<()> {
    let with = |cluster: &str| {
        let spec =
            json!({ "clusterName": cluster, "selector": selector(), "nodeStartupTimeout": "10m" });
        documents(&[("kept", "v1beta1", spec, None)])
    };
    for (cluster, taken) in [("demo", true), ("other", false), ("demo", true)] {
        let output = kubectl(kubeconfig, &["apply", "-f", "-"], &with(cluster))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.success() == taken,
            "{judge}: {cluster}: {said}"
        );
        ensure!(taken || said.contains("clusterName"), "{judge}: {said}");
    }
    Ok(())
}

fn render(folder: &str) -> Result<Vec<Value>> {
    let path = format!(
        "{}/../deploy/kustomize/{folder}",
        env!("CARGO_MANIFEST_DIR")
    );
    let rendered = Command::new("kubectl")
        .args(["kustomize", &path])
        .output()
        .context("kubectl is missing; run hack/setup")?;
    ensure!(
        rendered.status.success(),
        "{path}: {}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    parse_yaml(&String::from_utf8(rendered.stdout)?)
}

/// A schema that says no more than which type a field has.
fn lenient(schema: &mut Value) {
    const RULES: [&str; 8] = [
        "x-kubernetes-validations",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "minimum",
        "minProperties",
        "enum",
    ];
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| !RULES.contains(&name.as_str()) || value.is_object());
            fields.values_mut().for_each(lenient);
        }
        Value::Array(items) => items.iter_mut().for_each(lenient),
        _ => {}
    }
}

struct World {
    plane: ControlPlane,
    client: Client,
    pki: Pki,
    dir: PathBuf,
}

fn put(files: &CertFiles, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::copy(&files.ca, dir.join("ca.crt"))?;
    std::fs::copy(&files.key, dir.join("tls.key"))?;
    std::fs::copy(&files.cert, dir.join("tls.crt"))?;
    Ok(())
}

impl World {
    async fn start(dir: &Path) -> Result<Self> {
        let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        for object in render("standalone")? {
            if object["kind"] != "Deployment" {
                apply(&client, object).await?;
            }
        }
        Ok(Self {
            client,
            plane,
            pki: Pki::new(dir.join("pki"))?,
            dir: dir.to_owned(),
        })
    }

    /// Our controller with its webhook.
    async fn controller(&self, port: u16) -> Result<Process> {
        let (agents, web) = (self.dir.join("agents"), self.web());
        put(
            &self.pki.issue(&CertSpec::peer(
                "controller",
                "spiffe://rackhand/controller",
            ))?,
            &agents,
        )?;
        put(&self.pki.issue(&CertSpec::server("webhook"))?, &web)?;
        let admin = free_port()?;
        let command = vec![
            binaries()?
                .join("rackhand-controller")
                .display()
                .to_string(),
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            format!("--agent-tls-dir={}", agents.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
            // On a busy machine nobody is to lose a Lease.
            "--lease-duration=10m".to_owned(),
            format!("--webhook-address=127.0.0.1:{port}"),
            format!("--webhook-tls-dir={}", web.display()),
        ];
        let process = Process::start("controller", &command, &[], &self.dir)?;
        wait_until("the controller is ready", LONG, || async {
            let url = format!("http://127.0.0.1:{admin}/readyz");
            let ready = reqwest::get(&url).await;
            Ok(
                match ready.is_ok_and(|answer| answer.status().is_success()) {
                    true => Ok(()),
                    false => Err(process.log_tail()),
                },
            )
        })
        .await?;
        Ok(process)
    }

    fn web(&self) -> PathBuf {
        self.dir.join("webhook")
    }

    /// Our webhook configurations, as we ship them, but for where they point.
    async fn point(&self, port: u16, pki: &Pki) -> Result<()> {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../deploy/kustomize/webhook/webhooks.yaml"
        ))?;
        let ca = STANDARD.encode(std::fs::read(pki.ca_file())?);
        for mut object in parse_yaml(&text)? {
            for hook in object["webhooks"].as_array_mut().context("no webhooks")? {
                let path = hook["clientConfig"]["service"]["path"].clone();
                let path = path.as_str().context("no path")?;
                let url = format!("https://127.0.0.1:{port}{path}");
                hook["clientConfig"] = json!({ "url": url, "caBundle": ca });
            }
            apply(&self.client, object).await?;
        }
        Ok(())
    }

    /// Replaces the CRD of the checks by one that refuses nothing.
    async fn disarm(&self) -> Result<()> {
        let found = render("standalone")?
            .into_iter()
            .find(|object| object["metadata"]["name"] == CRD);
        let mut crd = found.context("no CRD")?;
        lenient(&mut crd["spec"]["versions"]);
        apply(&self.client, crd).await?;
        wait_until("the CRD refuses nothing", LONG, || async {
            let all = cases().into_iter().chain(stricter()).collect::<Vec<_>>();
            let refused: Vec<_> = judged(&self.plane.kubeconfig(), &all)?
                .into_iter()
                .filter(|(_, said)| said.is_some())
                .collect();
            Ok(match refused.is_empty() {
                true => Ok(()),
                false => Err(format!("{refused:?}")),
            })
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_crd_and_our_webhook_refuse_what_cluster_apis_webhook_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await.unwrap();
    if let Err(error) = scenario(&world).await {
        panic!("{error:#}");
    }
}

async fn scenario(w: &World) -> Result<()> {
    let kubeconfig = w.plane.kubeconfig();
    let all: Vec<Case> = cases().into_iter().chain(stricter()).collect();
    agrees("our CRD", &kubeconfig, &all, true)?;
    agrees("our CRD's schema", &kubeconfig, &schema_cases(), true)?;
    keeps_its_cluster("our CRD", &kubeconfig)?;
    // The storage of a CRD is still being set up for a moment after it is served.
    wait_until("a check is explained", LONG, || async {
        Ok(explained(w).map_err(|error| format!("{error:#}")))
    })
    .await?;

    w.disarm().await?;
    let port = free_port()?;
    let controller = w.controller(port).await?;
    w.point(port, &w.pki).await?;
    let result = webhook(w, port, &all).await;
    result.with_context(|| controller.log_tail())
}

async fn webhook(w: &World, port: u16, all: &[Case]) -> Result<()> {
    let kubeconfig = w.plane.kubeconfig();
    wait_until("the webhook is asked", LONG, || async {
        let refused = judged(&kubeconfig, &stricter())?;
        Ok(match refused.iter().all(|(_, said)| said.is_some()) {
            true => Ok(()),
            false => Err(format!("{refused:?}")),
        })
    })
    .await?;
    agrees("our webhook", &kubeconfig, all, true)?;
    keeps_its_cluster("our webhook", &kubeconfig)?;
    filled_in(w).await?;
    kept_up(w).await?;

    let answer = reqwest_to(w, port, "nonsense").await?;
    ensure!(answer.starts_with("400 "), "{answer}");

    // Another authority signs a new certificate: both ends change over without a restart.
    let other = w.pki.other("next")?;
    put(&other.issue(&CertSpec::server("webhook"))?, &w.web())?;
    w.point(port, &other).await?;
    wait_until("the new certificate is in use", RELOADED, || async {
        let spec = json!({ "clusterName": "demo", "selector": selector() });
        let document = documents(&[("after", "v1beta1", spec, None)]);
        let output = kubectl(&kubeconfig, &["apply", "-f", "-"], &document)?;
        Ok(match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        })
    })
    .await?;
    agrees(
        "our webhook, with a new certificate",
        &kubeconfig,
        all,
        true,
    )
}

/// Label and startup timeout, in either shape; and a warning for what is odd.
async fn filled_in(w: &World) -> Result<()> {
    let bare = json!({ "clusterName": "demo", "selector": selector() });
    let odd = flat("unhealthyRange", json!("[3-1]"));
    let document = documents(&[
        ("old", "v1beta1", bare.clone(), None),
        ("new", "v1beta2", bare, None),
        ("odd", "v1beta1", odd, None),
    ]);
    let output = kubectl(&w.plane.kubeconfig(), &["apply", "-f", "-"], &document)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    ensure!(
        said.contains("Warning: ") && said.contains("ends before it begins"),
        "{said}"
    );
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let checks: Api<DynamicObject> =
        Api::namespaced_with(w.client.clone(), "default", &ApiResource::from_gvk(&gvk));
    for (name, pointer, value) in [
        ("old", "/spec/nodeStartupTimeout", json!("10m0s")),
        ("new", "/spec/checks/nodeStartupTimeoutSeconds", json!(600)),
    ] {
        let check = checks.get(name).await?;
        ensure!(
            check.data.pointer(pointer) == Some(&value),
            "{name}: {:?}",
            check.data
        );
        let labels = check.metadata.labels.unwrap_or_default();
        ensure!(
            labels["cluster.x-k8s.io/cluster-name"] == "demo",
            "{labels:?}"
        );
    }
    Ok(())
}

/// What an evaluation leaves in a check: label, owner, counts, and conditions in both lists. The
/// controller reads and writes v1beta2, which the API server prefers, so they lie where that has them.
async fn kept_up(w: &World) -> Result<()> {
    let meta = |name: &str| json!({ "name": name, "namespace": "default" });
    let cluster = |paused: bool| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
            "metadata": meta("demo"), "spec": { "paused": paused },
        })
    };
    let owner = apply(&w.client, cluster(false)).await?;
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
        "metadata": meta("ill"), "spec": { "clusterName": "demo" },
    });
    machine["metadata"]["labels"] =
        json!({ "pool": "kept-up", "cluster.x-k8s.io/cluster-name": "demo" });
    machine["metadata"]["annotations"] = json!({ "cluster.x-k8s.io/remediate-machine": "" });
    apply(&w.client, machine).await?;
    let template = |name: &str| {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3RemediationTemplate", "name": name,
        })
    };
    let mut spec = flat("remediationTemplate", template("late"));
    spec["selector"] = json!({ "matchLabels": { "pool": "kept-up" } });
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": meta("kept-up"), "spec": spec,
    });
    apply(&w.client, check).await?;
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let checks: Api<DynamicObject> =
        Api::namespaced_with(w.client.clone(), "default", &ApiResource::from_gvk(&gvk));
    let until = |what: &'static str, holds: fn(&Value) -> bool| {
        let checks = checks.clone();
        async move {
            wait_until(what, LONG, || async {
                let object = serde_json::to_value(checks.get("kept-up").await?)?;
                Ok(match holds(&object) {
                    true => Ok(object),
                    false => Err(object.to_string()),
                })
            })
            .await
        }
    };
    let seen = until("a missing template is said", |check| {
        let old = condition(
            &check["status"]["deprecated"]["v1beta1"]["conditions"],
            TEMPLATE,
        );
        old["reason"] == "ExternalRemediationTemplateNotFound" && old["severity"] == "Error"
    })
    .await?;
    let status = &seen["status"];
    for (field, value) in [("expectedMachines", 1), ("observedGeneration", 1)] {
        ensure!(status[field] == value, "{field}: {status}");
    }
    ensure!(status["targets"] == json!(["ill"]), "{status}");
    let labels = &seen["metadata"]["labels"];
    ensure!(
        labels["cluster.x-k8s.io/cluster-name"] == "demo",
        "{labels}"
    );
    let owned = &seen["metadata"]["ownerReferences"][0];
    ensure!(
        owned["uid"].as_str() == owner.metadata.uid.as_deref() && owned.get("controller").is_none(),
        "{owned}"
    );
    let new = &status["conditions"];
    let allowed = condition(new, "RemediationAllowed");
    ensure!(allowed["reason"] == "RemediationAllowed", "{new}");
    ensure!(condition(new, "Paused")["reason"] == "NotPaused", "{new}");

    apply(
        &w.client,
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3RemediationTemplate",
            "metadata": meta("late"),
            "spec": { "template": { "spec": { "strategy": { "type": "Reboot" } } } },
        }),
    )
    .await?;
    until("it is taken back when it is there", |check| {
        condition(
            &check["status"]["deprecated"]["v1beta1"]["conditions"],
            TEMPLATE,
        )
        .is_null()
    })
    .await?;
    apply(&w.client, cluster(true)).await?;
    until("the pause is named", |check| {
        let paused = condition(&check["status"]["conditions"], "Paused");
        paused["status"] == "True" && paused["message"] == "Cluster spec.paused is true"
    })
    .await?;
    Ok(())
}

const TEMPLATE: &str = "ExternalRemediationTemplateAvailable";

fn condition(list: &Value, type_: &str) -> Value {
    let mut all = list.as_array().into_iter().flatten();
    all.find(|c| c["type"] == type_)
        .cloned()
        .unwrap_or_default()
}

/// Status and text of what the webhook answers to a body.
async fn reqwest_to(w: &World, port: u16, body: &'static str) -> Result<String> {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(w.pki.ca_file())?)?;
    let client = reqwest::Client::builder()
        .tls_certs_only([ca])
        .timeout(LONG)
        .build()?;
    let url = format!("https://127.0.0.1:{port}/{VALIDATE}");
    let answer = client.post(url).body(body).send().await?;
    let status = answer.status();
    Ok(format!("{} {}", status.as_u16(), answer.text().await?))
}

/// `explain mhc` on the cluster: a check that is there, and a name that is not.
fn explained(w: &World) -> Result<()> {
    let explain = |args: &[&str]| -> Result<Output> {
        Ok(Command::new(binaries()?.join("rackhand-controller"))
            .args(["explain", "mhc"])
            .args(args)
            .arg("--kubeconfig")
            .arg(w.plane.kubeconfig())
            .env("NO_COLOR", "1")
            .output()?)
    };
    let found = explain(&["kept", "-n", "default"])?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    ensure!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stderr)
    );
    for part in [
        "MachineHealthCheck default/kept of Cluster default/demo",
        "NOT ACTING Cluster default/demo does not exist",
        "no machines: the selector fits none",
        "Secret default/demo-kubeconfig",
    ] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let missing = explain(&["keptt", "-n", "elsewhere"])?;
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    ensure!(missing.status.code() == Some(1), "{said}");
    ensure!(
        said.contains("there is no MachineHealthCheck keptt in namespace elsewhere")
            && said.contains("default/kept"),
        "{said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_apis_own_webhook_and_crd_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::fast(Vec::new());
    config.cluster_api = true;
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let kubeconfig = stage.plane().kubeconfig();
    let taken: Vec<Case> = stricter()
        .into_iter()
        .filter(|(name, ..)| *name == "startup-split-second")
        .map(|(name, version, spec, _)| (name, version, spec, None))
        .collect();
    let outcome = agrees("Cluster API", &kubeconfig, &cases(), false)
        .and_then(|()| agrees("Cluster API's schema", &kubeconfig, &schema_cases(), false))
        .and_then(|()| {
            agrees(
                "Cluster API, which we are stricter than",
                &kubeconfig,
                &taken,
                false,
            )
        })
        .and_then(|()| keeps_its_cluster("Cluster API", &kubeconfig));
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", stage.logs());
    }
}
