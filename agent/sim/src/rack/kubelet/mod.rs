//! A simulated kubelet: the reports of a host's operating system to Kubernetes while it is up.
//!
//! ```text
//! mod.rs   lives and dies with the host      node.rs  Node and Lease, as data
//! node_loop.rs  posts them                   pods.rs  what to do with a pod, as data
//! pod_loop.rs   does it
//! ```
//!
//! Owns the host's Node, its Lease and the status of its pods. Must never shut down cleanly: when
//! the power goes off or the operating system hangs, it stops in the middle of its work, as the
//! real kubelet does.

pub mod node;
mod node_loop;
mod pod_loop;
pub mod pods;

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::host::SimHost;
use super::observation::HostView;
use super::power::OsState;

/// Time limit of an API call: a waiting kubelet sends no other updates.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_LAST: Duration = Duration::from_secs(2);

/// Runs the kubelet of a host, boot after boot, until cancelled.
pub(super) async fn run(host: SimHost, client: kube::Client, stop: CancellationToken) {
    let mut changes = host.subscribe();
    loop {
        let view = host.view();
        if let (OsState::Running, Some(boot_id)) = (view.os, view.boot_id) {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = wait_until_down(&host, &boot_id) => {}
                () = run_boot(&host, &client, &boot_id) => {}
            }
        } else {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Everything that the kubelet of one boot does. Dropping it stops the kubelet.
async fn run_boot(host: &SimHost, client: &kube::Client, boot_id: &str) {
    let mut config = host.config().clone();
    if let Some(name) = host.node_name() {
        config.name = name;
    }
    let renewed = Notify::new();
    tokio::join!(
        node_loop::post_status(&config, client, boot_id, &renewed),
        node_loop::renew_lease(&config, client, &renewed),
        pod_loop::run_pods(host, &config.name, client, boot_id),
    );
}

/// Returns when the operating system of this boot is no longer running.
async fn wait_until_down(host: &SimHost, boot_id: &str) {
    let mut changes = host.subscribe();
    let up =
        |view: &HostView| view.os == OsState::Running && view.boot_id.as_deref() == Some(boot_id);
    while up(&host.view()) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// An API call with a time limit.
async fn call<T>(what: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T> {
    match tokio::time::timeout(CALL_DEADLINE, call).await {
        Ok(answer) => answer.with_context(|| what.to_owned()),
        Err(_) => anyhow::bail!("{what}: no answer within {CALL_DEADLINE:?}"),
    }
}

/// Pause after this many failures in a row.
fn backoff(failures: u32) -> Duration {
    BACKOFF_FIRST
        .saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)))
        .min(BACKOFF_LAST)
}

/// Whether an error is an API response with one of these statuses.
fn is_status(error: &anyhow::Error, codes: &[u16]) -> bool {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => codes.contains(&status.code),
        _ => false,
    }
}
