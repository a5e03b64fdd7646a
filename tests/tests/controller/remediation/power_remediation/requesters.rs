//! Remediations by creator: a health check, by the name of a Node, OpenShift; and requests to stop.

use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::PowerState,
    stage::{LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::{HOLD, NODE_NAME, TIMED_OUT, World, condition};

pub const CHECK: &str = r#"
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

pub async fn by_check(w: &World) -> Result<()> {
    apply_yaml(&w.stage.client, CHECK).await?;
    let host = w.stage.host("mhc-1")?;
    ensure!(host.hang(), "the host was not up");
    let object = w
        .recorder
        .wait_version("PowerRemediation", "mhc-1", "asked for", |_| true)
        .await?;
    let owner = &object["metadata"]["ownerReferences"][0];
    ensure!(
        owner["kind"] == "Machine" && owner["name"] == "mhc-1",
        "{owner}"
    );
    w.wait_gone("mhc-1").await?;
    w.wait_back("mhc-1").await?;
    w.stage.one_cycle("mhc-1")?;
    w.stage.tainted_only_while_off(&w.recorder, "mhc-1").await?;
    ensure!(w.recorder.taints("mhc-1").len() == 2, "tainted once");
    // Events are sent asynchronously and may be late.
    wait_until("events of what was done", LONG, || async {
        let events = w.stage.events("mhc-1").await?;
        let reasons: Vec<String> = events.into_iter().filter_map(|e| e.reason).collect();
        let all = ["Holding", "Tainted"].map(str::to_owned);
        Ok(if all.iter().all(|wanted| reasons.contains(wanted)) {
            Ok(())
        } else {
            Err(format!("{reasons:?}"))
        })
    })
    .await
}

pub async fn by_node(w: &World) -> Result<()> {
    w.stage
        .machines()
        .delete("node-1", &DeleteParams::default())
        .await?;
    let host = w.stage.host("node-1")?;
    ensure!(host.hang(), "the host was not up");
    // Like medik8s with several templates of a kind.
    let named = json!({ NODE_NAME: "node-1" });
    w.create_remediation("node-1-x7k2", false, named, json!({}))
        .await?;
    let begun = |o: &Value| condition(o, "Processing") == "True";
    let object = w
        .recorder
        .wait_version("PowerRemediation", "node-1-x7k2", "begun", begun)
        .await?;
    ensure!(condition(&object, "Succeeded") == "Unknown", "{object}");
    let object = w.wait_step("node-1-x7k2", "Succeeded").await?;
    ensure!(object["status"]["nodeName"] == "node-1", "{object}");
    w.stage.one_cycle("node-1")?;
    w.stage
        .tainted_only_while_off(&w.recorder, "node-1")
        .await?;
    ensure!(w.recorder.taints("node-1").len() == 2, "tainted once");
    w.wait_back("node-1").await?;
    // Only the health check deletes it, and no finalizer keeps it then.
    let over = |o: &Value| o["metadata"]["finalizers"].is_null();
    let object = w
        .wait("node-1-x7k2", "the finalizer is removed", over)
        .await?;
    ensure!(
        object["metadata"]["deletionTimestamp"].is_null(),
        "{object}"
    );
    w.withdraw("node-1-x7k2").await?;
    w.wait_gone("node-1-x7k2").await?;

    w.create_remediation("nobody", false, json!({}), json!({}))
        .await?;
    let object = w.wait_step("nobody", "Blocked").await?;
    ensure!(object["status"]["phase"] == "Aborted", "{object}");
    ensure!(object["status"]["reason"] == "NodeNotFound", "{object}");
    Ok(())
}

/// Only the name and group of the kind matter here.
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

/// A remediation like that of machine-api-operator's health check: the Machine is the only owner and names
/// the Node.
pub async fn openshift(w: &World) -> Result<()> {
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
    ensure!(host.hang(), "the host was not up");
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
    w.remediations().create(&params, &object).await?;
    let object = w.wait_step("master-ocp", "Draining").await?;
    ensure!(object["status"]["nodeName"] == "ocp-1", "{object}");
    wait_until("its BareMetalHost is held", LONG, || async {
        let holds = w.recorder.holds("ocp-1", HOLD);
        Ok(match holds.len() {
            1 => Ok(()),
            _ => Err(format!("{holds:?}")),
        })
    })
    .await?;
    let args = ["master-ocp", "--namespace", NAMESPACE];
    let parts = ["on-ocp-1", "ocp-1 of rack managed", "connected"];
    wait_until(
        "the explanation names pod, host and agent",
        LONG,
        || async {
            let text = w.stage.explain_remediation(&args).await?;
            Ok(match parts.iter().all(|part| text.contains(part)) {
                true => Ok(()),
                false => Err(text),
            })
        },
    )
    .await?;
    w.stage.let_pod_go("ocp-1").await?;
    w.wait_step("master-ocp", "Succeeded").await?;
    w.stage.one_cycle("ocp-1")?;
    w.stage.tainted_only_while_off(&w.recorder, "ocp-1").await?;
    w.withdraw("master-ocp").await?;
    w.wait_gone("master-ocp").await?;
    w.wait_back("ocp-1").await
}

pub async fn told_to_stop(w: &World) -> Result<()> {
    let host = w.stage.host("late-1")?;
    w.stage.bind_pod("late-1", true).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "the host was not up");
    w.strategy("late-1", json!({ "type": "PowerOff" })).await?;
    w.wait_step("late-1", "Draining").await?;
    let remediations = w.remediations();
    let now = jiff::Timestamp::now().to_string();
    w.stage
        .annotate(&remediations, "late-1", TIMED_OUT, Some(&now))
        .await?;
    w.stage.wait_looks("late-1", 4).await?;
    ensure!(
        host.real_power() == PowerState::Off,
        "not before the pod is gone"
    );
    w.stage.let_pod_go("late-1").await?;
    // The host was to stay off and was released: a Node that is Ready again is a success.
    let object = w.wait_step("late-1", "Succeeded").await?;
    ensure!(condition(&object, "Processing") == "False", "{object}");
    w.stage.one_cycle("late-1")?;
    w.wait_back("late-1").await?;
    w.withdraw("late-1").await?;
    w.wait_gone("late-1").await
}
