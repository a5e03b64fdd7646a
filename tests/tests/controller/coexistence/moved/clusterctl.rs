//! `clusterctl move` itself, by its own library (`hack/envtest/capi/move`), between two real API servers with a
//! controller each, and agents that serve both.

use anyhow::{Result, ensure};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    bmo::{Access, Metal3, Settings},
    stage::{BMC_USER, LONG, NAMESPACE, Seen, Stage, wait_until},
};
use serde_json::{Value, json};

use super::{
    AGE, BLOCK, HOLD, annotations, draining, start,
    target::{
        self, CLUSTER, HOST, MACHINE, METAL3_MACHINE, METAL3_REMEDIATION, REMEDIATION, SECRET,
        TEMPLATE, Target, names, objects, wait_blocked, wait_ended,
    },
};

const NAME: &str = rackhand_tests::stage::CLUSTER;
const HOSTS: [&str; 3] = ["m-1", "m-2", "m-3"];
const DELETED: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Keeps one remediation from beginning.
const OWN_PAUSE: &str = "rackhand.dev/paused";
/// A PowerRemediation of a Node, which belongs to no Machine.
const OF_NODE: &str = "of-node";

/// What is moved: every kind, with the names of its objects.
const MOVED: [([&str; 3], &[&str]); 8] = [
    (CLUSTER, &[NAME]),
    (MACHINE, &HOSTS),
    (METAL3_MACHINE, &HOSTS),
    (HOST, &HOSTS),
    (METAL3_REMEDIATION, &["m-1", "m-2"]),
    (REMEDIATION, &["m-3"]),
    (TEMPLATE, &["reboot"]),
    (
        SECRET,
        &["demo-kubeconfig", "m-1-bmc", "m-2-bmc", "m-3-bmc"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn f16_real_clusterctl_waits_for_a_held_host_and_moves_the_rest_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, owner) = start(dir.path(), &HOSTS, AGE).await.unwrap();
    if let Err(error) = moves(&stage, owner).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn moves(stage: &Stage, owner: Metal3) -> Result<()> {
    let target = Target::start(stage).await?;
    target::owned_by_cluster(stage, NAME).await?;
    waiting_remediations(stage).await?;
    draining(stage, "m-1").await?;

    let mut moving = target.start_move(stage, "move")?;
    wait_blocked(&mut moving).await?;
    let cluster = objects(&stage.client, CLUSTER).get(NAME).await?;
    ensure!(cluster.data["spec"]["paused"] == true, "{:?}", cluster.data);
    ensure!(
        names(&target.client, CLUSTER).await?.is_empty(),
        "nothing is created yet"
    );
    // Only the pause of the Cluster keeps these two from beginning now.
    for (kind, name) in [(METAL3_REMEDIATION, "m-2"), (REMEDIATION, "m-3")] {
        let remediations = objects(&stage.client, kind);
        stage.annotate(&remediations, name, OWN_PAUSE, None).await?;
    }
    // clusterctl has listed the objects already.
    of_machine(stage, REMEDIATION, "late", "m-2", json!({})).await?;
    let statuses = statuses(&stage.client).await?;
    stage.let_pod_go("m-1").await?;
    stage.wait_step("m-1", "Succeeded").await?;
    let (status, log) = wait_ended(moving).await?;
    ensure!(status.success(), "{status}\n{log}");

    everything_is_there(&target.client).await?;
    nothing_is_left(stage).await?;
    untouched(stage)?;
    goes_on(stage, &target, owner, statuses).await
}

/// Creates remediations that do not begin before the move, because they are paused, and a template.
async fn waiting_remediations(stage: &Stage) -> Result<()> {
    let paused = json!({ OWN_PAUSE: "" });
    for (kind, host) in [(METAL3_REMEDIATION, "m-2"), (REMEDIATION, "m-3")] {
        ensure!(stage.host(host)?.hang(), "{host} was up");
        of_machine(stage, kind, host, host, paused.clone()).await?;
    }
    stage.wait_blocked("m-2", "Paused").await?;
    let remediations = objects(&stage.client, REMEDIATION);
    wait_status(&remediations, "m-3", "reason", "Paused").await?;

    let strategy = json!({ "type": "Reboot" });
    let template = json!({ "spec": { "template": { "spec": { "strategy": strategy } } } });
    create(stage, TEMPLATE, "reboot", template).await?;
    let annotations = json!({ "remediation.medik8s.io/node-name": "m-3", OWN_PAUSE: "" });
    let of_node = json!({
        "metadata": { "annotations": annotations }, "spec": { "strategy": strategy },
    });
    create(stage, REMEDIATION, OF_NODE, of_node).await
}

/// Creates a remediation of a Machine.
async fn of_machine(
    stage: &Stage,
    kind: [&str; 3],
    name: &str,
    machine: &str,
    annotations: Value,
) -> Result<()> {
    let uid = stage.machines().get(machine).await?.uid();
    let owner = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": machine, "uid": uid,
    });
    let labels = json!({ "cluster.x-k8s.io/cluster-name": NAME });
    let object = json!({
        "metadata": {
            "labels": labels, "annotations": annotations, "ownerReferences": [owner],
        },
        "spec": { "strategy": { "type": "Reboot" } },
    });
    create(stage, kind, name, object).await
}

