//! What a maintenance has set is taken back on every way to its end (F9).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::apply,
    rack::{LedState, PowerState, ResetType},
    stage::{LONG, NODE_LEASES, is_ready, wait_until},
};
use serde_json::{Value, json};

use super::world::{MARK, SKIP, World};

/// A person deletes the remediation: the maintenance ends, and is not begun again.
pub async fn early(w: &World) -> Result<()> {
    // Somebody has set the annotation before, so it stays.
    let machines = w.stage.machines();
    w.stage
        .annotate(&machines, "early-1", SKIP, Some("mine"))
        .await?;
    w.start(
        "early-1",
        json!({ "machine": "early-1", "locatorLED": true }),
    )
    .await?;
    w.wait_phase("early-1", "Parked").await?;
    let made = w
        .remediation_of("early-1")
        .await?
        .context("no remediation")?;
    w.remediations()
        .delete(&made.name_any(), &DeleteParams::default())
        .await?;
    let object = w.wait_phase("early-1", "Ended").await?;
    ensure!(
        object["status"]["reason"] == "RemediationDeleted",
        "{}",
        object["status"]
    );
    let machine = machines.get("early-1").await?;
    ensure!(
        machine.annotations().get(SKIP).map(String::as_str) == Some("mine"),
        "{:?}",
        machine.annotations()
    );
    w.stage.annotate(&machines, "early-1", SKIP, None).await?;
    w.wait_back("early-1").await?;
    w.stage.one_cycle("early-1")?;
    w.end("early-1").await?;
    w.wait_gone("early-1").await
}

