//! The status page of the leader, in a browser on this machine.

use std::{future::pending, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client};
use rackhand_runtime::{ControllerAddress, PageProxy};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::LeaseName;
use crate::explain::args::trust;

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

    /// CA of the controller's certificate; without it, the certificate must be the one that the leader's Lease
    /// names.
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
    let (url, forwarding) = match page.controller {
        Some(url) => (url, None),
        None => {
            let forwarding = Forwarding::start(client, kubeconfig, lease).await?;
            (forwarding.url.clone(), Some(forwarding))
        }
    };
    let controller = ControllerAddress {
        url,
        trust: trust(page.controller_ca, lease),
    };
    let proxy = PageProxy::bind(kubeconfig, &controller, page.listen).await?;
    outln!("{}\n\nPress Ctrl-C to end.", proxy.url());
    let forwarded = async {
        match forwarding {
            Some(forwarding) => forwarding.end().await,
            None => pending().await,
        }
    };
    tokio::select! {
        served = proxy.run() => Ok(served?),
        error = forwarded => Err(error),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// A local port that kubectl forwards to the Pod of the leader until this is dropped.
struct Forwarding {
    url: http::Uri,
    pod: String,
    kubectl: Child,
    /// The output of kubectl, which ends if nobody reads it.
    output: Lines<BufReader<ChildStdout>>,
}

impl Forwarding {
    async fn start(
        client: &Client,
        kubeconfig: Option<&Path>,
        lease: &LeaseName,
    ) -> anyhow::Result<Self> {
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
        let mut kubectl = command.spawn().context(
            "kubectl cannot be run, which forwards a port to the leader; install it, or name the \
             controller's address with --controller",
        )?;
        let output = kubectl.stdout.take().context("kubectl has no output")?;
        let mut output = BufReader::new(output).lines();
        let first = async {
            while let Some(line) = output.next_line().await? {
                if let Some(port) = forwarded_port(&line) {
                    return Ok::<_, std::io::Error>(Some(port));
                }
            }
            Ok(None)
        };
        let port = tokio::time::timeout(PATIENCE, first)
            .await
            .with_context(|| format!("kubectl port-forward to Pod {pod} takes over {PATIENCE:?}"))??
            .with_context(|| {
                format!("kubectl port-forward to Pod {pod} ended; its error is above")
            })?;
        Ok(Self {
            url: format!("https://127.0.0.1:{port}").parse()?,
            pod,
            kubectl,
            output,
        })
    }

    /// Why kubectl has ended; it is read until then.
    async fn end(mut self) -> anyhow::Error {
        while let Ok(Some(_)) = self.output.next_line().await {}
        let status = match self.kubectl.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        anyhow!(
            "kubectl port-forward to Pod {} has ended ({status}), perhaps with the Pod: run the command again for \
             the replica that leads now",
            self.pod
        )
    }
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
