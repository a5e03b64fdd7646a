//! Coexistence with Cluster API's own manager, with its webhooks and conversions: its health check creates
//! and withdraws Rackhand's remediations, and its MachineSet replaces escalated Machines. Rackhand leaves its
//! checks alone, evaluates a check that is paused for Cluster API and annotated for Rackhand, touches no Machine
//! that an owner replaces by itself, begins nothing while a Machine is updated in place, and no two controllers
//! overwrite each other.
//!
//! `hack/setup --print-capi` brings the manager; the test plays the infrastructure provider.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::ListParams};
use rackhand_tests::{
    cluster::apply,
    rack::ResetType,
    stage::{
        CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Record, Recorder, Scenarios, Stage,
        StageConfig, wait_until,
    },
};
use serde_json::{Value, json};

const MACHINES: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const DEPLOYMENT: &str = "cluster.x-k8s.io/deployment-name";
const LINK: &str = "metal3.io/BareMetalHost";
const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const EVALUATE: &str = "rackhand.dev/evaluate";
/// The MachineDeployment whose check Rackhand evaluates.
const OURS: &str = "ours";
/// The MachineDeployment whose check has no template.
const OWNED: &str = "owned";
/// The MachineDeployment whose Machine is updated in place.
const UPDATED: &str = "updated";
/// On a Machine: the hooks that Cluster API has to call, here for the end of an update in place.
const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
const UPDATE_HOOK: &str = "UpdateMachine";
/// Keeps the provider of the test from assigning the host again.
const UNHEALTHY: &str = "capi.metal3.io/unhealthy";
/// Field managers of Rackhand and of Cluster API in `managedFields`.
const US: &str = "rackhand-controller";
const THEM: &str = "manager";
/// Time in which settled objects must not change: two controllers that overwrite each other do so within
/// seconds.
const QUIET: Duration = Duration::from_secs(20);
/// Upper bound of the versions of an object in a failure, its remediation and the recovery. Two controllers
/// that overwrite each other create hundreds in that time.
const SETTLED: usize = 40;

