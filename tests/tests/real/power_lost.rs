//! A host loses its power, and its BMC tells a health check, with short or default periods of Kubernetes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use rackhand_tests::{
    cluster::{Periods, apply_yaml},
    real_host::{BmcKind, RealSite, RealSpec},
    stage::{LONG, wait_until},
};

use crate::scene::play;

const POD: &str = "db-0";
/// The condition that the check selects.
const SELECTED: &str = "  unhealthyConditions:
    - type: rackhand.dev/PowerLost
      status: \"True\"
      timeout: 0s
";
const CONDITIONS: &str = "  unhealthyConditions:\n";
const TEMPLATE: &str = "\
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata:
  name: at-once
  namespace: metal3
spec:
  template:
    spec:
      strategy: {type: Reboot, retryLimit: 1, podDeletion: Immediate}
";

#[tokio::test(flavor = "multi_thread")]
async fn host_that_loses_its_power_is_brought_back() {
    let periods = Periods::of_environment().unwrap();
    let spec = RealSpec::new(2, BmcKind::IpmiSim).with_periods(periods);
    let spec = match periods {
        Periods::Short => spec,
        // As health checks of production have it: only the signal is sooner.
        Periods::Default => spec.patient(),
    };
    play(spec, async |site| {
        let by_template = both(site).await?;
        for (kind, took) in by_template {
            println!(
                "{periods:?} periods, {kind}: {:.1} s from the loss of power to the deletion of the pod",
                took.as_secs_f64()
            );
        }
        Ok(())
    })
    .await;
}

async fn both(site: &RealSite) -> Result<[(&'static str, Duration); 2]> {
    site.run_workload(1).await?;
    watched(site).await?;
    let check = site.stage.health_check();
    let selecting = check.replacen(CONDITIONS, SELECTED, 1);
    let immediate = selecting
        .replace(
            "apiVersion: infrastructure.cluster.x-k8s.io/v1beta1\n    kind: Metal3RemediationTemplate\n    \
             name: worker-remediation-request",
            "apiVersion: rackhand.dev/v1alpha1\n    kind: PowerRemediationTemplate\n    name: at-once",
        );
    ensure!(
        selecting != check && immediate != selecting,
        "the check has changed: {check}"
    );
    apply_yaml(&site.stage.client, TEMPLATE).await?;
    apply_yaml(&site.stage.client, &immediate).await?;
    let power = lose_power(site, "PowerRemediation").await?;
    apply_yaml(&site.stage.client, &selecting).await?;
    let metal3 = lose_power(site, "Metal3Remediation").await?;
    Ok([("PowerRemediation", power), ("Metal3Remediation", metal3)])
}

/// Takes the power of the host of the Pod. Returns, once the host is back, how long it took until the Pod was deleted.
async fn lose_power(site: &RealSite, kind: &str) -> Result<Duration> {
    let victim = site.last_report(POD)?.host;
    let host = site.host(&victim)?;
    let boot = site.boot_id(&victim).await?;
    let before = site.recorder.of("Pod", POD);
    let last = before.last().context("the Pod was not recorded")?;
    let uid = last.object["metadata"]["uid"].clone();

    let lost = Instant::now();
    host.pull_plug()?;

    let deleted = wait_until(&format!("{kind}: the Pod is deleted"), 4 * LONG, || async {
        let records = site.recorder.of("Pod", POD);
        let mut later = records.iter().filter(|record| record.at > lost);
        let deleted = later.find(|record| record.gone || record.object["metadata"]["uid"] != uid);
        Ok(deleted
            .map(|record| record.at)
            .ok_or_else(|| format!("{} versions", records.len())))
    })
    .await?;
    let asked = site.recorder.of(kind, &victim);
    ensure!(!asked.is_empty(), "there was no {kind}");
    wait_until(&format!("{victim}: back"), 4 * LONG, || async {
        let tainted = site.stage.tainted(&victim).await?;
        let now = site.boot_id(&victim).await?;
        let ended = site.recorder.of(kind, &victim);
        let ended = ended.last().is_some_and(|record| record.gone);
        Ok((!tainted && now != boot && ended)
            .then_some(())
            .ok_or_else(|| format!("tainted {tainted}, boot ID {now}, remediation gone {ended}")))
    })
    .await?;
    site.wait_ready(&victim).await?;
    site.wait_report(POD, "it runs", |_| true).await?;
    Ok(deleted.duration_since(lost))
}

/// Waits until the agent reads the power of both hosts for their signals, and both Nodes have Leases: a kubelet whose
/// Node is not registered yet makes its Lease ten seconds later by default.
async fn watched(site: &RealSite) -> Result<()> {
    let leases = Api::<Lease>::namespaced(site.stage.client.clone(), "kube-node-lease");
    wait_until("a Lease for each Node", LONG, || async {
        let listed = leases.list_metadata(&ListParams::default()).await?;
        let names: Vec<String> = listed.iter().map(ResourceExt::name_any).collect();
        Ok((names.len() == 2).then_some(()).ok_or(names.join(", ")))
    })
    .await?;
    let line = "rackhand_hardware_signal_watched_hosts 2";
    wait_until(line, LONG, || async {
        let (_, metrics) = site.stage.admin("controller-0", "/metrics").await?;
        Ok(metrics.contains(line).then_some(()).ok_or(metrics))
    })
    .await
}
