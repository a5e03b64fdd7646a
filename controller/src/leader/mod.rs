//! The connection to the leader: to a given address, or through `kubectl port-forward` to its Pod.

mod absence;

use std::{
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use http::Uri;
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, api::ListParams};
use rackhand_runtime::{ControllerAddress, ControllerTrust};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{error_text::one_line, kubectl::LeaseName};

/// Port of the controller's HTTPS server in the shipped manifests.
const PORT: u16 = 8443;
/// Timeout of kubectl's port forwarding.
const PATIENCE: Duration = Duration::from_secs(20);
/// Labels of the controller's Pods in the shipped manifests.
const PODS: &str = "app.kubernetes.io/name=rackhand,app.kubernetes.io/component=controller";

/// Address of the leader.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LeaderAddress {
    /// Query the leader at this address, such as https://127.0.0.1:8443, as the user of the kubeconfig.
    #[arg(long, value_name = "URL")]
    controller: Option<Uri>,

    /// CA of the controller's certificate; without it, the certificate must be the one that the leader's Lease
    /// names.
    #[arg(long, value_name = "FILE", requires = "controller")]
    controller_ca: Option<PathBuf>,
}

impl LeaderAddress {
    /// The controller at the address, if one was given. `lease` is that of the leader.
    pub(crate) fn given(&self, lease: &LeaseName) -> Option<ControllerAddress> {
        let url = self.controller.clone()?;
        Some(ControllerAddress {
            url,
            trust: trust(self.controller_ca.clone(), lease),
        })
    }
}

/// How the certificate of a controller is verified: by a CA, or else by the Lease of the leader.
fn trust(ca: Option<PathBuf>, lease: &LeaseName) -> ControllerTrust {
    match ca {
        Some(file) => ControllerTrust::Ca(file),
        None => ControllerTrust::Lease {
            namespace: lease.namespace.clone(),
            name: lease.name.clone(),
        },
    }
}

/// The leader, which can be reached until this is dropped.
pub(crate) struct LeaderConnection {
    address: ControllerAddress,
    forwarding: Option<Forwarding>,
}

impl LeaderConnection {
    /// Connects to the leader.
    ///
    /// # Errors
    /// No replica leads, and why; or its Pod cannot be reached.
    pub(crate) async fn open(
        leader: LeaderAddress,
        client: &Client,
        kubeconfig: Option<&Path>,
        lease: &LeaseName,
    ) -> anyhow::Result<Self> {
        if let Some(address) = leader.given(lease) {
            return Ok(Self {
                address,
                forwarding: None,
            });
        }
        let forwarding = Forwarding::start(client, kubeconfig, lease).await?;
        Ok(Self {
            address: ControllerAddress {
                url: forwarding.url.clone(),
                trust: trust(None, lease),
            },
            forwarding: Some(forwarding),
        })
    }

    /// The address, through the forwarded port if there is one.
    pub(crate) fn address(&self) -> &ControllerAddress {
        &self.address
    }

    /// Waits for the end of the port forwarding, and returns its cause.
    pub(crate) async fn end(self) -> anyhow::Error {
        match self.forwarding {
            Some(forwarding) => forwarding.end().await,
            None => pending().await,
        }
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
    let what = format!("Lease {}/{}", lease.namespace, lease.name);
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let found = leases
        .get_opt(&lease.name)
        .await
        .with_context(|| what.clone())?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &lease.namespace);
    let pod = match absence::holder(&what, found.as_ref(), Timestamp::now()) {
        Ok(pod) => pod,
        Err(why) => {
            let listed = pods.list(&ListParams::default().labels(PODS)).await;
            let pods = match listed {
                Ok(listed) => absence::last_words(&lease.namespace, &listed.items),
                Err(error) => {
                    let error = one_line(&anyhow::Error::new(error));
                    format!("its Pods cannot be listed: {error}")
                }
            };
            bail!("no controller leads: {why}; {pods}");
        }
    };
    pods.get(&pod).await.with_context(|| {
        format!(
            "the leader {pod} is no Pod of namespace {}; name its address with --controller",
            lease.namespace
        )
    })?;
    Ok(pod)
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