/// Somebody deletes the Machine of a host that is worked on: the host stays off until the maintenance is ended.
pub async fn machine_deleted(w: &World) -> Result<()> {
    let host = w.stage.host("orphan-1")?;
    w.start("orphan-1", json!({ "machine": "orphan-1" }))
        .await?;
    w.wait_phase("orphan-1", "Parked").await?;
    let machines = w.stage.machines();
    machines
        .delete("orphan-1", &DeleteParams::default())
        .await?;
    wait_until("orphan-1: the Machine is gone", LONG, || async {
        let found = machines.get_opt("orphan-1").await?;
        Ok(found.map_or(Ok(()), |machine| Err(format!("{:?}", machine.metadata))))
    })
    .await?;
    let said = |object: &Value| {
        let message = object["status"]["message"].as_str().unwrap_or_default();
        message.contains("orphan-1 is gone") && message.contains("switched on")
    };
    w.wait("orphan-1", "says that the Machine is gone", said)
        .await?;
    // The garbage collector takes the reference to the Machine away, and nothing else.
    wait_until("orphan-1: its owners", LONG, || async {
        let made = w.remediation_of("orphan-1").await?;
        let made = made.context("the remediation is gone")?;
        let owners: Vec<&str> = made.owner_references().iter().map(|o| &*o.kind).collect();
        Ok(match owners == ["HostMaintenance"] {
            true => Ok(()),
            false => Err(format!("{owners:?}")),
        })
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    ensure!(host.real_power() == PowerState::Off, "it is off");
    let object = w.wait_phase("orphan-1", "Parked").await?;
    ensure!(said(&object), "{}", object["status"]);
    ensure!(w.stage.tainted("orphan-1").await?, "its Node is kept empty");
    w.end("orphan-1").await?;
    w.wait_gone("orphan-1").await?;
    wait_until("orphan-1: back", LONG, || async {
        let node = w.stage.node("orphan-1").await?;
        let spec = node.spec.clone().unwrap_or_default();
        let is_clean = spec.unschedulable != Some(true) && spec.taints.is_none();
        let is_on = host.real_power() == PowerState::On;
        Ok(match is_on && is_clean && is_ready(&node) {
            true => Ok(()),
            false => Err(format!("on: {is_on}, {spec:?}")),
        })
    })
    .await?;
    let lease = w.stage.work_lease("orphan-1").await?;
    ensure!(lease.is_none(), "{lease:?}");
    w.stage.one_cycle("orphan-1")
}

/// The object is deleted without its finalizer.
pub async fn gone(w: &World) -> Result<()> {
    w.start("gone-1", json!({ "node": "gone-1", "locatorLED": true }))
        .await?;
    w.wait_phase("gone-1", "Parked").await?;
    wait_until("gone-1: the LED is lit", LONG, || async {
        Ok(w.led("gone-1")?.then_some(()).ok_or("dark".to_owned()))
    })
    .await?;
    ensure!(
        w.stage.work_lease("gone-1").await?.is_some(),
        "the Lease is held"
    );
    w.end("gone-1").await?;
    let bare = json!({ "metadata": { "finalizers": Value::Null } });
    let params = PatchParams::default();
    // The controller may have ended it just now.
    w.maintenances()
        .patch("gone-1", &params, &Patch::Merge(&bare))
        .await
        .ok();
    w.wait_gone("gone-1").await?;
    w.wait_back("gone-1").await
}

/// Neither the object nor its remediation is there any more once the controller looks, and of the mark on the Machine
/// only the UID is left: that leads to the Lease, whose holder has the name, and to the LED.
pub async fn unseen(w: &World) -> Result<()> {
    let (host, uid) = ("unseen-1", "8d1f4a3e-0000-4000-8000-000000000001");
    w.stage
        .host(host)?
        .with_settings(|_, settings| settings.led = LedState::Lit);
    let now = MicroTime(Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": format!("node-{host}"), "namespace": NODE_LEASES },
        "spec": {
            "holderIdentity": format!("HostMaintenance-restored-{uid}"),
            "leaseDurationSeconds": 300, "acquireTime": now, "renewTime": now,
        },
    });
    apply(&w.stage.client, lease).await?;
    let machines = w.stage.machines();
    w.stage.annotate(&machines, host, MARK, Some(uid)).await?;
    w.wait_back(host).await?;
    w.stage.untouched(host)
}

/// Removes the finalizer of the remediation of a maintenance, until that is gone.
async fn strip(w: &World, host: &str) -> Result<()> {
    let made = w.remediation_of(host).await?;
    let made = made.context("no remediation")?.name_any();
    let name = made.as_str();
    wait_until(
        &format!("{host}: the remediation is gone"),
        LONG,
        || async {
            // The controller may put it on again before the object is gone.
            let bare = json!({ "metadata": { "finalizers": Value::Null } });
            w.remediations()
                .delete(name, &DeleteParams::default())
                .await
                .ok();
            w.remediations()
                .patch(name, &PatchParams::default(), &Patch::Merge(&bare))
                .await
                .ok();
            let found = w.remediations().get_opt(name).await?;
            Ok(found.map_or(Ok(()), |_| Err("it is there".to_owned())))
        },
    )
    .await
}

/// The same while the pods leave: the maintenance is not over before its cordon is gone.
pub async fn stripped_early(w: &World) -> Result<()> {
    let host = "cordon-1";
    w.stage.run_pod(host).await?;
    let budgets = w.stage.forbid_eviction(host).await?;
    w.start(host, json!({ "machine": host })).await?;
    w.wait_phase(host, "Evicting").await?;
    wait_until("cordon-1: cordoned", LONG, || async {
        let is_cordoned = w.stage.is_cordoned(host).await?;
        Ok(is_cordoned.then_some(()).ok_or("not cordoned".to_owned()))
    })
    .await?;
    strip(w, host).await?;
    // The search for cordons that were left may be faster than the maintenance.
    let told = |object: &Value| {
        let status = &object["status"];
        status["reason"] == "CordonLeft" || status["phase"] == "Ended"
    };
    let object = w
        .wait(host, "says what is left, unless nothing is", told)
        .await?;
    let phase = &object["status"]["phase"];
    ensure!(
        phase == "Ending" || phase == "Ended",
        "{}",
        object["status"]
    );
    w.wait_phase(host, "Ended").await?;
    ensure!(!w.stage.is_cordoned(host).await?, "it is over and cordoned");
    w.stage.untouched(host)?;
    budgets
        .delete("keep-cordon-1", &DeleteParams::default())
        .await?;
    w.end(host).await?;
    w.wait_gone(host).await
}

/// A person removes the finalizer of the remediation of a parked host, which loses what it would have done.
pub async fn stripped(w: &World) -> Result<()> {
    let host = w.stage.host("strip-1")?;
    w.start("strip-1", json!({ "machine": "strip-1" })).await?;
    w.wait_phase("strip-1", "Parked").await?;
    strip(w, "strip-1").await?;
    let told = |object: &Value| object["status"]["reason"] == "TaintLeft";
    let object = w.wait("strip-1", "says what is left", told).await?;
    let status = &object["status"];
    ensure!(status["phase"] == "Ending", "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    ensure!(message.contains("Node strip-1"), "{message}");
    // Health checks act on the Machine again.
    let machine = w.stage.machines().get("strip-1").await?;
    ensure!(!machine.annotations().contains_key(SKIP), "it is marked");
    host.switch(ResetType::On, "somebody");
    wait_until("strip-1: Ready", LONG, || async {
        let ready = is_ready(&w.stage.node("strip-1").await?);
        Ok(ready.then_some(()).ok_or("not Ready".to_owned()))
    })
    .await?;
    let taint = "node.kubernetes.io/out-of-service-";
    w.stage
        .kubectl(&["taint", "node", "strip-1", taint])
        .await?;
    w.wait_phase("strip-1", "Ended").await?;
    w.wait_back("strip-1").await?;
    w.end("strip-1").await?;
    w.wait_gone("strip-1").await
}

/// The controller is killed in each phase; another goes on.
pub async fn crash(w: &World) -> Result<()> {
    w.start(
        "crash-1",
        json!({ "machine": "crash-1", "locatorLED": true }),
    )
    .await?;
    w.stage.kill_controller("controller-0")?;
    w.stage.start_controller("controller-1").await?;
    let phases = ["PoweringOff", "Parked"];
    let begun = |object: &Value| {
        phases
            .iter()
            .any(|phase| object["status"]["phase"] == *phase)
    };
    w.wait("crash-1", "has begun", begun).await?;
    w.stage.kill_controller("controller-1")?;
    w.stage.start_controller("controller-2").await?;
    w.wait_phase("crash-1", "Parked").await?;
    w.end("crash-1").await?;
    w.stage.kill_controller("controller-2")?;
    w.stage.start_controller("controller-3").await?;
    w.wait_gone("crash-1").await?;
    w.wait_back("crash-1").await?;
    w.stage.one_cycle("crash-1")
}
