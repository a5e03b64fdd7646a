//! PowerRemediation on a real control plane: by Machine and by Node, every strategy, every end, and
//! what people read about it.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::{PowerState, ResetType},
    stage::{
        CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, Witness,
        is_ready, wait_until,
    },
};
use serde_json::{Value, json};

const NODE_NAME: &str = "remediation.medik8s.io/node-name";
const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";
const HOLD: &str = "reboot.metal3.io/rackhand-";
const FOREIGN: &str = "reboot.metal3.io/firmware";

const CHECK: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata:
  name: reboot
  namespace: metal3
spec:
  template:
    spec:
      strategy:
        type: Reboot
        retryLimit: 2
        timeouts:
          bootSeconds: 120
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: power
  namespace: metal3
spec:
  clusterName: demo
  maxUnhealthy: 100%
  nodeStartupTimeout: 0m
  selector:
    matchLabels:
      nodepool: power
  unhealthyConditions:
    - type: Ready
      status: Unknown
      timeout: 1s
  remediationTemplate:
    apiVersion: rackhand.dev/v1alpha1
    kind: PowerRemediationTemplate
    name: reboot
"#;

struct World {
    stage: Stage,
    witness: Witness,
}

fn racks() -> Vec<RackSpec> {
    let rack = |name: &str, hosts: &[&str], link| RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, link).in_pool("by-hand")
    };
    vec![
        RackSpec::new("mhc", 1, HostLink::Inventory).in_pool("power"),
        rack(
            "known",
            &[
                "off-1", "cycle-1", "node-1", "esc-1", "told-1", "stay-1", "late-1", "old-1",
            ],
            HostLink::Inventory,
        ),
        rack(
            "managed",
            &["kept-1", "retire-1", "ocp-1"],
            HostLink::Managed,
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_remediation_does_what_it_says_and_says_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(racks(), &["--power-timeout=20s", "--cooperative-grace=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let witness = Witness::start(&stage.client);
    let world = World { stage, witness };
    let w = &world;
    let mut all = Scenarios::new();
    all.add(
        "a_health_check_with_our_template_brings_a_host_back",
        by_check(w),
    );
    all.add(
        "power_off_stays_off_until_deleted_and_is_shown",
        power_off(w),
    );
    all.add(
        "f9_a_host_that_another_holds_is_left_off",
        held_by_another(w),
    );
    all.add("a_power_cycle_first_moves_nothing", power_cycle(w));
    all.add(
        "by_node_without_a_machine_and_never_deleted_by_us",
        by_node(w),
    );
    all.add("a_machine_of_openshift_names_node_and_host", openshift(w));
    all.add("exhausted_escalate_tells_the_owner", escalate(w));
    all.add("exhausted_retire_marks_the_host_too", retire(w));
    all.add("exhausted_notify_only_says_so", notify(w));
    all.add("exhausted_stay_off_is_off_until_deleted", stay_off(w));
    all.add(
        "f4_told_to_stop_it_drains_and_brings_the_host_back",
        told_to_stop(w),
    );
    all.add("a_deleted_node_gets_back_what_it_had", delete_node(w));
    let outcome = all.run().await;
    let outcome = match outcome {
        Ok(()) => metrics(w).await,
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let objects = world.shown().await;
        panic!("{error:#}\n{objects}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    // What users add for requests by Node, and for clusters whose Nodes are deleted.
    for folder in ["nodes", "workload-delete-node"] {
        let path = format!(
            "{}/../deploy/kustomize/{folder}",
            env!("CARGO_MANIFEST_DIR")
        );
        apply_yaml(&stage.client, &kubectl(stage, &["kustomize", &path])?).await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

fn kubectl(stage: &Stage, args: &[&str]) -> Result<String> {
    let output = Command::new("kubectl")
        .arg(format!(
            "--kubeconfig={}",
            stage.plane().kubeconfig().display()
        ))
        .args(args)
        .output()
        .context("kubectl is missing; run hack/setup")?;
    ensure!(
        output.status.success(),
        "kubectl {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// `rackhand-controller explain`, as a person runs it.
fn explain(stage: &Stage, args: &[&str], input: Option<&str>) -> Result<String> {
    use std::io::Write;
    let mut child = Command::new(stage.binary("rackhand-controller"))
        .args(["explain", "remediation"])
        .arg(format!(
            "--kubeconfig={}",
            stage.plane().kubeconfig().display()
        ))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    stdin.write_all(input.unwrap_or_default().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "explain {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn condition<'a>(object: &'a Value, name: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == name);
    found.and_then(|c| c["status"].as_str()).unwrap_or("none")
}

fn step(object: &Value) -> &str {
    object["status"]["step"].as_str().unwrap_or("none")
}

impl World {
    fn requests(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
    }

    /// Asks for a remediation, by the Machine of that name or by the Node.
    async fn ask(
        &self,
        name: &str,
        machine: bool,
        annotations: Value,
        strategy: Value,
    ) -> Result<()> {
        let mut owners = json!([]);
        if machine {
            let uid = self.stage.machines().get(name).await?.uid();
            owners = json!([{
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "name": name, "uid": uid,
            }]);
        }
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "annotations": annotations,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                "ownerReferences": owners,
            },
            "spec": { "strategy": strategy },
        }))?;
        self.requests()
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("asking for {name}"))?;
        Ok(())
    }

    async fn strategy(&self, host: &str, strategy: Value) -> Result<()> {
        self.ask(host, true, json!({}), strategy).await
    }

    async fn wait(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let Some(object) = self.requests().get_opt(name).await? else {
                return Ok(Err("there is no request".into()));
            };
            let object = serde_json::to_value(object)?;
            let status = &object["status"];
            let seen = format!(
                "{} {} {}",
                status["step"], status["reason"], status["message"]
            );
            Ok(if wanted(&object) {
                Ok(object)
            } else {
                Err(seen)
            })
        })
        .await
    }

    async fn wait_step(&self, name: &str, wanted: &str) -> Result<Value> {
        self.wait(name, wanted, |object| step(object) == wanted)
            .await
    }

    async fn withdraw(&self, name: &str) -> Result<()> {
        self.requests()
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .with_context(|| format!("deleting {name}"))
    }

    async fn wait_gone(&self, name: &str) -> Result<()> {
        wait_until(&format!("{name}: gone"), LONG, || async {
            Ok(match self.requests().get_opt(name).await? {
                None => Ok(()),
                Some(object) => Err(object.data["status"]["message"].to_string()),
            })
        })
        .await
    }

    /// The host is on, its Node Ready, and nothing of ours is left.
    async fn wait_back(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host}: back"), LONG, || async {
            let mut left = self.stage.left_on(host).await?;
            if !is_ready(&self.stage.node(host).await?) {
                left.push("not Ready".into());
            }
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            })
        })
        .await
    }

    /// A host that never comes back after this.
    async fn lose_for_good(&self, host: &str, on_exhausted: &str) -> Result<()> {
        let sim = self.stage.host(host)?;
        sim.never_boots(true);
        ensure!(sim.hang(), "{host} was not up");
        let strategy = json!({
            "retryLimit": 0, "onExhausted": on_exhausted, "timeouts": { "bootSeconds": 2 },
        });
        self.strategy(host, strategy).await
    }

    /// How `OwnerRemediated` stands in both lists of a Machine: the main one of the version that is
    /// served, and the other one beside it.
    async fn owner_remediated(&self, machine: &str) -> Result<(Value, Value)> {
        let status = self.stage.machines().get(machine).await?.data["status"].clone();
        let find = |list: &Value| {
            let found = list.as_array().into_iter().flatten();
            let mut found = found.filter(|c| c["type"] == "OwnerRemediated");
            found.next().map_or(Value::Null, |c| c["status"].clone())
        };
        Ok((
            find(&status["conditions"]),
            [&status["v1beta2"], &status["deprecated"]["v1beta1"]]
                .map(|other| find(&other["conditions"]))
                .into_iter()
                .find(|found| !found.is_null())
                .unwrap_or_default(),
        ))
    }

    async fn shown(&self) -> String {
        let list = self
            .requests()
            .list(&kube::api::ListParams::default())
            .await;
        let mut text = String::new();
        for object in list.into_iter().flatten() {
            text.push_str(&format!(
                "--- {}: {}\n",
                object.name_any(),
                object.data["status"]
            ));
        }
        text
    }
}

