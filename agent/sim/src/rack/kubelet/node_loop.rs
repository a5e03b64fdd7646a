//! Periodic updates of the Node's status and of its Lease.
//!
//! Owns: the schedule; the content is in `node.rs`. Must never: end or panic: an error is logged
//! and retried.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::node::{self, Readiness};
use super::{CALL_DEADLINE, backoff, call, is_status};
use crate::rack::config::HostConfig;

/// Registers the Node, then posts its status forever: after the first renewal of the Lease, first as not Ready and then
/// as Ready. A Node that is deleted later is registered at the next boot only, as by the real kubelet.
pub(super) async fn post_status(
    host: &HostConfig,
    client: &kube::Client,
    boot_id: &str,
    renewed: &Notify,
) {
    let api: Api<Node> = Api::all(client.clone());
    let mut failures = 0;
    let mut registered = false;
    let mut ready_from = None;
    loop {
        let posted = async {
            if !registered {
                register(host, &api).await?;
                registered = true;
                // A kubelet whose Lease cannot be renewed posts its status all the same.
                timeout(CALL_DEADLINE, renewed.notified()).await.ok();
            }
            let is_ready = ready_from.is_some_and(|from| Instant::now() >= from);
            let readiness = if is_ready {
                Readiness::Ready
            } else {
                Readiness::Starting
            };
            post(host, &api, boot_id, readiness).await
        };
        let pause = match posted.await {
            Ok(()) => {
                failures = 0;
                let from = *ready_from.get_or_insert(Instant::now() + host.kubelet.unready_for);
                match from.saturating_duration_since(Instant::now()) {
                    Duration::ZERO => host.kubelet.status_interval,
                    starting => starting,
                }
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(
                    node = host.name,
                    error = format!("{error:#}"),
                    "status not posted"
                );
                backoff(failures)
            }
        };
        sleep(pause).await;
    }
}

async fn register(config: &HostConfig, api: &Api<Node>) -> Result<()> {
    let Some(existing) = call("reading the Node", api.get_opt(&config.name)).await? else {
        let node = serde_json::from_value(node::registration(config))?;
        call(
            "registering the Node",
            api.create(&PostParams::default(), &node),
        )
        .await?;
        return Ok(());
    };
    if let Some(patch) = node::amendment(config, &existing) {
        let params = PatchParams::default();
        call(
            "amending the Node",
            api.patch(&config.name, &params, &Patch::Merge(patch)),
        )
        .await?;
    }
    Ok(())
}

async fn post(
    config: &HostConfig,
    api: &Api<Node>,
    boot_id: &str,
    readiness: Readiness,
) -> Result<()> {
    let existing = call("reading the Node", api.get_opt(&config.name)).await?;
    let existing = existing.context("the Node is gone")?;
    let status = node::status(
        config,
        boot_id,
        readiness,
        Some(&existing),
        Timestamp::now(),
    );
    let (patch, params) = (Patch::Strategic(status), PatchParams::default());
    let patched = api.patch_status(&config.name, &params, &patch);
    call("posting the Node's status", patched).await?;
    Ok(())
}

/// Renews the Lease forever, and notifies of each renewal.
pub(super) async fn renew_lease(host: &HostConfig, client: &kube::Client, renewed: &Notify) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), node::LEASE_NAMESPACE);
    let nodes: Api<Node> = Api::all(client.clone());
    let interval = host.kubelet.lease_interval;
    let mut failures = 0;
    loop {
        let started = Instant::now();
        let pause = match renew(host, &leases, &nodes).await {
            Ok(()) => {
                failures = 0;
                renewed.notify_one();
                interval.saturating_sub(started.elapsed())
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(
                    node = host.name,
                    error = format!("{error:#}"),
                    "Lease not renewed"
                );
                backoff(failures).min(interval)
            }
        };
        sleep(pause).await;
    }
}

async fn renew(config: &HostConfig, leases: &Api<Lease>, nodes: &Api<Node>) -> Result<()> {
    let params = PatchParams::default();
    let renewal = Patch::Merge(node::lease_renewal(config, Timestamp::now()));
    let renewed = call(
        "renewing the Lease",
        leases.patch(&config.name, &params, &renewal),
    )
    .await;
    match renewed {
        Err(error) if is_status(&error, &[404]) => {
            let node = call("reading the Node", nodes.get_opt(&config.name)).await?;
            let uid = node.and_then(|node| node.metadata.uid);
            let lease = node::lease(config, uid.as_deref(), Timestamp::now());
            let lease = serde_json::from_value(lease)?;
            call(
                "making the Lease",
                leases.create(&PostParams::default(), &lease),
            )
            .await?;
            Ok(())
        }
        other => other.map(|_| ()),
    }
}
