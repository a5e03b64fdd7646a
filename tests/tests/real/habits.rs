//! What the API shows of a real kubelet that stands still, is cut off, and boots: the order of its Lease, conditions,
//! taints and boot ID. `kubelet.json` is a record of it: the only Node of its cluster, with seconds since each phase
//! began. A cluster without any other Node gets no taint of effect NoExecute.

use std::{collections::BTreeMap, sync::Mutex, time::Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::Api;
use rackhand_tests::{
    real_host::{BmcKind, RealSite, RealSpec},
    stage::{LONG, wait_until},
};

use crate::scene::play;

const HOST: &str = "real-1";

/// One change, and how many seconds after the beginning it was seen.
type Change = (f64, String);

/// What is to be seen of a Node, one line for each part.
async fn parts(site: &RealSite) -> Result<BTreeMap<&'static str, String>> {
    let client = site.stage.client.clone();
    let lease = Api::<Lease>::namespaced(client.clone(), "kube-node-lease")
        .get(HOST)
        .await?;
    let node = Api::<Node>::all(client).get(HOST).await?;
    let status = node.status.unwrap_or_default();
    let ready = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .find(|c| c.type_ == "Ready");
    let ready = ready.context("no condition Ready")?;
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let taints = taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key, taint.effect));
    let renewed = lease.spec.and_then(|spec| spec.renew_time);
    Ok(BTreeMap::from([
        ("boot ID", status.node_info.unwrap_or_default().boot_id),
        ("lease", format!("{:?}", renewed.map(|time| time.0))),
        (
            "ready",
            format!("{} {}", ready.status, ready.reason.unwrap_or_default()),
        ),
        ("taints", taints.collect::<Vec<_>>().join(", ")),
    ]))
}

/// Records what changes until the last state is as wanted. Of renewals without another change between them, the first
/// is recorded.
async fn record(
    site: &RealSite,
    wanted: impl Fn(&BTreeMap<&'static str, String>) -> bool,
) -> Result<Vec<Change>> {
    let begun = Instant::now();
    let last = Mutex::new(parts(site).await?);
    let changes = Mutex::new(Vec::<Change>::new());
    wait_until("the kubelet is as wanted", 4 * LONG, || async {
        let now = parts(site).await?;
        let mut last = last.lock().unwrap();
        let mut changes = changes.lock().unwrap();
        for (part, value) in &now {
            let text = match *part {
                "lease" | "boot ID" => (*part).to_owned(),
                part => format!("{part} {value}"),
            };
            let again = changes.last().is_some_and(|(_, last)| *last == text);
            if last.get(part) != Some(value) && !again {
                changes.push((begun.elapsed().as_secs_f64(), text));
            }
        }
        let done = wanted(&now);
        *last = now;
        Ok(done.then_some(()).ok_or_else(|| format!("{last:?}")))
    })
    .await?;
    Ok(changes.into_inner().unwrap())
}

async fn habits(site: &RealSite) -> Result<()> {
    let host = site.host(HOST)?;
    let unknown = |now: &BTreeMap<&'static str, String>| {
        now["ready"].starts_with("Unknown") && now["taints"].contains("unreachable")
    };
    let well = |now: &BTreeMap<&'static str, String>| {
        now["ready"].starts_with("True") && now["taints"].is_empty()
    };
    let mut all = Vec::new();
    host.hang()?;
    all.push(("hang", record(site, unknown).await?));
    host.resume()?;
    all.push(("end of the hang", record(site, well).await?));
    host.plug_network(false)?;
    all.push(("cut", record(site, unknown).await?));
    host.plug_network(true)?;
    all.push(("end of the cut", record(site, well).await?));
    let boot = site.boot_id(HOST).await?;
    host.pull_plug()?;
    all.push(("off", record(site, unknown).await?));
    host.press_power()?;
    let rebooted = |now: &BTreeMap<&'static str, String>| well(now) && now["boot ID"] != boot;
    all.push(("boot", record(site, rebooted).await?));
    for (phase, changes) in all {
        println!("{phase}");
        for (at, what) in changes {
            println!("{at:7.1} s  {what}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn real_kubelet_is_seen_to_hang_return_and_boot() {
    play(RealSpec::new(1, BmcKind::IpmiSim), habits).await;
}
