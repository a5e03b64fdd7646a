//! Labels on Nodes that make remediations, on a real control plane.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own; the crash of the controller comes
//! last.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::apply_yaml,
    stage::{
        HostLink, LONG, NAMESPACE, RackSpec, Recorder, Scenarios, Stage, StageConfig, is_ready,
        wait_until,
    },
};
use serde_json::{Value, json};

const LABEL: &str = "node-restriction.kubernetes.io/reboot";

const OPEN_LABEL: &str = "example.com/reboot";

/// The policy selects by a label that only one scenario sets.
const OBJECTS: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: reboot, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, retryLimit: 0, onExhausted: Notify, timeouts: {bootSeconds: 20}}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: reboot, namespace: metal3}
spec:
  clusterName: demo
  label: node-restriction.kubernetes.io/reboot
  value: now
  templateRef: {name: reboot}
  cooldownSeconds: 10
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: local, namespace: metal3}
spec:
  label: node-restriction.kubernetes.io/local-reboot
  value: now
  failedValue: broken
  templateRef: {name: reboot}
  cooldownSeconds: 10
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: zz-open, namespace: metal3}
spec:
  clusterName: demo
  label: example.com/reboot
  value: now
  templateRef: {name: reboot}
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: nothing, namespace: metal3}
spec:
  clusterName: demo
  label: node-restriction.kubernetes.io/nothing
  value: now
  templateRef: {name: not-there}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3RemediationTemplate
metadata: {name: by-capm3, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, retryLimit: 1, timeout: 100s}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: metal3, namespace: metal3}
spec:
  clusterName: demo
  label: node-restriction.kubernetes.io/metal3-reboot
  value: now
  templateRef: {kind: Metal3RemediationTemplate, apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, name: by-capm3}
  cooldownSeconds: 10
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: no-cluster, namespace: metal3}
spec:
  clusterName: nope
  label: node-restriction.kubernetes.io/no-cluster
  value: now
  templateRef: {name: reboot}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: {name: approve-held}
spec:
  selector: {nodes: {matchLabels: {trigger-test: held}}}
  requireApproval: true
"#;

struct World {
    stage: Stage,
    recorder: Recorder,
}

fn racks() -> Vec<RackSpec> {
    let hosts = [
        "back-1", "fail-1", "held-1", "two-1", "skip-1", "crash-1", "local-1", "del-1", "gone-1",
        "metal-1", "anew-1",
    ];
    vec![RackSpec {
        hosts: hosts.map(str::to_owned).to_vec(),
        ..RackSpec::new("rack", 0, HostLink::Inventory).in_pool("by-label")
    }]
}

#[tokio::test(flavor = "multi_thread")]
async fn label_makes_one_remediation_and_is_answered() {
    let config = StageConfig::steady(racks(), &["--power-timeout=60s", "--cooperative-grace=1s"]);
    let (_dir, stage, ()) = crate::prepared(config, begin).await;
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("ready_node_is_cycled_once_and_loses_its_label", back(w));
    all.add("failure_is_said_by_the_label", failed(w));
    all.add(
        "label_taken_away_withdraws_what_has_not_begun",
        withdrawn(w),
    );
    all.add("second_trigger_waits_and_says_so", two_triggers(w));
    all.add("skipped_machine_is_left_alone", skipped(w));
    all.add("node_of_this_cluster_needs_no_cluster_object", local(w));
    all.add("deleted_remediation_is_answered_as_failed", deleted(w));
    all.add(
        "remediation_goes_with_its_trigger",
        trigger_deleted(&w.stage, "gone-1"),
    );
    all.add("metal3remediation_of_a_label_is_of_its_machine", metal3(w));
    all.add("node_that_registers_anew_is_another", anew(w));
    all.add("kubelet_cannot_set_a_restricted_label", kubelet(w));
    let outcome = match all.run().await {
        Ok(()) => crash(w).await,
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let shown = shown(&world).await;
        panic!("{error:#}\n{shown}\n{}", world.stage.report().await);
    }
    assert!(world.stage.ran_twice().is_empty());
}