async fn by_check(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, CHECK).await?;
    let host = w.stage.host("mhc-1")?;
    ensure!(host.hang(), "it was not up");
    let object = w.wait("mhc-1", "asked for", |_| true).await?;
    let owner = &object["metadata"]["ownerReferences"][0];
    ensure!(
        owner["kind"] == "Machine" && owner["name"] == "mhc-1",
        "{owner}"
    );
    w.wait_gone("mhc-1").await?;
    w.wait_back("mhc-1").await?;
    w.stage.one_cycle("mhc-1")?;
    w.stage.tainted_only_while_off(&w.witness, "mhc-1").await?;
    ensure!(w.witness.taints("mhc-1").len() == 2, "tainted once");
    // Events are sent on the side, and may come late.
    wait_until("events with times", LONG, || async {
        let events = w.stage.events("mhc-1").await?;
        let notes: Vec<String> = events.iter().filter_map(|e| e.note.clone()).collect();
        let steps = ["(PoweringOff took ", "(Draining took ", "(Booting took "];
        let all = steps
            .iter()
            .all(|took| notes.iter().any(|n| n.contains(took)));
        Ok(if all {
            Ok(())
        } else {
            Err(format!("{notes:?}"))
        })
    })
    .await
}

async fn power_off(w: &World) -> Result<()> {
    let host = w.stage.host("off-1")?;
    w.stage.bind_pod("off-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "it was not up");
    w.strategy("off-1", json!({ "type": "PowerOff" })).await?;
    let object = w.wait_step("off-1", "Fenced").await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Succeeded", "{status}");
    for (name, is) in [
        ("Processing", "False"),
        ("Succeeded", "True"),
        ("Fenced", "True"),
    ] {
        ensure!(condition(&object, name) == is, "{name}: {status}");
    }
    let readings = status["powerOff"]["readings"].as_array();
    ensure!(readings.is_some_and(|r| r.len() >= 2), "{status}");
    ensure!(
        readings.is_some_and(|r| r.iter().all(|r| r["state"] == "Off")),
        "{status}"
    );
    ensure!(status["attempts"][0]["drainedAt"].is_string(), "{status}");
    ensure!(
        status["inPlace"] == json!(["PowerOff", "Taint"]),
        "{status}"
    );
    ensure!(
        w.stage.bound_pod("off-1").await?.is_none(),
        "the pod has moved"
    );
    ensure!(w.stage.tainted("off-1").await?, "the taint stays");
    ensure!(host.real_power() == PowerState::Off, "it is off");
    said(w, "off-1")?;

    // Somebody presses the button.
    host.never_boots(true);
    host.switch(ResetType::On, "somebody");
    w.stage.wait_warning("off-1", "FenceViolated").await?;
    w.wait_step("off-1", "Fenced").await?;
    ensure!(host.real_power() == PowerState::Off, "off again");
    ensure!(w.stage.tainted("off-1").await?, "the taint stays");
    host.never_boots(false);

    w.withdraw("off-1").await?;
    w.wait_gone("off-1").await?;
    w.wait_back("off-1").await
}

/// What `kubectl get` and `explain` say of a host that is kept off.
fn said(w: &World, name: &str) -> Result<()> {
    let table = kubectl(&w.stage, &["get", "prem", name, "-n", NAMESPACE])?;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let header = ["NAME", "NODE", "STRATEGY", "PHASE", "STEP", "REASON", "AGE"];
    ensure!(lines[0] == header, "{table}");
    let row = [name, name, "PowerOff", "Succeeded", "Fenced", "Fenced"];
    ensure!(lines[1].starts_with(&row), "{table}");

    let text = explain(&w.stage, &[name, "-n", NAMESPACE], None)?;
    for part in [
        "PowerRemediation metal3/off-1: Fenced, attempt 1 of 2",
        "stays off until this object is deleted",
        "off-1 of rack known",
        "out of service",
        "by the BMC: Redfish",
    ] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let json = explain(&w.stage, &[name, "-n", NAMESPACE, "-o", "json"], None)?;
    let json: Value = serde_json::from_str(&json)?;
    ensure!(
        json["step"] == "Fenced" && json["blocked"] == false,
        "{json}"
    );
    // The same from a file, as it comes out of kubectl.
    let kinds = "prem,machines.cluster.x-k8s.io,clusters.cluster.x-k8s.io,rackagents,nodes";
    let dump = kubectl(&w.stage, &["get", kinds, "-n", NAMESPACE, "-o", "yaml"])?;
    let file = explain(&w.stage, &[name, "-f", "-", "-o", "json"], Some(&dump))?;
    let file: Value = serde_json::from_str(&file)?;
    ensure!(file["message"] == json["message"], "{file}\n{json}");
    Ok(())
}

async fn held_by_another(w: &World) -> Result<()> {
    let host = w.stage.host("kept-1")?;
    ensure!(host.hang(), "it was not up");
    w.strategy("kept-1", json!({ "type": "PowerOff" })).await?;
    w.wait_step("kept-1", "Fenced").await?;
    let hosts = w.stage.bare_metal_hosts();
    let held = hosts.get("kept-1").await?;
    ensure!(
        held.annotations().keys().any(|k| k.starts_with(HOLD)),
        "held while it is kept off: {:?}",
        held.annotations()
    );
    w.stage
        .annotate(&hosts, "kept-1", FOREIGN, Some(""))
        .await?;
    w.withdraw("kept-1").await?;
    w.wait_gone("kept-1").await?;
    let left = w.stage.left_on("kept-1").await?;
    ensure!(
        left == ["power Off"],
        "only the other's hold is left: {left:?}"
    );
    ensure!(host.counters().ons == 0, "never switched on by us");
    Ok(())
}

async fn power_cycle(w: &World) -> Result<()> {
    let host = w.stage.host("cycle-1")?;
    let pod = w.stage.bind_pod("cycle-1", false).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "it was not up");
    w.strategy("cycle-1", json!({ "type": "PowerCycleFirst" }))
        .await?;
    let object = w.wait_step("cycle-1", "Succeeded").await?;
    ensure!(condition(&object, "Succeeded") == "True", "{object}");
    let attempt = &object["status"]["attempts"][0];
    ensure!(
        attempt["poweredOffAt"].is_string() && attempt["drainedAt"].is_null(),
        "{attempt}"
    );
    w.stage.one_cycle("cycle-1")?;
    w.stage.never_tainted(&w.witness, "cycle-1").await?;
    let there = w
        .stage
        .bound_pod("cycle-1")
        .await?
        .context("the pod is gone")?;
    ensure!(
        there.uid() == pod.uid() && there.metadata.deletion_timestamp.is_none(),
        "the pod was touched"
    );
    w.withdraw("cycle-1").await?;
    w.wait_gone("cycle-1").await
}

