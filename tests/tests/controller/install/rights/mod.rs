//! The rights that the manifests grant to the controller: all requests are allowed, and all rights are used.
//!
//! Scenarios of other tests run with exactly the shipped rights, on three control planes with an audit log:
//! one with Machines, one with Nodes only, one with OpenShift's kinds. The union of the logs is compared with
//! the manifests.

pub mod metrics;

use std::path::Path;

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, PostParams};
use rackhand_tests::{
    cluster::{Audit, Right, apply, apply_yaml, shipped_rights},
    process::free_port,
    stage::{
        CONTROLLER_ACCOUNT, HostLink, LONG, NAMESPACE, RackSpec, Recorder, Scenarios, Stage,
        StageConfig, open_kind, wait_until,
    },
};
use serde_json::json;

use crate::{
    checks::{node_health_check, openshift},
    hosts::bmc_watch,
    planned_work::triggers,
    remediation::{eviction, power_remediation},
};

/// All folders that grant rights.
const FOLDERS: [&str; 6] = [
    "base",
    "nodes",
    "node-health-checks",
    "openshift",
    "workload",
    "workload-delete-node",
];

/// Kinds that are read live only if an object is missing from the index (F12), which does not occur here.
const READ_IF_ABSENT: [(&str, &str); 10] = [
    // Only where a pod with a volume stays on the Node.
    ("", "persistentvolumes"),
    ("cluster.x-k8s.io", "clusters"),
    ("cluster.x-k8s.io", "machines"),
    ("cluster.x-k8s.io", "machinehealthchecks"),
    ("infrastructure.cluster.x-k8s.io", "metal3machines"),
    ("machine.openshift.io", "machinehealthchecks"),
    ("metal3.io", "baremetalhosts"),
    // Only if this process has neither written the object nor seen that there was none.
    ("rackhand.dev", "hosthistories"),
    // Only if the object went without its finalizer, and its marks stay.
    ("rackhand.dev", "hostmaintenances"),
    ("remediation.medik8s.io", "nodehealthchecks"),
];

fn audited(racks: Vec<RackSpec>, arguments: &[&str]) -> StageConfig {
    StageConfig {
        audited: true,
        ..StageConfig::steady(racks, arguments)
    }
}

fn rack(name: &str, hosts: &[&str], link: HostLink) -> RackSpec {
    RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, link).in_pool("by-hand")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_rbac_rights_are_sufficient_and_minimal() {
    let dir = tempfile::tempdir().unwrap();
    let mut audit = Audit::default();
    audit.extend(with_machines(&dir.path().join("machines")).await);
    audit.extend(with_nodes(&dir.path().join("nodes")).await);
    audit.extend(with_openshift(&dir.path().join("openshift")).await);

    let by_hand = [("rackhand-secrets", CONTROLLER_ACCOUNT)];
    let granted = shipped_rights(&FOLDERS, &by_hand).unwrap();
    let if_absent = |right: &Right| {
        let kind = (right.group.as_str(), right.resource.as_str());
        right.verb == "get" && READ_IF_ABSENT.contains(&kind)
    };
    // A verb of the admission policy of `persons`, which no request has, and what `preflight` reads about that policy.
    let of_policy =
        |right: &Right| right.verb == "attribute" || right.group == "admissionregistration.k8s.io";
    let is_used = |right: &Right| {
        if_absent(right) || of_policy(right) || audit.done.iter().any(|done| right.covers(done))
    };
    let unused: Vec<String> = granted
        .iter()
        .filter(|right| !is_used(right))
        .map(ToString::to_string)
        .collect();
    // Aggregated roles are filled a moment after the start.
    let refused: Vec<&String> = audit
        .refused
        .iter()
        .filter(|(right, _)| !audit.done.contains(right))
        .map(|(_, why)| why)
        .collect();
    assert!(
        unused.is_empty() && refused.is_empty(),
        "granted and never used:\n{}\nrefused:\n{refused:#?}",
        unused.join("\n")
    );
}