/// Without the flag, the triggers say that they are not active.
async fn begin(stage: &Stage) -> Result<()> {
    stage.install("nodes").await?;
    stage.apply_rack_agents().await?;
    apply_yaml(&stage.client, OBJECTS).await?;
    stage.start_controller("controller-0").await?;
    wait_condition(stage, "reboot", "Active", ("False", "Disabled")).await?;
    stage.stop_controller("controller-0")?;
    stage
        .start_controller_as("controller-0", vec!["--remediation-triggers".into()])
        .await?;
    wait_condition(stage, "reboot", "Active", ("True", "Active")).await?;
    wait_condition(stage, "nothing", "Active", ("False", "TemplateUnusable")).await?;
    wait_condition(
        stage,
        "reboot",
        "LabelRestricted",
        ("True", "NodeRestriction"),
    )
    .await?;
    wait_condition(stage, "no-cluster", "Active", ("False", "ClusterNotFound")).await?;
    let open = ("False", "KubeletsMaySetLabel");
    wait_condition(stage, "zz-open", "LabelRestricted", open).await
}

fn remediations(stage: &Stage) -> Api<DynamicObject> {
    stage.api("rackhand.dev", "v1alpha1", "PowerRemediation")
}

fn triggers(stage: &Stage) -> Api<DynamicObject> {
    stage.api("rackhand.dev", "v1alpha1", "RemediationTrigger")
}

fn condition<'a>(object: &'a DynamicObject, name: &str) -> (&'a str, &'a str) {
    let list = object.data["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == name);
    let text = |field: &str| found.and_then(|c| c[field].as_str()).unwrap_or("none");
    (text("status"), text("reason"))
}

async fn wait_condition(
    stage: &Stage,
    trigger: &str,
    name: &str,
    expected: (&str, &str),
) -> Result<()> {
    wait_until(&format!("{trigger}: {name}"), LONG, || async {
        let object = triggers(stage).get(trigger).await?;
        let found = condition(&object, name);
        Ok(match found == expected {
            true => Ok(()),
            false => Err(format!("{found:?}")),
        })
    })
    .await
}

/// The remediations that labels have made of a Node.
async fn made(w: &World, node: &str) -> Result<Vec<DynamicObject>> {
    let all = remediations(&w.stage).list(&ListParams::default()).await?;
    let of_node = |object: &DynamicObject| {
        let named = object.annotations().get("remediation.medik8s.io/node-name");
        named.is_some_and(|name| name == node)
    };
    Ok(all.items.into_iter().filter(of_node).collect())
}

async fn wait_made(w: &World, node: &str, count: usize) -> Result<Vec<DynamicObject>> {
    wait_until(&format!("{node}: {count} remediations"), LONG, || async {
        let made = made(w, node).await?;
        Ok(match made.len() == count {
            true => Ok(made),
            false => Err(format!("{} remediations", made.len())),
        })
    })
    .await
}

async fn set_label(w: &World, node: &str, label: &str, value: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { (label): value } } });
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(w.stage.client.clone());
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("label of {node}"))?;
    Ok(())
}

async fn wait_label(w: &World, node: &str, label: &str, value: Option<&str>) -> Result<()> {
    wait_until(&format!("{node}: label {value:?}"), LONG, || async {
        let found = w.stage.node(node).await?;
        let found = found.labels().get(label).map(String::as_str);
        Ok(match found == value {
            true => Ok(()),
            false => Err(format!("{found:?}")),
        })
    })
    .await
}

/// The reason for which the trigger lists the Node in its status.
async fn wait_reason(w: &World, trigger: &str, node: &str, reason: &str) -> Result<()> {
    wait_until(&format!("{node}: {reason}"), LONG, || async {
        let object = triggers(&w.stage).get(trigger).await?;
        let nodes = object.data["status"]["nodes"].as_array().cloned();
        let nodes = nodes.unwrap_or_default();
        let found = nodes.iter().find(|n| n["node"] == node);
        let found = found.map_or(Value::Null, |n| n["reason"].clone());
        Ok(match found == reason {
            true => Ok(()),
            false => Err(found.to_string()),
        })
    })
    .await
}

/// Off commands that a host got.
fn cycles(w: &World, host: &str) -> Result<u64> {
    Ok(w.stage.host(host)?.counters().offs)
}

async fn wait_ready(w: &World, node: &str) -> Result<()> {
    wait_until(&format!("{node}: Ready"), LONG, || async {
        Ok(match is_ready(&w.stage.node(node).await?) {
            true => Ok(()),
            false => Err("not Ready".into()),
        })
    })
    .await
}