struct World {
    stage: Stage,
    recorder: Recorder,
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_api_manager_requests_remediation_and_handles_escalation() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::steady(
        vec![RackSpec::new("r", 8, HostLink::Managed)],
        &["--cooperative-grace=0s"],
    );
    config.cluster_api = true;
    config.brief_boots = true;
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let _provider = stage.start_provider();
    let recorder = Recorder::start(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    if let Err(error) = begin(w).await {
        panic!("{error:#}\n{}", w.stage.report().await);
    }

    let mut all = Scenarios::new();
    all.add(
        "cluster_api_check_creates_and_withdraws_remediation",
        recovered(w),
    );
    all.add(
        "cluster_api_machine_set_replaces_escalated_machine",
        replaced(w),
    );
    all.add(
        "check_paused_for_cluster_api_with_evaluate_annotation_is_evaluated_by_rackhand",
        ours_alone(w),
    );
    all.add(
        "cluster_api_machine_set_replaces_machine_of_check_without_template",
        owner_replaces(w),
    );
    all.add(
        "remediation_waits_while_cluster_api_updates_the_machine_in_place",
        updated_in_place(w),
    );
    let outcome = match all.run().await {
        Ok(()) => settled(w).await.and_then(|()| theirs_untouched(w)),
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

/// Creates a control plane of one Machine, and MachineDeployments of one Machine each, with different boot
/// timeouts and owners of their checks.
async fn begin(w: &World) -> Result<()> {
    w.stage.apply_rack_agents().await?;
    w.stage.start_controller("controller-0").await?;
    for object in control_plane() {
        apply(&w.stage.client, object).await?;
    }
    node_of(w, "the control plane", |machine| {
        machine.name_any() == "control-plane"
    })
    .await?;
    let deployments = ["good", "bad", OURS, OWNED, UPDATED];
    for name in deployments {
        let boot = if name == "bad" { "5s" } else { "120s" };
        for mut object in deployment(name, boot) {
            match (name, object["kind"].as_str()) {
                (OURS, Some("MachineHealthCheck")) => {
                    object["metadata"]["annotations"] = json!({ PAUSED: "", EVALUATE: "true" });
                }
                (OWNED, Some("MachineHealthCheck")) => {
                    let spec = object["spec"].as_object_mut();
                    spec.and_then(|spec| spec.remove("remediation"));
                }
                _ => {}
            }
            apply(&w.stage.client, object).await?;
        }
    }
    for name in deployments {
        node_of(w, name, of(name)).await?;
        healthy(w, name).await?;
    }
    Ok(())
}

fn control_plane() -> [Value; 2] {
    let labels = json!({
        "cluster.x-k8s.io/cluster-name": CLUSTER,
        "cluster.x-k8s.io/control-plane": "",
    });
    let machine = json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
        "kind": "Metal3Machine",
        "metadata": { "name": "control-plane", "namespace": NAMESPACE, "labels": labels },
        "spec": {},
    });
    let owner = json!({
        "apiVersion": MACHINES,
        "kind": "Machine",
        "metadata": { "name": "control-plane", "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "clusterName": CLUSTER,
            "bootstrap": { "dataSecretName": "none" },
            "infrastructureRef": {
                "apiGroup": INFRASTRUCTURE,
                "kind": "Metal3Machine",
                "name": "control-plane",
            },
        },
    });
    [machine, owner]
}

fn deployment(name: &str, boot: &str) -> [Value; 4] {
    let meta = json!({ "name": name, "namespace": NAMESPACE });
    let template = json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
        "kind": "Metal3MachineTemplate",
        "metadata": meta,
        "spec": { "template": { "spec": {} } },
    });
    let remediation = json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1beta1"),
        "kind": "Metal3RemediationTemplate",
        "metadata": meta,
        "spec": { "template": { "spec": { "strategy": {
            "type": "Reboot",
            "retryLimit": 1,
            "timeout": boot,
        }}}},
    });
    let machines = json!({
        "apiVersion": MACHINES,
        "kind": "MachineDeployment",
        "metadata": meta,
        "spec": {
            "clusterName": CLUSTER,
            "replicas": 1,
            "selector": { "matchLabels": { "nodepool": name } },
            "template": {
                "metadata": { "labels": { "nodepool": name } },
                "spec": {
                    "clusterName": CLUSTER,
                    "bootstrap": { "dataSecretName": "none" },
                    "infrastructureRef": {
                        "apiGroup": INFRASTRUCTURE,
                        "kind": "Metal3MachineTemplate",
                        "name": name,
                    },
                },
            },
        },
    });
    let unready = |status: &str| json!({ "type": "Ready", "status": status, "timeoutSeconds": 1 });
    let check = json!({
        "apiVersion": MACHINES,
        "kind": "MachineHealthCheck",
        "metadata": meta,
        "spec": {
            "clusterName": CLUSTER,
            "selector": { "matchLabels": { "nodepool": name } },
            "checks": {
                "nodeStartupTimeoutSeconds": 0,
                "unhealthyNodeConditions": [unready("Unknown"), unready("False")],
            },
            "remediation": {
                "templateRef": {
                    "apiVersion": format!("{INFRASTRUCTURE}/v1beta1"),
                    "kind": "Metal3RemediationTemplate",
                    "name": name,
                },
            },
        },
    });
    [template, remediation, machines, check]
}

type Object = kube::api::DynamicObject;

/// A Machine of a deployment.
fn of(deployment: &str) -> impl Fn(&Object) -> bool {
    let deployment = deployment.to_owned();
    move |machine| machine.labels().get(DEPLOYMENT) == Some(&deployment)
}

/// Waits until a Machine has a Node; returns the names of both.
async fn node_of(
    w: &World,
    what: &str,
    wanted: impl Fn(&Object) -> bool,
) -> Result<(String, String)> {
    let what = format!("{what} has a Machine with a Node");
    wait_until(&what, LONG, || async {
        let machines = w.stage.machines().list(&ListParams::default()).await?;
        let found = machines.iter().find(|machine| wanted(machine));
        let Some(machine) = found else {
            return Ok(Err("no such Machine".to_owned()));
        };
        let node = machine.data["status"]["nodeRef"]["name"].as_str();
        Ok(node
            .map(|node| (machine.name_any(), node.to_owned()))
            .ok_or_else(|| machine.data["status"].to_string()))
    })
    .await
}

