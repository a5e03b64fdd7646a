//! Periodic updates of the Node's status and of its Lease.
//!
//! Owns: the schedule; the content is in `node.rs`. Must never: end or panic: an error is logged
//! and retried.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};

use super::{backoff, call, is_status, node};
use crate::rack::config::HostConfig;

/// Registers the Node, then posts its status forever. A Node that is deleted later is registered at
/// the next boot only, as by the real kubelet.
pub(super) async fn post_status(host: &HostConfig, client: &kube::Client, boot_id: &str) {
    let api: Api<Node> = Api::all(client.clone());
    let mut failures = 0;
    let mut registered = false;
    loop {
        let posted = async {
            if !registered {
                register(host, &api).await?;
                registered = true;
            }
            post(host, &api, boot_id).await
        };
        let pause = match posted.await {
            Ok(()) => {
                failures = 0;
                host.kubelet.status_interval
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
        tokio::time::sleep(pause).await;
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

async fn post(config: &HostConfig, api: &Api<Node>, boot_id: &str) -> Result<()> {
    let existing = call("reading the Node", api.get_opt(&config.name)).await?;
    let existing = existing.context("the Node is gone")?;
    let status = node::status(config, boot_id, Some(&existing), Timestamp::now());
    let (patch, params) = (Patch::Strategic(status), PatchParams::default());
    let patched = api.patch_status(&config.name, &params, &patch);
    call("posting the Node's status", patched).await?;
    Ok(())
}

/// Renews the Lease forever.
pub(super) async fn renew_lease(host: &HostConfig, client: &kube::Client) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), node::LEASE_NAMESPACE);
    let nodes: Api<Node> = Api::all(client.clone());
    let interval = host.kubelet.lease_interval;
    let mut failures = 0;
    loop {
        let started = tokio::time::Instant::now();
        let pause = match renew(host, &leases, &nodes).await {
            Ok(()) => {
                failures = 0;
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
        tokio::time::sleep(pause).await;
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