async fn by_node(w: &World) -> Result<()> {
    w.stage
        .machines()
        .delete("node-1", &DeleteParams::default())
        .await?;
    let host = w.stage.host("node-1")?;
    ensure!(host.hang(), "it was not up");
    // As medik8s makes it where several templates of a kind are allowed.
    let named = json!({ NODE_NAME: "node-1" });
    w.ask("node-1-x7k2", false, named, json!({})).await?;
    let begun = |o: &Value| condition(o, "Processing") == "True";
    let object = w.wait("node-1-x7k2", "begun", begun).await?;
    ensure!(condition(&object, "Succeeded") == "Unknown", "{object}");
    let object = w.wait_step("node-1-x7k2", "Succeeded").await?;
    ensure!(object["status"]["nodeName"] == "node-1", "{object}");
    w.stage.one_cycle("node-1")?;
    w.stage.tainted_only_while_off(&w.witness, "node-1").await?;
    ensure!(w.witness.taints("node-1").len() == 2, "tainted once");
    w.wait_back("node-1").await?;
    // The health check deletes it, nobody else; and nothing keeps it then.
    let over = |o: &Value| o["metadata"]["finalizers"].is_null();
    let object = w.wait("node-1-x7k2", "let go", over).await?;
    ensure!(
        object["metadata"]["deletionTimestamp"].is_null(),
        "{object}"
    );
    w.withdraw("node-1-x7k2").await?;
    w.wait_gone("node-1-x7k2").await?;

    w.ask("nobody", false, json!({}), json!({})).await?;
    let object = w.wait_step("nobody", "Blocked").await?;
    ensure!(object["status"]["phase"] == "Aborted", "{object}");
    ensure!(object["status"]["reason"] == "NodeNotFound", "{object}");
    Ok(())
}

