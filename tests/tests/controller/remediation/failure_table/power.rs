//! Rows of the failure table about hosts and their BMCs.

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_tests::{
    rack::{Action, LogEvent, PowerState, ResetType, Rule, SimHost},
    stage::{LONG, wait_until},
};
use serde_json::json;

use super::world::{HOLD, World};

/// The BMC accepts the command and ignores it: the command is sent again.
pub async fn still_on(w: &World) -> Result<()> {
    let host = w.host("still-1")?;
    host.ignore_commands();
    w.lose("still-1", false).await?;
    // After three tries the remediation waits for a confirmation by a person for a minute.
    host.wait_for(LONG, "commanded again", |view| {
        view.counters.received(ResetType::ForceOff) >= 2
    })
    .await?;
    host.clear_faults();
    w.comes_back("still-1").await?;
    w.stage.wait_warning("still-1", "FenceUnconfirmed").await
}

pub async fn hold_removed(w: &World) -> Result<()> {
    w.lose("taken-1", true).await?;
    let seen = w.stage.wait_step("taken-1", "Draining").await?;
    let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
    let hosts = w.stage.bare_metal_hosts();
    let key = format!("{HOLD}{uid}");
    w.stage.annotate(&hosts, "taken-1", &key, None).await?;
    w.stage.wait_warning("taken-1", "HoldLost").await?;
    wait_until("off is confirmed again", LONG, || async {
        let steps = w.steps("taken-1");
        let confirmed = steps.iter().filter(|step| *step == "Draining");
        let again = confirmed.count() == 2 && steps.last().is_some_and(|s| s == "Draining");
        Ok(if again {
            Ok(())
        } else {
            Err(format!("{steps:?}"))
        })
    })
    .await?;
    let holds = w.recorder.holds("taken-1", HOLD);
    ensure!(holds.len() == 3, "came, went, came: {holds:?}");
    w.stays_off("taken-1").await?;
    w.stage.let_pod_go("taken-1").await?;
    w.comes_back("taken-1").await
}

/// The periods in which the host was off.
pub fn off_times(host: &SimHost) -> Vec<(std::time::Instant, std::time::Instant)> {
    let mut times = Vec::new();
    let mut since = None;
    for entry in host.log() {
        match entry.event {
            LogEvent::Power(PowerState::Off) => since = Some(entry.stamp.at),
            LogEvent::Power(PowerState::On) => {
                times.extend(since.take().map(|from| (from, entry.stamp.at)));
            }
            _ => {}
        }
    }
    times
}

/// The BareMetalHost of one host names the BMC of the other.
pub async fn one_bmc(w: &World) -> Result<()> {
    let address = |host: &str| -> Result<String> {
        let url = w.host(host)?.system_url()?;
        Ok(url.replacen("https://", "redfish+https://", 1))
    };
    let wrong = json!({ "bmc": { "address": address("twin-1")? } });
    w.patch_host("twin-2", wrong).await?;
    w.lose("twin-1", true).await?;
    w.hang("twin-2")?;
    w.stage.remediate("twin-1").await?;
    w.stage.wait_step("twin-1", "Draining").await?;
    w.stage.remediate("twin-2").await?;
    let seen = w.stage.wait_blocked("twin-2", "OtherRemediation").await?;
    ensure!(seen.message.contains("twin-1"), "{}", seen.message);
    w.stage.let_pod_go("twin-1").await?;
    w.succeeded("twin-1").await?;
    w.stage.wait_blocked("twin-2", "IdentityMismatch").await?;
    w.stage.one_cycle("twin-1")?;
    w.stage.untouched("twin-2")?;
    w.stage.never_tainted(&w.recorder, "twin-2").await?;
    // The address is corrected, as the message demands: it is tried again by itself.
    let right = json!({ "bmc": { "address": address("twin-2")? } });
    w.patch_host("twin-2", right).await?;
    w.succeeded("twin-2").await?;
    w.stage.one_cycle("twin-1")?;
    w.stage.one_cycle("twin-2")
}

/// Some BMCs reject a power-on for a while after a power-off.
pub async fn on_refused(w: &World) -> Result<()> {
    let host = w.host("late-1")?;
    w.lose("late-1", true).await?;
    w.stage.wait_step("late-1", "Draining").await?;
    let refuse = Action::Status {
        status: 409,
        body: None,
        headers: [].into(),
    };
    let reset = "**/Actions/ComputerSystem.Reset";
    host.inject(Rule::always(refuse).on("POST", reset).times(3));
    w.stage.let_pod_go("late-1").await?;
    w.comes_back("late-1").await?;
    let left = host.faults().first().and_then(|named| named.rule.remaining);
    ensure!(left == Some(0), "refused three times: {left:?}");
    let counters = host.counters();
    ensure!(counters.received(ResetType::On) == 1, "{counters:?}");
    Ok(())
}

/// A person switches the host off during the boot, which costs no attempt.
pub async fn off_again(w: &World) -> Result<()> {
    let host = w.host("again-1")?;
    w.lose("again-1", true).await?;
    w.stage.wait_step("again-1", "Draining").await?;
    host.never_boots(true);
    w.stage.let_pod_go("again-1").await?;
    w.stage.wait_step("again-1", "Booting").await?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.never_boots(false);
    w.stage.wait_warning("again-1", "OffAgain").await?;
    w.untainted("again-1").await?;
    w.stage.wait_back("again-1").await?;
    let steps = w.steps("again-1");
    ensure!(!steps.iter().any(|s| s == "Retrying"), "{steps:?}");
    let counters = host.counters();
    ensure!(counters.received(ResetType::On) == 2, "{counters:?}");
    w.stage.tainted_only_while_off(&w.recorder, "again-1").await
}

/// The clock of a kubelet does not matter, only the renewal of its Lease.
pub async fn clocks_ahead_and_behind(w: &World) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(w.stage.client.clone(), "kube-node-lease");
    let skewed = async |host: &str, skew: SignedDuration| {
        w.lose(host, false).await?;
        let time = Timestamp::now().checked_add(skew)?;
        let body = json!({ "spec": { "renewTime": format!("{time:.6}") } });
        leases
            .patch(host, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        w.comes_back(host).await
    };
    tokio::try_join!(
        skewed("ahead-1", SignedDuration::from_secs(20)),
        skewed("behind-1", SignedDuration::from_hours(-3)),
    )
    .map(drop)
}