/// A host that is Ready all the time is cycled as requested; a label within the cooldown waits, and is answered after
/// it by a second remediation.
async fn back(w: &World) -> Result<()> {
    let host = "back-1";
    wait_ready(w, host).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    let first = wait_made(w, host, 1).await?.remove(0);
    let maker = first.annotations().get("rackhand.dev/made-by").cloned();
    let maker = maker.unwrap_or_default();
    ensure!(maker.starts_with("RemediationTrigger/reboot/"), "{maker}");
    ensure!(
        first.owner_references().iter().any(|o| o.kind == "Machine"),
        "the Machine does not own it"
    );
    wait_label(w, host, LABEL, None).await?;
    w.stage.one_cycle(host)?;
    w.stage.tainted_only_while_off(&w.recorder, host).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    wait_reason(w, "reboot", host, "Cooldown").await?;
    let during = made(w, host).await?;
    ensure!(during.len() == 1, "{}", during.len());
    ensure!(during[0].uid() == first.uid(), "made within the cooldown");
    w.stage.one_cycle(host)?;
    let answered = during[0].annotations().get("rackhand.dev/label-answered");
    let answered: Timestamp = answered.context("not answered")?.parse()?;
    let second = wait_until("a second remediation", LONG, || async {
        let made = made(w, host).await?;
        let other = made.into_iter().find(|object| object.uid() != first.uid());
        Ok(other.ok_or_else(|| "there is none".to_owned()))
    })
    .await?;
    let created = second.creation_timestamp().context("no creation")?.0;
    let waited = created.duration_since(answered);
    ensure!(waited.as_secs() >= 9, "made after {waited}");
    wait_label(w, host, LABEL, None).await?;
    ensure!(cycles(w, host)? == 2, "{} cycles", cycles(w, host)?);
    // Nothing is left after the cooldown.
    wait_made(w, host, 0).await?;
    let object = triggers(&w.stage).get("reboot").await?;
    let last = &object.data["status"]["last"];
    ensure!(
        last.as_array()
            .into_iter()
            .flatten()
            .any(|end| end["node"] == host && end["outcome"] == "Succeeded"),
        "{last}"
    );
    Ok(())
}

async fn failed(w: &World) -> Result<()> {
    let host = "fail-1";
    wait_ready(w, host).await?;
    w.stage.host(host)?.never_boots(true);
    set_label(w, host, LABEL, Some("now")).await?;
    wait_label(w, host, LABEL, Some("failed")).await?;
    wait_reason(w, "reboot", host, "Failed").await?;
    // It stays as it is until a person decides.
    ensure!(made(w, host).await?.len() == 1, "it is gone");
    ensure!(cycles(w, host)? == 1, "{} cycles", cycles(w, host)?);
    set_label(w, host, LABEL, None).await?;
    wait_made(w, host, 0).await?;
    wait_label(w, host, LABEL, None).await?;
    ensure!(cycles(w, host)? == 1, "cycled without a label");
    Ok(())
}

