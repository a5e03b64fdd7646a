//! Commands of a person: `kubectl` and `rackhand-controller`, its status page included.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::{LONG, SYSTEM, Stage, wait_until};
use crate::{
    cluster::{apply, shipped},
    process::{Process, free_port},
    repository::program,
};

impl Stage {
    /// Runs `kubectl`; returns its output. Meanwhile the other scenarios of the task go on.
    ///
    /// # Errors
    /// kubectl is missing or fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new("kubectl")
            .arg(self.to_plane())
            .args(args)
            .output()
            .await
            .context("kubectl is missing; run hack/setup")?;
        ensure!(
            output.status.success(),
            "kubectl {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Installs a folder of `deploy/kustomize`.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn install(&self, folder: &str) -> Result<()> {
        for object in shipped(&format!("kustomize/{folder}"))? {
            apply(&self.client, object)
                .await
                .with_context(|| folder.to_owned())?;
        }
        Ok(())
    }

    /// Runs `rackhand-controller explain` with this standard input; returns its output.
    ///
    /// # Errors
    /// The command fails.
    pub async fn explain(&self, args: &[&str], input: &str) -> Result<String> {
        self.controller_command(&[&["explain"], args].concat(), input)
            .await
    }

    /// Runs `rackhand-controller explain remediation` with the controller that leads; returns its output.
    ///
    /// # Errors
    /// No controller of this stage leads, or it does not explain the remediation.
    pub async fn explain_remediation(&self, args: &[&str]) -> Result<String> {
        let address = format!("--controller={}", self.leader_address().await?);
        self.explain(&[&["remediation", &address], args].concat(), "")
            .await
    }

    /// The command by which a person has the leader explain a remediation. The address stands in for the
    /// port forwarding to a Pod, because controllers of a stage run in none.
    ///
    /// # Errors
    /// No controller of this stage leads.
    pub async fn explain_command(&self, name: &str) -> Result<String> {
        let address = self.leader_address().await?;
        Ok(format!(
            "rackhand-controller explain remediation {name} -n metal3 --controller {address}"
        ))
    }

    /// The address of the HTTPS server of the controller that leads.
    async fn leader_address(&self) -> Result<String> {
        let (holder, _) = self.leader().await?;
        let replica = holder.rsplit_once('_').map_or(&*holder, |(name, _)| name);
        let port = self.https.lock().get(replica).copied();
        let port = port.with_context(|| format!("{holder:?} leads"))?;
        Ok(format!("https://127.0.0.1:{port}"))
    }

    /// Runs a command of `rackhand-controller` with this standard input; returns its output.
    ///
    /// # Errors
    /// The command fails.
    pub async fn controller_command(&self, args: &[&str], input: &str) -> Result<String> {
        self.controller_command_as(&self.plane().kubeconfig(), args, input)
            .await
    }

    /// Runs a command of `rackhand-controller` with the kubeconfig of another account.
    ///
    /// # Errors
    /// The command fails.
    pub async fn controller_command_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
        input: &str,
    ) -> Result<String> {
        let mut child = tokio::process::Command::new(self.binary("rackhand-controller"))
            .args(args)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    }

    /// Starts `rackhand-controller page` for the controller whose `--metrics-address` has this port, and
    /// returns the URL that it prints.
    ///
    /// # Errors
    /// It does not print one.
    pub async fn start_page(&self, port: u16) -> Result<(Process, String)> {
        let command = [
            self.binary("rackhand-controller").display().to_string(),
            self.to_plane(),
            "page".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--controller=https://127.0.0.1:{port}"),
        ];
        let process = Process::start("page", &command, &[], self.dir())?;
        let url = wait_until("the URL of the page", LONG, || async {
            let log = std::fs::read_to_string(process.log())?;
            let found = log.lines().find(|line| line.starts_with("http://"));
            Ok(found.map(str::to_owned).ok_or(log))
        })
        .await?;
        Ok((process, url))
    }

    /// Starts the part of a kubelet that serves `kubectl port-forward`, for a Pod named `pod` of the system's
    /// namespace, whose ports all lead to this local port.
    ///
    /// # Errors
    /// The program is missing, or the Node or the Pod cannot be created.
    pub async fn start_port_forwarding(&self, pod: &str, port: u16) -> Result<Process> {
        let program = program("kubelet-port-forward")?;
        let listen = free_port()?;
        let command = [
            program.display().to_string(),
            format!("127.0.0.1:{listen}"),
            format!("127.0.0.1:{port}"),
        ];
        let kubelet = Process::start("kubelet-port-forward", &command, &[], self.dir())?;
        wait_until("the kubelet's port", LONG, || async {
            let connected = tokio::net::TcpStream::connect(("127.0.0.1", listen)).await;
            Ok(connected.map(drop).map_err(|error| error.to_string()))
        })
        .await?;
        let node = "system-node";
        let objects = [
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } }),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": pod, "namespace": SYSTEM },
                "spec": {
                    "nodeName": node,
                    "securityContext": {
                        "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "controller", "image": "none",
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            }),
        ];
        for object in objects {
            apply(&self.client, object).await?;
        }
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": listen } },
        }});
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .patch_status(node, &PatchParams::default(), &Patch::Merge(&status))
            .await?;
        let running = json!({ "status": { "phase": "Running" } });
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(&running))
            .await?;
        Ok(kubelet)
    }

    /// A command of `kubectl rackhand`, by the real kubectl, with this kubeconfig.
    ///
    /// # Errors
    /// The plugin cannot be put on the path.
    pub fn plugin(&self, kubeconfig: &Path) -> Result<Command> {
        let folder = self.dir().join("plugins");
        std::fs::create_dir_all(&folder)?;
        let link = folder.join("kubectl-rackhand");
        if !link.exists() {
            std::os::unix::fs::symlink(self.binary("rackhand-controller"), link)?;
        }
        let path = std::env::var("PATH")?;
        let mut command = Command::new("kubectl");
        command
            .arg("rackhand")
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("KUBECONFIG", kubeconfig);
        Ok(command)
    }

    fn to_plane(&self) -> String {
        format!("--kubeconfig={}", self.plane().kubeconfig().display())
    }
}
