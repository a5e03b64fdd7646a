//! The status page of the leader, in a browser on this machine.

use std::{net::SocketAddr, path::Path};

use anyhow::bail;
use clap::Args;
use kube::Client;
use rackhand_runtime::PageProxy;

use super::LeaseName;
use crate::leader::{LeaderAddress, LeaderConnection};

/// Arguments of `page`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Page {
    /// Local address at which the page is shown.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,

    #[command(flatten)]
    leader: LeaderAddress,
}

/// Shows the page until Ctrl-C.
///
/// # Errors
/// No replica leads, the Pod of the leader cannot be reached, or the local address cannot be bound.
pub(super) async fn run(
    page: Page,
    client: &Client,
    kubeconfig: Option<&Path>,
    lease: &LeaseName,
) -> anyhow::Result<()> {
    if !page.listen.ip().is_loopback() {
        bail!(
            "--listen {}: everybody who reaches this address could read the page with your rights; \
             use a loopback address",
            page.listen
        );
    }
    let leader = LeaderConnection::open(page.leader, client, kubeconfig, lease).await?;
    let proxy = PageProxy::bind(kubeconfig, leader.address(), page.listen).await?;
    outln!("{}\n\nPress Ctrl-C to end.", proxy.url());
    tokio::select! {
        served = proxy.run() => Ok(served?),
        error = leader.end() => Err(error),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}
