//! Location of the binaries of Kubernetes.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

/// A directory with etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
#[derive(Debug, Clone)]
pub struct Assets(PathBuf);

impl Assets {
    /// Finds the directory by `hack/setup`, which builds missing binaries.
    ///
    /// # Errors
    /// The binaries cannot be found or built.
    pub fn find() -> Result<Self> {
        if let Some(dir) = std::env::var_os("RACKHAND_ASSETS") {
            return Ok(Self(dir.into()));
        }
        let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../hack/setup");
        let output = Command::new(setup)
            .arg("--print-assets")
            .output()
            .with_context(|| format!("running {setup}"))?;
        if !output.status.success() {
            bail!("hack/setup: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self(String::from_utf8_lossy(&output.stdout).trim().into()))
    }

    /// The path of one binary.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}