/// Only the name and the group of the kind count here.
const OPENSHIFT_MACHINES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machines.machine.openshift.io
spec:
  group: machine.openshift.io
  names: { kind: Machine, plural: machines }
  scope: Namespaced
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          x-kubernetes-preserve-unknown-fields: true
";

/// As machine-api-operator's health check asks: its Machine is the only owner, and names the Node.
async fn openshift(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, OPENSHIFT_MACHINES).await?;
    let group = "machine.openshift.io";
    let consumer = json!({ "spec": { "consumerRef": {
        "apiVersion": format!("{group}/v1beta1"), "kind": "Machine", "name": "master-ocp",
        "namespace": NAMESPACE,
    }}});
    let hosts = w.stage.bare_metal_hosts();
    let patch = Patch::Merge(consumer);
    hosts
        .patch("ocp-1", &PatchParams::default(), &patch)
        .await?;
    let machine: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": "Machine",
        "metadata": {
            "name": "master-ocp", "namespace": NAMESPACE,
            "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/ocp-1") },
        },
        "status": { "nodeRef": { "kind": "Node", "name": "ocp-1" } },
    }))?;
    let machines = w.stage.api(group, "v1beta1", "Machine");
    let machine = wait_until("the kind is served", LONG, || async {
        let made = machines.create(&PostParams::default(), &machine).await;
        Ok(made.map_err(|error| error.to_string()))
    })
    .await?;
    w.stage.bind_pod("ocp-1", true).await?;
    let host = w.stage.host("ocp-1")?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "it was not up");
    let owner = json!([{
        "apiVersion": format!("{group}/v1beta1"), "kind": "Machine",
        "name": "master-ocp", "uid": machine.uid(),
    }]);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": {
            "name": "master-ocp", "namespace": NAMESPACE, "ownerReferences": owner,
        },
        "spec": {},
    }))?;
    let params = PostParams::default();
    w.requests().create(&params, &object).await?;
    let object = w.wait_step("master-ocp", "Draining").await?;
    ensure!(object["status"]["nodeName"] == "ocp-1", "{object}");
    let holds = w.witness.holds("ocp-1", HOLD);
    ensure!(holds.len() == 1, "its BareMetalHost is held: {holds:?}");
    let args = ["master-ocp", "--namespace", NAMESPACE];
    let text = explain(&w.stage, &args, None)?;
    for part in ["on-ocp-1", "ocp-1 of rack managed", "connected"] {
        ensure!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    w.stage.let_pod_go("ocp-1").await?;
    w.wait_step("master-ocp", "Succeeded").await?;
    w.stage.one_cycle("ocp-1")?;
    w.stage.tainted_only_while_off(&w.witness, "ocp-1").await?;
    w.withdraw("master-ocp").await?;
    w.wait_gone("master-ocp").await?;
    w.wait_back("ocp-1").await
}