async fn withdrawn(w: &World) -> Result<()> {
    let host = "held-1";
    wait_ready(w, host).await?;
    set_label(w, host, "trigger-test", Some("held")).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    wait_made(w, host, 1).await?;
    wait_until("it is held by the policy", LONG, || async {
        let made = made(w, host).await?;
        let reason = made.first().map(|o| o.data["status"]["reason"].to_string());
        Ok(match reason.as_deref() {
            Some("\"HeldByPolicy\"") => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    set_label(w, host, LABEL, None).await?;
    wait_made(w, host, 0).await?;
    w.stage.untouched(host)
}

async fn two_triggers(w: &World) -> Result<()> {
    let host = "two-1";
    wait_ready(w, host).await?;
    set_label(w, host, "trigger-test", Some("held")).await?;
    let both = json!({ "metadata": { "labels": { (LABEL): "now", (OPEN_LABEL): "now" } } });
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(w.stage.client.clone());
    nodes
        .patch(host, &PatchParams::default(), &Patch::Merge(both))
        .await?;
    wait_reason(w, "zz-open", host, "OtherTrigger").await?;
    wait_condition(&w.stage, "zz-open", "Conflict", ("True", "OtherTrigger")).await?;
    ensure!(wait_made(w, host, 1).await?.len() == 1, "two were made");
    set_label(w, host, OPEN_LABEL, None).await?;
    set_label(w, host, LABEL, None).await?;
    wait_made(w, host, 0).await?;
    wait_condition(&w.stage, "zz-open", "Conflict", ("False", "None")).await?;
    w.stage.untouched(host)
}

async fn skipped(w: &World) -> Result<()> {
    let (host, key) = ("skip-1", "cluster.x-k8s.io/skip-remediation");
    wait_ready(w, host).await?;
    let patch = |value: Option<&str>| json!({ "metadata": { "annotations": { (key): value } } });
    let machines = w.stage.machines();
    let params = PatchParams::default();
    machines
        .patch(host, &params, &Patch::Merge(patch(Some(""))))
        .await?;
    set_label(w, host, LABEL, Some("now")).await?;
    wait_reason(w, "reboot", host, "Excluded").await?;
    ensure!(made(w, host).await?.is_empty(), "it is made");
    w.stage.untouched(host)?;
    machines
        .patch(host, &params, &Patch::Merge(patch(None)))
        .await?;
    wait_made(w, host, 1).await?;
    wait_label(w, host, LABEL, None).await?;
    w.stage.one_cycle(host)
}

async fn metal3(w: &World) -> Result<()> {
    let (host, label) = ("metal-1", "node-restriction.kubernetes.io/metal3-reboot");
    wait_ready(w, host).await?;
    set_label(w, host, label, Some("now")).await?;
    let of_machine = |object: &DynamicObject| {
        let maker = object.annotations().get("rackhand.dev/made-by");
        let by_trigger = maker.is_some_and(|by| by.starts_with("RemediationTrigger/metal3/"));
        let owners = object.owner_references().iter();
        by_trigger
            && owners
                .clone()
                .any(|o| o.kind == "Machine" && o.name == host)
    };
    wait_until("a Metal3Remediation", LONG, || async {
        let all = w.stage.remediations().list(&ListParams::default()).await?;
        Ok(
            match all.iter().filter(|object| of_machine(object)).count() {
                1 => Ok(()),
                count => Err(format!("{count} of the Machine")),
            },
        )
    })
    .await?;
    wait_label(w, host, label, None).await?;
    w.stage.one_cycle(host)?;
    w.stage.tainted_only_while_off(&w.recorder, host).await?;
    wait_until("it is gone after the cooldown", LONG, || async {
        let all = w.stage.remediations().list(&ListParams::default()).await?;
        Ok(match all.iter().any(of_machine) {
            false => Ok(()),
            true => Err("it is there".to_owned()),
        })
    })
    .await
}

/// The Node object is deleted and registers anew while its remediation waits.
async fn anew(w: &World) -> Result<()> {
    let host = "anew-1";
    wait_ready(w, host).await?;
    set_label(w, host, "trigger-test", Some("held")).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    let first = wait_made(w, host, 1).await?.remove(0);
    let before = w.stage.node(host).await?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(w.stage.client.clone());
    nodes.delete(host, &DeleteParams::default()).await?;
    // That of the first Node has not begun, and the label has gone with the Node.
    wait_made(w, host, 0).await?;
    let bare: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": { "name": host, "labels": { "trigger-test": "held" } },
    }))?;
    // The kubelet may be first.
    nodes.create(&PostParams::default(), &bare).await.ok();
    wait_ready(w, host).await?;
    let after = w.stage.node(host).await?;
    ensure!(after.uid() != before.uid(), "it is the same Node");
    ensure!(made(w, host).await?.is_empty(), "made without a label");
    set_label(w, host, "trigger-test", Some("held")).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    let second = wait_made(w, host, 1).await?.remove(0);
    ensure!(second.name_any() != first.name_any(), "of the first Node");
    set_label(w, host, LABEL, None).await?;
    wait_made(w, host, 0).await?;
    w.stage.untouched(host)
}

async fn local(w: &World) -> Result<()> {
    let (host, label) = ("local-1", "node-restriction.kubernetes.io/local-reboot");
    wait_ready(w, host).await?;
    set_label(w, host, label, Some("now")).await?;
    let made = wait_made(w, host, 1).await?;
    ensure!(made[0].owner_references().is_empty(), "it has an owner");
    wait_label(w, host, label, None).await?;
    w.stage.one_cycle(host)?;
    // Events are sent asynchronously and may be late.
    wait_until("Events about the Node", LONG, || async {
        let of_node = format!("--field-selector=involvedObject.name={host}");
        let reasons = "-o=jsonpath={.items[*].reason}";
        let args = ["get", "events", "--namespace=default", reasons, &of_node];
        let seen = w.stage.kubectl(&args).await?;
        Ok(match seen.contains("LabelRemoved") {
            true => Ok(()),
            false => Err(seen),
        })
    })
    .await
}

/// A remediation that a person deletes before it has begun is not made again for the same label.
async fn deleted(w: &World) -> Result<()> {
    let host = "del-1";
    wait_ready(w, host).await?;
    set_label(w, host, "trigger-test", Some("held")).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    wait_reason(w, "reboot", host, "Remediation").await?;
    let made = wait_made(w, host, 1).await?;
    remediations(&w.stage)
        .delete(&made[0].name_any(), &DeleteParams::default())
        .await?;
    wait_label(w, host, LABEL, Some("failed")).await?;
    wait_made(w, host, 0).await?;
    w.stage.untouched(host)
}

const SHORT_LIVED: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: short-lived, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: RemediationTrigger
metadata: {name: short-lived, namespace: metal3}
spec:
  clusterName: demo
  label: node-restriction.kubernetes.io/short-lived
  value: now
  templateRef: {name: short-lived}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: {name: short-lived}
spec:
  selector: {nodes: {matchLabels: {node-restriction.kubernetes.io/short-lived: now}}}
  requireApproval: true
"#;

/// A remediation that has not begun goes with its trigger.
pub async fn trigger_deleted(stage: &Stage, host: &str) -> Result<()> {
    apply_yaml(&stage.client, SHORT_LIVED).await?;
    let label = "node-restriction.kubernetes.io/short-lived=now";
    stage.kubectl(&["label", "node", host, label]).await?;
    let count = async |wanted: usize| {
        wait_until(&format!("{host}: {wanted} remediations"), LONG, || async {
            let all = remediations(stage).list(&ListParams::default()).await?;
            let made = all.items.iter().filter(|object| {
                let maker = object.annotations().get("rackhand.dev/made-by");
                maker.is_some_and(|maker| maker.starts_with("RemediationTrigger/short-lived/"))
            });
            Ok(match made.count() {
                found if found == wanted => Ok(()),
                found => Err(found.to_string()),
            })
        })
        .await
    };
    count(1).await?;
    triggers(stage)
        .delete("short-lived", &DeleteParams::default())
        .await?;
    count(0).await?;
    stage.untouched(host)
}

/// What the documentation says about the admission plugin NodeRestriction.
async fn kubelet(w: &World) -> Result<()> {
    apply_yaml(
        &w.stage.client,
        r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kubelets}
rules:
  - {apiGroups: [''], resources: [nodes], verbs: [get, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: kubelets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: kubelets}
subjects:
  - {kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:nodes'}
",
    )
    .await?;
    let label = async |own: &str, node: &str, label: &str| {
        let kubelet = format!("--as=system:node:{own}");
        let as_kubelet = [
            &*kubelet,
            "--as-group=system:nodes",
            "--as-group=system:authenticated",
        ];
        let args = ["label", "node", node, label, "--overwrite"];
        w.stage
            .kubectl(&[&as_kubelet[..], &args[..]].concat())
            .await
    };
    let host = "crash-1";
    label(host, host, "example.com/other=now").await?;
    for (own, forbidden) in [
        (host, "node-restriction.kubernetes.io/other=now"),
        (host, "sub.node-restriction.kubernetes.io/other=now"),
        (host, "not-known.kubernetes.io/other=now"),
        ("local-1", "example.com/other=later"),
    ] {
        let refused = label(own, host, forbidden).await;
        let error = format!("{:#}", refused.err().context(forbidden.to_owned())?);
        ensure!(error.contains("is not allowed to modify"), "{error}");
    }
    Ok(())
}

/// A controller that is killed in the middle makes no second remediation.
async fn crash(w: &World) -> Result<()> {
    let host = "crash-1";
    wait_ready(w, host).await?;
    set_label(w, host, LABEL, Some("now")).await?;
    let first = wait_made(w, host, 1).await?.remove(0);
    w.stage.kill_controller("controller-0")?;
    w.stage
        .start_controller_as("controller-0", vec!["--remediation-triggers".into()])
        .await?;
    wait_label(w, host, LABEL, None).await?;
    w.stage.one_cycle(host)?;
    let after = made(w, host).await?;
    ensure!(
        after.len() == 1 && after[0].uid() == first.uid(),
        "another one was made"
    );
    ensure!(
        after[0].metadata.namespace.as_deref() == Some(NAMESPACE),
        "another namespace"
    );
    Ok(())
}

async fn shown(w: &World) -> String {
    let mut text = String::new();
    let triggers = triggers(&w.stage).list(&ListParams::default()).await;
    let remediations = remediations(&w.stage).list(&ListParams::default()).await;
    for object in [triggers, remediations].into_iter().flatten().flatten() {
        text += &format!("{} {}\n", object.name_any(), object.data["status"]);
    }
    text
}
