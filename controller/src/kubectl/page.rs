//! The status page of the leader, in a browser on this machine.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client};
use rackhand_runtime::{ControllerAddress, PageProxy};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::LeaseName;

/// Port of the controller's HTTPS server in the shipped manifests.
const PORT: u16 = 8443;
/// Timeout of kubectl's port forwarding.
const PATIENCE: Duration = Duration::from_secs(20);

/// Arguments of `page`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Page {
    /// Local address at which the page is shown.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8088")]
    listen: SocketAddr,

    /// Read the page from the controller at this address, such as https://127.0.0.1:8443. Without it,
    /// `kubectl port-forward` connects to the Pod of the leader.
    #[arg(long, value_name = "URL")]
    controller: Option<http::Uri>,

    /// CA of the controller's certificate; needed unless its address is a loopback address.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_ca: Option<std::path::PathBuf>,
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
    let (url, _forwarding) = match page.controller {
        Some(url) => (url, None),
        None => {
            let (url, child) = port_forward(client, kubeconfig, lease).await?;
            (url, Some(child))
        }
    };
    let controller = ControllerAddress {
        url,
        ca: page.controller_ca,
    };
    let proxy = PageProxy::bind(kubeconfig, &controller, page.listen).await?;
    println!("{}\n\nPress Ctrl-C to end.", proxy.url());
    tokio::select! {
        served = proxy.run() => Ok(served?),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// Forwards a local port to the Pod of the leader by kubectl, until the process is dropped.
async fn port_forward(
    client: &Client,
    kubeconfig: Option<&Path>,
    lease: &LeaseName,
) -> anyhow::Result<(http::Uri, Child)> {
    let pod = leader_pod(client, lease).await?;
    let mut command = Command::new("kubectl");
    if let Some(file) = kubeconfig {
        command.arg("--kubeconfig").arg(file);
    }
    command
        .args(["port-forward", "--namespace", &lease.namespace])
        .arg(format!("pod/{pod}"))
        .arg(format!(":{PORT}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().context(
        "kubectl cannot be run, which forwards a port to the leader; install it, or name the \
         controller's address with --controller",
    )?;
    let output = child.stdout.take().context("kubectl has no output")?;
    let mut lines = BufReader::new(output).lines();
    let first = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(port) = forwarded_port(&line) {
                return Ok::<_, std::io::Error>(Some(port));
            }
        }
        Ok(None)
    };
    let port = tokio::time::timeout(PATIENCE, first)
        .await
        .with_context(|| format!("kubectl port-forward to Pod {pod} takes over {PATIENCE:?}"))??
        .with_context(|| format!("kubectl port-forward to Pod {pod} ended; its error is above"))?;
    Ok((format!("https://127.0.0.1:{port}").parse()?, child))
}

/// The local port in kubectl's `Forwarding from 127.0.0.1:40123 -> 8443`.
fn forwarded_port(line: &str) -> Option<u16> {
    let address = line
        .strip_prefix("Forwarding from ")?
        .split(" -> ")
        .next()?;
    let address: SocketAddr = address.parse().ok()?;
    address.is_ipv4().then_some(address.port())
}

/// The Pod of the replica that holds the Lease, whose identity is `POD_UNIQUE`.
async fn leader_pod(client: &Client, lease: &LeaseName) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let found = leases
        .get(&lease.name)
        .await
        .with_context(|| format!("Lease {}/{}", lease.namespace, lease.name))?;
    let holder = found.spec.and_then(|spec| spec.holder_identity);
    let holder = holder.filter(|holder| !holder.is_empty());
    let holder =
        holder.context("no controller leads; `kubectl rackhand status` shows the Lease")?;
    let pod = holder
        .rsplit_once('_')
        .map_or(holder.as_str(), |(pod, _)| pod);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &lease.namespace);
    pods.get(pod).await.with_context(|| {
        format!(
            "the leader {pod} is no Pod of namespace {}; name its address with --controller",
            lease.namespace
        )
    })?;
    Ok(pod.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_port_is_parsed_from_kubectl_output() {
        for (line, port) in [
            ("Forwarding from 127.0.0.1:40123 -> 8443", Some(40_123)),
            ("Forwarding from [::1]:40123 -> 8443", None),
            ("Handling connection for 40123", None),
            ("", None),
        ] {
            assert_eq!(forwarded_port(line), port, "{line}");
        }
    }
}