async fn failed(w: &World, host: &str) -> Result<Value> {
    let object = w
        .wait(host, "failed", |o| o["status"]["phase"] == "Failed")
        .await?;
    ensure!(condition(&object, "Succeeded") == "False", "{object}");
    ensure!(
        object["status"]["attempts"][0]["reason"] == "BootTimeout",
        "{object}"
    );
    Ok(object)
}

async fn owner_told(w: &World, host: &str) -> Result<()> {
    wait_until(&format!("{host}: its owner is told"), LONG, || async {
        let told = w.owner_remediated(host).await?;
        Ok(if told == (json!("False"), json!("False")) {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        })
    })
    .await
}

async fn escalate(w: &World) -> Result<()> {
    w.lose_for_good("esc-1", "Escalate").await?;
    let object = failed(w, "esc-1").await?;
    ensure!(step(&object) == "Escalated", "{object}");
    owner_told(w, "esc-1").await?;
    ensure!(w.stage.left_on("esc-1").await?.is_empty(), "cleaned up");
    Ok(())
}

async fn retire(w: &World) -> Result<()> {
    w.lose_for_good("retire-1", "Retire").await?;
    failed(w, "retire-1").await?;
    owner_told(w, "retire-1").await?;
    wait_until("both marks", LONG, || async {
        let host = w.stage.bare_metal_hosts().get("retire-1").await?;
        let marks = ["capi.metal3.io/unhealthy", "capm3.metal3.io/unhealthy"];
        let there = marks.iter().all(|m| host.annotations().contains_key(*m));
        let held = host.annotations().keys().any(|k| k.starts_with(HOLD));
        Ok(if there && !held {
            Ok(())
        } else {
            Err(format!("{:?}", host.annotations()))
        })
    })
    .await
}

async fn notify(w: &World) -> Result<()> {
    w.lose_for_good("told-1", "Notify").await?;
    let object = failed(w, "told-1").await?;
    ensure!(object["status"]["reason"] == "ExhaustedTold", "{object}");
    let over = |o: &Value| o["metadata"]["finalizers"].is_null();
    w.wait("told-1", "let go", over).await?;
    let told = w.owner_remediated("told-1").await?;
    ensure!(
        told == (Value::Null, Value::Null),
        "nobody was asked: {told:?}"
    );
    Ok(())
}