async fn with_machines(dir: &Path) -> Audit {
    let racks = vec![
        RackSpec::new("mhc", 1, HostLink::Inventory).in_pool("power"),
        rack(
            "known",
            &["esc-1", "old-1", "bmc-1", "label-1", "leave-1", "plan-1"],
            HostLink::Inventory,
        ),
        rack("managed", &["retire-1", "ocp-1"], HostLink::Managed),
        RackSpec::new("metal", 1, HostLink::Managed),
    ];
    let arguments = [
        "--power-timeout=20s",
        "--cooperative-grace=1s",
        "--bmc-check-interval=1s",
    ];
    let stage = Stage::start(dir, audited(racks, &arguments)).await.unwrap();
    let port = free_port().unwrap();
    let outcome = async {
        for folder in ["nodes", "workload-delete-node"] {
            stage.install(folder).await?;
        }
        stage.apply_rack_agents().await?;
        let address = format!("--metrics-address=127.0.0.1:{port}");
        stage
            .start_controller_as(
                "controller-0",
                vec![address, "--remediation-triggers".into()],
            )
            .await
    };
    if let Err(error) = outcome.await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::start(&stage.client);
    let world = power_remediation::world::World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    {
        use power_remediation::{exhausted, policies, requesters, strategies};
        all.add("by_check", requesters::by_check(w));
        all.add("openshift", requesters::openshift(w));
        all.add("escalate", exhausted::escalate(w));
        all.add("retire", exhausted::retire(w));
        all.add("delete_node", strategies::delete_node(w));
        all.add("eviction", eviction::leaves(w));
        all.add("power_policy", policies::mistake_is_reported(w));
    }
    all.add(
        "unavailable_bmc_is_reported",
        bmc_watch::is_reported(&w.stage, "bmc-1", "host check bmc-1"),
    );
    all.add("trigger", triggers::trigger_deleted(&w.stage, "label-1"));
    all.add("planned_work", planned_work(&w.stage));
    all.add("metal3", metal3(w));
    all.add(
        "metrics_require_authorised_token",
        metrics::secure(&w.stage, port),
    );
    all.add(
        "leader_explanations_require_authorised_token",
        metrics::explained(&w.stage, port),
    );
    if let Err(error) = all.run().await {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
    audit(&world.stage)
}

/// What the controller did. It is stopped first, because an event is logged after its request was answered.
fn audit(stage: &Stage) -> Audit {
    stage.stop_controller("controller-0").unwrap();
    stage.plane().audit().unwrap()
}

/// A host is parked by a HostMaintenance, and comes back.
async fn planned_work(stage: &Stage) -> Result<()> {
    let name = "plan-1";
    let objects = stage.api("rackhand.dev", "v1alpha1", "HostMaintenance");
    let object = serde_json::from_value(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "machine": name, "reason": "a fan is changed", "softOffSeconds": 0 },
    }))?;
    objects.create(&PostParams::default(), &object).await?;
    wait_until("plan-1: parked", LONG, || async {
        let status = objects.get(name).await?.data["status"].clone();
        Ok(match status["phase"] == "Parked" {
            true => Ok(()),
            false => Err(status.to_string()),
        })
    })
    .await?;
    objects.delete(name, &DeleteParams::default()).await?;
    wait_until("plan-1: gone", LONG, || async {
        let left = objects.get_opt(name).await?;
        Ok(left.map_or(Ok(()), |object| Err(object.data["status"].to_string())))
    })
    .await?;
    stage.one_cycle(name)
}

