//! Commands of a person: `kubectl` and `rackhand-controller`, its status page included.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::{LONG, Stage, wait_until};
use crate::{
    cluster::{apply, shipped},
    process::Process,
};

// === impl Stage ===

impl Stage {
    /// Runs `kubectl`; returns its output.
    ///
    /// # Errors
    /// kubectl is missing or fails.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        let output = Command::new("kubectl")
            .arg(self.to_plane())
            .args(args)
            .output()
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
    pub fn explain(&self, args: &[&str], input: &str) -> Result<String> {
        self.controller_command(&[&["explain"], args].concat(), input)
    }

    /// Runs a command of `rackhand-controller` with this standard input; returns its output.
    ///
    /// # Errors
    /// The command fails.
    pub fn controller_command(&self, args: &[&str], input: &str) -> Result<String> {
        self.controller_command_as(&self.plane().kubeconfig(), args, input)
    }

    /// Runs a command of `rackhand-controller` with the kubeconfig of another account.
    ///
    /// # Errors
    /// The command fails.
    pub fn controller_command_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
        input: &str,
    ) -> Result<String> {
        let mut child = Command::new(self.binary("rackhand-controller"))
            .args(args)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().context("no stdin")?;
        stdin.write_all(input.as_bytes())?;
        drop(stdin);
        let output = child.wait_with_output()?;
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

    fn to_plane(&self) -> String {
        format!("--kubeconfig={}", self.plane().kubeconfig().display())
    }
}