/// Waits until the remediation of a Machine is gone.
async fn withdrawn(w: &World, machine: &str) -> Result<()> {
    wait_until("withdrawn", LONG, || async {
        let seen = w.stage.remediation(machine).await?;
        Ok(seen.map_or(Ok(()), |s| {
            Err(format!("{} {}: {}", s.step, s.reason, s.message))
        }))
    })
    .await
}

/// Waits until Cluster API's health check counts its only Machine as healthy.
async fn healthy(w: &World, check: &str) -> Result<()> {
    wait_until(&format!("{check} is healthy"), LONG, || async {
        let status = w.stage.checks().get(check).await?.data["status"].clone();
        let (healthy, expected) = (&status["currentHealthy"], &status["expectedMachines"]);
        Ok(if (healthy, expected) == (&json!(1), &json!(1)) {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

/// The status of a condition of a Machine in both lists.
fn both(machine: &Value, type_: &str) -> [Option<String>; 2] {
    let status = &machine["status"];
    [&status["conditions"], &status["v1beta2"]["conditions"]].map(|list| {
        let found = list.as_array()?.iter().find(|c| c["type"] == type_)?;
        Some(found["status"].as_str()?.to_owned())
    })
}

async fn recovered(w: &World) -> Result<()> {
    let (machine, host) = node_of(w, "good", of("good")).await?;
    w.stage.bind_pod(&host, false).await?;
    let sim = w.stage.host(&host)?;
    sim.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(sim.hang(), "{host} was up");
    wait_until("the taint was set and removed", LONG, || async {
        let seen = w.stage.remediation(&machine).await?;
        let seen = seen.map(|s| (s.step, s.reason, s.message));
        let taints = w.recorder.taints(&host);
        Ok(if taints.len() == 2 {
            Ok(())
        } else {
            Err(format!("{taints:?} {seen:?}"))
        })
    })
    .await?;
    wait_until("Cluster API deletes the remediation", LONG, || async {
        let seen = w.stage.remediation(&machine).await?;
        Ok(seen.map_or(Ok(()), |s| {
            Err(format!("{} {}: {}", s.step, s.reason, s.message))
        }))
    })
    .await?;
    healthy(w, "good").await?;
    w.stage.one_cycle(&host)?;
    let left = w.stage.left_on(&host).await?;
    ensure!(left.is_empty(), "{left:?}");
    w.stage.tainted_only_while_off(&w.recorder, &host).await?;

    let remediations = w.recorder.of("Metal3Remediation", &machine);
    let first = remediations.first().context("a remediation was made")?;
    ensure!(
        first.annotation(CLONED_FROM) == Some("good"),
        "by their health check"
    );
    ensure!(
        remediations.iter().all(|r| r.uid() == first.uid()),
        "one remediation"
    );
    // The verdict of Cluster API ends the remediation: it deletes the object together with the condition.
    let steps = w.recorder.steps(&machine);
    let last = steps.last().map(|(_, step)| step.as_str());
    ensure!(
        [Some("Restoring"), Some("Succeeded")].contains(&last),
        "withdrawn at its end: {steps:?}"
    );
    let now = w.stage.machines().get(&machine).await?;
    ensure!(
        now.metadata.deletion_timestamp.is_none(),
        "the Machine is kept"
    );
    let now = serde_json::to_value(&now)?;
    ensure!(
        both(&now, "OwnerRemediated") == [None, None],
        "not handed over: {now}"
    );
    Ok(())
}

async fn replaced(w: &World) -> Result<()> {
    let (machine, host) = node_of(w, "bad", of("bad")).await?;
    let sim = w.stage.host(&host)?;
    sim.never_boots(true);
    ensure!(sim.hang(), "{host} was up");
    let (next, other) = node_of(w, "the replacement", |candidate| {
        of("bad")(candidate) && candidate.name_any() != machine
    })
    .await?;
    ensure!(other != host, "{next} got the same host");
    healthy(w, "bad").await?;
    wait_until(
        "the old Machine and its remediation are gone",
        LONG,
        || async {
            let old = w.stage.machines().get_opt(&machine).await?;
            let remediation = w.stage.remediation(&machine).await?;
            Ok(if old.is_none() && remediation.is_none() {
                Ok(())
            } else {
                Err(format!("{:?} {remediation:?}", old.map(|m| m.metadata)))
            })
        },
    )
    .await?;

    let versions = w.recorder.of("Machine", &machine);
    let false_ = Some("False".to_owned());
    let handed = versions
        .iter()
        .find(|v| both(&v.object, "OwnerRemediated") == [false_.clone(), false_.clone()])
        .context("OwnerRemediated was never False in both lists")?;
    let deleted = versions
        .iter()
        .find(|v| !v.object["metadata"]["deletionTimestamp"].is_null())
        .context("it was deleted")?;
    ensure!(handed.at <= deleted.at, "deleted before it was handed over");
    let steps = w.recorder.steps(&machine);
    let escalated = steps.iter().any(|(_, step)| step == "Escalated");
    ensure!(escalated, "{steps:?}");
    let counters = sim.counters();
    ensure!(
        (counters.offs, counters.ons) == (2, 2),
        "retryLimit 1 is two cycles: {counters:?}"
    );
    ensure!(counters.received(ResetType::ForceOff) == 2, "{counters:?}");
    let bmh = w.stage.bare_metal_hosts().get(&host).await?;
    for mark in ["capi.metal3.io/unhealthy", "capm3.metal3.io/unhealthy"] {
        ensure!(bmh.annotations().contains_key(mark), "{mark} is missing");
    }
    let holds = bmh.annotations().keys().filter(|k| k.starts_with("reboot"));
    ensure!(
        holds.count() == 0,
        "a hold is left: {:?}",
        bmh.annotations()
    );
    let link = w
        .stage
        .metal3_machines()
        .list(&ListParams::default())
        .await?;
    let again = link
        .iter()
        .any(|m| m.annotations().get(LINK) == Some(&format!("{NAMESPACE}/{host}")));
    ensure!(!again, "the marked host is not used again");
    w.stage.untouched(&other)
}

/// All field managers of an object.
fn writers(versions: &[Record]) -> BTreeSet<String> {
    let fields = versions.iter().filter_map(|version| {
        let fields = &version.object["metadata"]["managedFields"];
        fields.as_array()
    });
    let names = fields
        .flatten()
        .filter_map(|field| field["manager"].as_str());
    names.map(str::to_owned).collect()
}

async fn ours_alone(w: &World) -> Result<()> {
    let (machine, host) = node_of(w, OURS, of(OURS)).await?;
    let sim = w.stage.host(&host)?;
    ensure!(sim.hang(), "{host} was up");
    wait_until("it has gone off", LONG, || async {
        let counters = sim.counters();
        Ok(if counters.offs > 0 {
            Ok(())
        } else {
            Err(format!("{counters:?}"))
        })
    })
    .await?;
    withdrawn(w, &machine).await?;
    healthy(w, OURS).await?;
    w.stage.one_cycle(&host)?;

    let remediations = w.recorder.of("Metal3Remediation", &machine);
    let by = writers(&remediations);
    ensure!(
        by == BTreeSet::from([US.to_owned()]),
        "Rackhand created the remediation: {by:?}"
    );
    let versions = w.recorder.of("MachineHealthCheck", OURS);
    let last = versions.last().context("the check was seen")?;
    let conditions = last.object["status"]["v1beta2"]["conditions"].as_array();
    let says = |type_: &str| {
        let found = conditions.and_then(|list| list.iter().find(|c| c["type"] == type_));
        found.map(|condition| condition["status"].clone())
    };
    ensure!(
        says("Paused") == Some("True".into()),
        "Cluster API's condition shows the check as paused: {last:?}"
    );
    ensure!(
        says("RemediationAllowed") == Some("True".into()),
        "{last:?}"
    );
    ensure!(versions.len() < SETTLED, "{} versions", versions.len());
    let versions = w.recorder.of("Machine", &machine).len();
    ensure!(versions < SETTLED, "{versions} versions of the Machine");
    Ok(())
}

/// The check has no template: the MachineSet deletes the Machine, and Rackhand has no part in it.
async fn owner_replaces(w: &World) -> Result<()> {
    let (machine, host) = node_of(w, OWNED, of(OWNED)).await?;
    let hosts = w.stage.bare_metal_hosts();
    w.stage.annotate(&hosts, &host, UNHEALTHY, Some("")).await?;
    ensure!(w.stage.host(&host)?.hang(), "{host} was up");
    let (next, other) = node_of(w, "the replacement", |candidate| {
        of(OWNED)(candidate) && candidate.name_any() != machine
    })
    .await?;
    ensure!(other != host, "{next} got the same host");
    healthy(w, OWNED).await?;
    wait_until("the old Machine is gone", LONG, || async {
        let old = w.stage.machines().get_opt(&machine).await?;
        Ok(old.map_or(Ok(()), |old| Err(format!("{:?}", old.metadata))))
    })
    .await?;

    let versions = w.recorder.of("Machine", &machine);
    let is_owned = |v: &Record| both(&v.object, "OwnerRemediated")[0].as_deref() == Some("False");
    ensure!(versions.iter().any(is_owned), "it was handed to its owner");
    let by = writers(&versions);
    ensure!(!by.contains(US), "Rackhand wrote the Machine: {by:?}");
    let remediations = w.recorder.of("Metal3Remediation", &machine);
    ensure!(
        remediations.is_empty(),
        "{} remediations",
        remediations.len()
    );
    ensure!(w.recorder.taints(&host).is_empty(), "{host} was tainted");
    w.stage.untouched(&host)?;
    w.stage.untouched(&other)
}

/// An update in place that ends: Cluster API has removed its annotation, and its last hook is pending. It shows that
/// as the condition `Updating`.
async fn updated_in_place(w: &World) -> Result<()> {
    let (machine, host) = node_of(w, UPDATED, of(UPDATED)).await?;
    let machines = w.stage.machines();
    w.stage
        .annotate(&machines, &machine, PENDING_HOOKS, Some(UPDATE_HOOK))
        .await?;
    ensure!(w.stage.host(&host)?.hang(), "{host} was up");
    let seen = w.stage.wait_blocked(&machine, "MachineUpdating").await?;
    ensure!(
        seen.message.contains("condition Updating"),
        "{}",
        seen.message
    );
    w.stage.untouched(&host)?;
    w.stage
        .annotate(&machines, &machine, PENDING_HOOKS, None)
        .await?;
    withdrawn(w, &machine).await?;
    healthy(w, UPDATED).await?;
    w.stage.one_cycle(&host)
}

/// Checks that no controller writes to checks and Machines after the scenarios.
async fn settled(w: &World) -> Result<()> {
    wait_until("checks and Machines no longer change", LONG, || async {
        let mut last: Option<Record> = None;
        for (kind, list) in [
            ("MachineHealthCheck", w.stage.checks()),
            ("Machine", w.stage.machines()),
        ] {
            for object in list.list(&ListParams::default()).await? {
                let newest = w.recorder.of(kind, &object.name_any()).pop();
                let newest = newest.context("it was never seen")?;
                if newest.object["metadata"]["resourceVersion"].as_str()
                    != object.metadata.resource_version.as_deref()
                {
                    return Ok(Err(format!("{kind} {} is not seen yet", newest.name)));
                }
                if last.as_ref().is_none_or(|last| last.at < newest.at) {
                    last = Some(newest);
                }
            }
        }
        let last = last.context("there are none")?;
        Ok(if last.at.elapsed() >= QUIET {
            Ok(())
        } else {
            Err(format!("{} {} was written just now", last.kind, last.name))
        })
    })
    .await
}

/// By default Rackhand does not evaluate a check of Cluster API.
fn theirs_untouched(w: &World) -> Result<()> {
    for check in ["good", "bad", OWNED, UPDATED] {
        let versions = w.recorder.of("MachineHealthCheck", check);
        let by = writers(&versions);
        ensure!(by.contains(THEM) && !by.contains(US), "{check}: {by:?}");
    }
    Ok(())
}