/// A host recovers by a Metal3Remediation of a MachineHealthCheck, and its pod is deleted at once.
async fn metal3(w: &power_remediation::world::World) -> Result<()> {
    let (stage, host) = (&w.stage, "metal-1");
    stage.delete_pods_at_once().await?;
    stage.bind_pod(host, false).await?;
    stage
        .host(host)?
        .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    stage.apply_health_check().await?;
    ensure!(stage.host(host)?.hang(), "{host} was not up");
    let request = "cluster.x-k8s.io/remediate-machine";
    let machines = stage.machines();
    stage.annotate(&machines, host, request, Some("")).await?;
    w.recorder.wait_created(host).await?;
    wait_until("the remediation is finished", LONG, || async {
        let seen = stage.remediation(host).await?;
        Ok(seen.map_or(Ok(()), |seen| Err(format!("{seen:?}"))))
    })
    .await?;
    stage.one_cycle(host)
}

async fn with_nodes(dir: &Path) -> Audit {
    use node_health_check::{
        life, steps,
        world::{World, begin, renew},
    };
    let rack = RackSpec::new("bare", 1, HostLink::Inventory);
    let arguments = ["--power-timeout=20s", "--bmc-check-interval=1s"];
    let config = StageConfig {
        plain: true,
        ..audited(vec![rack], &arguments)
    };
    let stage = Stage::start(dir, config).await.unwrap();
    let renewing = tokio::spawn(renew(stage.client.clone()));
    for kind in ["ClusterVersion", "Infrastructure"] {
        let crd = open_kind("config.openshift.io", "Cluster", kind);
        apply_yaml(&stage.client, &crd).await.unwrap();
    }
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World::new(stage);
    let w = &world;
    let mut all = Scenarios::new();
    all.add("printed", life::printed(w));
    all.add("escalation", steps::escalation(w));
    all.add("power", steps::power(w));
    let outcome = match all.run().await {
        Ok(()) => bmc_watch::is_reported(&w.stage, "bare-1", "host check bare-1").await,
        failed => failed,
    };
    renewing.abort();
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
    audit(&world.stage)
}

/// A control-plane Machine is switched off only after the etcd guard of its cluster was read.
async fn guard(w: &openshift::world::World) -> Result<()> {
    use openshift::world::{machine_of, status_of};
    let host = "master-1";
    let metadata = json!({
        "labels": { "machine.openshift.io/cluster-api-machine-role": "master" },
        "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") },
    });
    let name = machine_of(host);
    let machine = w.machine(&name, "none", metadata, status_of(host)).await?;
    let request = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "ownerReferences": [{
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "name": name, "uid": machine.metadata.uid,
            }],
        },
        "spec": {},
    });
    apply(&w.stage.client, request).await?;
    wait_until("the etcd guard is read", LONG, || async {
        let audit = w.stage.plane().audit()?;
        let asked = |right: &Right| right.resource == "poddisruptionbudgets";
        Ok(if audit.done.iter().any(asked) {
            Ok(())
        } else {
            Err("not yet".to_owned())
        })
    })
    .await
}

async fn with_openshift(dir: &Path) -> Audit {
    use openshift::{
        acts, marks,
        world::{World, machine_of},
    };
    let managed = ["external-1", "external-2", "master-1"];
    let racks = vec![rack("managed", &managed, HostLink::Managed).in_pool("none")];
    let arguments = [
        "--power-timeout=20s",
        "--cooperative-grace=1s",
        "--health-checks=all",
    ];
    let stage = Stage::start(dir, audited(racks, &arguments)).await.unwrap();
    let outcome = async {
        stage.install_openshift().await?;
        for host in managed {
            stage
                .set_openshift_consumer(host, &machine_of(host))
                .await?;
        }
        stage.apply_rack_agents().await?;
        stage.start_controller("controller-0").await
    };
    if let Err(error) = outcome.await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let recorder = Recorder::of_openshift(&stage.client);
    let world = World { stage, recorder };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("owner", acts::owner(w));
    all.add("external", marks::external(w));
    all.add("etcd_guard_is_read_before_power_off", guard(w));
    let outcome = match all.run().await {
        Ok(()) => marks::left_to_openshift(w).await,
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
    audit(&world.stage)
}
