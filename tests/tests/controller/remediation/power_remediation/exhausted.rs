//! Actions after the last attempt.

use anyhow::{Result, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    rack::PowerState,
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::world::{HOLD, World, condition, step};

pub async fn failed(w: &World, host: &str) -> Result<Value> {
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
    wait_until(&format!("{host}: OwnerRemediated is set"), LONG, || async {
        let told = w.owner_remediated(host).await?;
        Ok(if told == (json!("False"), json!("False")) {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        })
    })
    .await
}

pub async fn escalate(w: &World) -> Result<()> {
    w.lose_for_good("esc-1", "Escalate").await?;
    let object = failed(w, "esc-1").await?;
    ensure!(step(&object) == "Escalated", "{object}");
    owner_told(w, "esc-1").await?;
    ensure!(w.stage.left_on("esc-1").await?.is_empty(), "cleaned up");
    Ok(())
}

pub async fn retire(w: &World) -> Result<()> {
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

pub async fn notify(w: &World) -> Result<()> {
    w.lose_for_good("told-1", "Notify").await?;
    let object = failed(w, "told-1").await?;
    ensure!(object["status"]["reason"] == "ExhaustedTold", "{object}");
    let over = |o: &Value| o["metadata"]["finalizers"].is_null();
    w.wait("told-1", "the finalizer is removed", over).await?;
    let told = w.owner_remediated("told-1").await?;
    ensure!(
        told == (Value::Null, Value::Null),
        "the owner was not notified: {told:?}"
    );
    Ok(())
}

pub async fn stay_off(w: &World) -> Result<()> {
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
