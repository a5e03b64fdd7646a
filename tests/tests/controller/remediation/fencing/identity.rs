//! Identity of the host (F5).

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_tests::{rack::PowerState, stage::LONG};
use serde_json::json;

use super::world::{REMEDIATE, World};

/// A wrong BMC address must be corrected by a person. The remediation waits for another entry; once it is
/// withdrawn, the next one works.
pub async fn foreign(w: &World) -> Result<()> {
    let host = w.host("bmc-4")?;
    host.foreign_uuid();
    let pod = w.lose("bmc-4", false).await?;
    w.stage.wait_blocked("bmc-4", "IdentityMismatch").await?;
    w.stage
        .wait_remediation("bmc-4", "the wait for another entry", |seen| {
            seen.step == "Pending" && seen.phase == "Running"
        })
        .await?;
    w.workload_untouched("bmc-4", &pod).await?;
    w.stage.untouched("bmc-4")?;
    host.clear_faults();
    w.stage.withdraw("bmc-4").await?;
    w.comes_back("bmc-4").await
}

pub async fn lie(w: &World) -> Result<()> {
    let (host, machines) = (w.host("lie-1")?, w.stage.machines());
    let pod = w.stage.bind_pod("lie-1", false).await?;
    host.ignore_commands();
    host.report_off();
    w.stage
        .annotate(&machines, "lie-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_blocked("lie-1", "LeaseRenewed").await?;
    w.workload_untouched("lie-1", &pod.metadata.uid.unwrap_or_default())
        .await?;
    ensure!(host.counters().offs == 0, "it was never off");
    host.clear_faults();
    // The host stays on, and the remediation is finished.
    w.stage.wait_step("lie-1", "Blocked").await?;
    ensure!(
        host.real_power() == PowerState::On && host.counters().offs == 0,
        "left on"
    );
    w.stage
        .annotate(&machines, "lie-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("lie-1").await?;
    w.stage.never_tainted(&w.recorder, "lie-1").await
}

/// The BareMetalHost of one host names the BMC of the other, which reports no identity.
pub async fn swapped(w: &World) -> Result<()> {
    let (machines, other) = (w.stage.machines(), w.host("swap-2")?);
    other.anonymous();
    let address = other
        .system_url()?
        .replacen("https://", "redfish+https://", 1);
    let body = json!({ "spec": { "bmc": { "address": address } } });
    let hosts = w.stage.bare_metal_hosts();
    hosts
        .patch("swap-1", &PatchParams::default(), &Patch::Merge(body))
        .await?;
    w.stage
        .annotate(&machines, "swap-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_warning("swap-1", "LeaseRenewed").await?;
    ensure!(other.counters().offs == 1, "the other one was switched off");
    other
        .wait_for(LONG, "on again", |view| view.power == PowerState::On)
        .await?;
    w.stage.wait_step("swap-1", "Blocked").await?;
    w.stage.untouched("swap-1")?;
    w.stage
        .annotate(&machines, "swap-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("swap-1").await?;
    w.stage.wait_back("swap-2").await?;
    w.stage.never_tainted(&w.recorder, "swap-1").await
}