async fn create(stage: &Stage, kind: [&str; 3], name: &str, mut object: Value) -> Result<()> {
    let [group, version, what] = kind;
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(what);
    object["metadata"]["name"] = json!(name);
    object["metadata"]["namespace"] = json!(NAMESPACE);
    let object = serde_json::from_value(object)?;
    let objects = objects(&stage.client, kind);
    objects.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Waits for a field of the status of a PowerRemediation.
async fn wait_status(
    remediations: &Api<DynamicObject>,
    name: &str,
    field: &str,
    wanted: &str,
) -> Result<()> {
    wait_until(&format!("{name}: {wanted}"), LONG, || async {
        let status = remediations.get(name).await?.data["status"].take();
        Ok(if status[field] == wanted {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await
}

async fn everything_is_there(client: &Client) -> Result<()> {
    for (kind, wanted) in MOVED {
        let found = names(client, kind).await?;
        ensure!(found == wanted, "{kind:?} in the target: {found:?}");
        for object in objects(client, kind).list(&ListParams::default()).await? {
            let keys = object.annotations().keys();
            let left: Vec<&String> = keys
                .filter(|key| *key == BLOCK || *key == DELETED || key.starts_with(HOLD))
                .collect();
            ensure!(left.is_empty(), "{} has {left:?}", object.name_any());
        }
    }
    Ok(())
}

/// Of the originals nothing is left at once; what was created too late to be moved goes with its Machine.
async fn nothing_is_left(stage: &Stage) -> Result<()> {
    for (kind, _) in MOVED {
        let found = names(&stage.client, kind).await?;
        let left = found
            .iter()
            .any(|name| kind != REMEDIATION || name == "m-3");
        ensure!(!left, "{kind:?} in the source: {found:?}");
    }
    wait_until("only the remediation of a Node stays", LONG, || async {
        let found = names(&stage.client, REMEDIATION).await?;
        Ok(if found == [OF_NODE] {
            Ok(())
        } else {
            Err(found.join(", "))
        })
    })
    .await
}

fn untouched(stage: &Stage) -> Result<()> {
    stage.one_cycle("m-1")?;
    stage.untouched("m-2")?;
    stage.untouched("m-3")
}

/// The statuses of Cluster, Machines and hosts, which no move takes along.
async fn statuses(client: &Client) -> Result<Vec<([&'static str; 3], String, Value)>> {
    let mut all = Vec::new();
    for kind in [CLUSTER, MACHINE, HOST] {
        for mut object in objects(client, kind).list(&ListParams::default()).await? {
            let status = object.data["status"].take();
            all.push((kind, object.name_any(), status));
        }
    }
    Ok(all)
}

/// In the target, what had not begun begins there once the other controllers have written the statuses again, and
/// what had ended stays so.
async fn goes_on(
    stage: &Stage,
    target: &Target,
    owner: Metal3,
    statuses: Vec<([&'static str; 3], String, Value)>,
) -> Result<()> {
    drop(owner);
    for (kind, name, status) in statuses {
        let patch = Patch::Merge(json!({ "status": status }));
        let objects = objects(&target.client, kind);
        objects
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    let ca = std::fs::read(stage.pki().ca_file())?;
    let access = Access {
        user: BMC_USER,
        password: &stage.config().bmc_password,
        ca: &ca,
    };
    let sims: Result<Vec<_>> = HOSTS.iter().map(|host| stage.host(host)).collect();
    let hosts = objects(&target.client, HOST);
    let _owner = Metal3::start(hosts.clone(), &sims?, &access, Settings::default())?;

    let remediations = objects(&target.client, METAL3_REMEDIATION);
    wait_until("m-2: Succeeded in the target", LONG, || async {
        let seen = Seen::of(&remediations.get("m-2").await?)?;
        Ok(if seen.step == "Succeeded" {
            Ok(())
        } else {
            Err(format!("{}, {}: {}", seen.step, seen.reason, seen.message))
        })
    })
    .await?;
    let powers = objects(&target.client, REMEDIATION);
    wait_status(&powers, "m-3", "step", "Succeeded").await?;
    for host in HOSTS {
        stage.one_cycle(host)?;
        let keys = annotations(&hosts, host).await?;
        let left = keys
            .iter()
            .find(|key| *key == BLOCK || key.starts_with(HOLD));
        ensure!(left.is_none(), "{host}: {keys:?}");
        ensure!(!stage.tainted(host).await?, "{host} is tainted");
    }
    Ok(())
}