async fn stay_off(w: &World) -> Result<()> {
    let host = w.stage.host("stay-1")?;
    w.lose_for_good("stay-1", "StayOff").await?;
    let object = w.wait_step("stay-1", "Fenced").await?;
    ensure!(object["status"]["phase"] == "Failed", "{object}");
    ensure!(object["status"]["reason"] == "ExhaustedKeptOff", "{object}");
    ensure!(condition(&object, "Succeeded") == "False", "{object}");
    ensure!(host.real_power() == PowerState::Off, "it is off");
    ensure!(host.counters().offs == 2, "{:?}", host.counters());
    ensure!(w.stage.tainted("stay-1").await?, "the taint stays");
    host.never_boots(false);
    w.withdraw("stay-1").await?;
    w.wait_gone("stay-1").await?;
    w.wait_back("stay-1").await
}

async fn told_to_stop(w: &World) -> Result<()> {
    let host = w.stage.host("late-1")?;
    w.stage.bind_pod("late-1", true).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "it was not up");
    w.strategy("late-1", json!({ "type": "PowerOff" })).await?;
    w.wait_step("late-1", "Draining").await?;
    let requests = w.requests();
    let now = jiff::Timestamp::now().to_string();
    w.stage
        .annotate(&requests, "late-1", TIMED_OUT, Some(&now))
        .await?;
    w.stage.wait_looks("late-1", 4).await?;
    ensure!(
        host.real_power() == PowerState::Off,
        "not before the pod is gone"
    );
    w.stage.let_pod_go("late-1").await?;
    // It was to stay off, and is not kept off any more: a node that is back is a success all the same.
    let object = w.wait_step("late-1", "Succeeded").await?;
    ensure!(condition(&object, "Processing") == "False", "{object}");
    w.stage.one_cycle("late-1")?;
    w.wait_back("late-1").await?;
    w.withdraw("late-1").await?;
    w.wait_gone("late-1").await
}

async fn delete_node(w: &World) -> Result<()> {
    let nodes = Api::<DynamicObject>::all_with(
        w.stage.client.clone(),
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "v1", "Node")),
    );
    w.stage
        .annotate(&nodes, "old-1", "example.org/kept", Some("yes"))
        .await?;
    let before = w.stage.node("old-1").await?;
    ensure!(w.stage.host("old-1")?.hang(), "it was not up");
    let asked = json!({ "rackhand.dev/node-action": "delete-node" });
    w.ask("old-1", true, asked, json!({})).await?;
    let object = w.wait_step("old-1", "Succeeded").await?;
    let backup = "remediation.metal3.io/node-labels-backup";
    ensure!(
        object["metadata"]["annotations"][backup].is_null(),
        "{object}"
    );
    let after = w.stage.node("old-1").await?;
    ensure!(after.uid() != before.uid(), "the Node was deleted");
    ensure!(
        after
            .annotations()
            .get("example.org/kept")
            .map(String::as_str)
            == Some("yes"),
        "{:?}",
        after.annotations()
    );
    w.stage.one_cycle("old-1")?;
    w.stage.never_tainted(&w.witness, "old-1").await?;
    let records = w.witness.of("Node", "old-1");
    ensure!(records.iter().any(|r| r.gone), "it was gone for a while");
    w.withdraw("old-1").await?;
    w.wait_gone("old-1").await
}

async fn metrics(w: &World) -> Result<()> {
    let twice = w.stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    let (status, text) = w.stage.admin("controller-0", "/metrics").await?;
    ensure!(status == 200, "{status}");
    for part in [
        "rackhand_remediations_total{outcome=\"fenced\",cause=\"Fenced\"}",
        "rackhand_remediations_total{outcome=\"kept_off\",cause=\"ExhaustedKeptOff\"} 1",
        "rackhand_remediations_total{outcome=\"escalated\",cause=\"Exhausted\"} 2",
        "rackhand_remediations_total{outcome=\"failed\",cause=\"NodeNotFound\"} 1",
        "rackhand_fence_violations_total{reason=\"FenceViolated\"} 1",
        "rackhand_remediation_step_seconds_bucket{le=\"",
        "rackhand_remediations_blocked",
    ] {
        ensure!(text.contains(part), "{part} is missing in\n{text}");
    }
    Ok(())
}
