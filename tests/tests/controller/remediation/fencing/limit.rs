//! Limits of health checks (F10).

use anyhow::{Result, ensure};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::{LogEvent, PowerState, ResetType},
    stage::{LONG, wait_until},
};

use super::world::World;

/// Waits until a check reports that its limit forbids remediation, with this many healthy Machines.
async fn closed(w: &World, check: &str, healthy: u64) -> Result<()> {
    wait_until(&format!("{check} is closed"), LONG, || async {
        let object = w.stage.checks().get(check).await?;
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().any(|c| {
            c["type"] == "RemediationAllowed"
                && c["status"] == "False"
                && c["reason"] == "TooManyUnhealthy"
                && c["message"].as_str().is_some_and(|m| !m.is_empty())
        });
        let now = status["currentHealthy"].as_u64().unwrap_or(0);
        Ok(if said && now == healthy {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await?;
    w.stage.wait_warning(check, "RemediationRestricted").await
}

async fn unknown(w: &World, host: &str) -> Result<()> {
    wait_until(&format!("{host} is Unknown"), LONG, || async {
        let ready = rackhand_tests::stage::ready(&w.stage.node(host).await?);
        Ok(if ready == "Unknown" {
            Ok(())
        } else {
            Err(ready)
        })
    })
    .await
}

fn never_requested(w: &World, machine: &str) -> Result<()> {
    let seen = w.recorder.of("Metal3Remediation", machine);
    ensure!(
        seen.is_empty(),
        "{machine}: a remediation was made: {:?}",
        seen.first()
    );
    Ok(())
}

pub async fn limit_zero(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("zero", "zero", "0");
    apply_yaml(&w.stage.client, &check).await?;
    ensure!(w.host("zero-1")?.hang(), "up");
    unknown(w, "zero-1").await?;
    closed(w, "zero", 0).await?;
    // Meanwhile another host fails and recovers.
    w.others_go_on().await?;
    never_requested(w, "zero-1")?;
    w.stage.untouched("zero-1")
}

pub async fn limit_forty(w: &World) -> Result<()> {
    for host in ["forty-1", "forty-2"] {
        ensure!(w.host(host)?.hang(), "{host} was up");
    }
    for host in ["forty-1", "forty-2"] {
        unknown(w, host).await?;
    }
    let check = w.stage.health_check_of("forty", "forty", "40%");
    apply_yaml(&w.stage.client, &check).await?;
    closed(w, "forty", 2).await?;
    w.others_go_on().await?;
    for host in ["forty-1", "forty-2"] {
        never_requested(w, host)?;
        w.stage.untouched(host)?;
    }
    // A person restores one host, and one of four is within the limit.
    let host = w.host("forty-1")?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.switch(ResetType::On, "a person");
    w.recorder.wait_passed("forty-2", "PoweringOff").await?;
    w.comes_back("forty-2").await?;
    never_requested(w, "forty-1")?;
    let others = host
        .log()
        .into_iter()
        .find(|entry| matches!(&entry.event, LogEvent::Command { by, .. } if by != "a person"));
    ensure!(others.is_none(), "forty-1 was commanded: {others:?}");
    Ok(())
}
