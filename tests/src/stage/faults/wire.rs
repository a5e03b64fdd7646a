//! Proxies to the API server, for a workload cluster or for the controllers.

use anyhow::{Context as _, Result};

use super::TcpProxy;
use crate::stage::{SYSTEM, Stage};

/// A proxy to the API server with a kubeconfig. Dropping it stops the proxy.
pub struct Wire {
    line: TcpProxy,
    /// A kubeconfig that connects through the proxy.
    pub kubeconfig: String,
}

impl Wire {
    /// Resets all connections and every new one.
    pub fn cut(&self) {
        self.line.cut();
    }

    /// Forwards connections again.
    pub fn mend(&self) {
        self.line.mend();
    }
}

impl Stage {
    /// Starts a proxy to the API server, with the controller's rights in a workload cluster.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn wire(&self) -> Result<Wire> {
        let rights = self.plane.kubeconfig_of("kube-system", "rackhand").await?;
        let line = self.line().await?;
        let kubeconfig = self.over(&line, &std::fs::read_to_string(rights)?);
        Ok(Wire { line, kubeconfig })
    }

    /// Starts a proxy to the API server for all controllers that are started from now on.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn lead_over_a_line(&self) -> Result<TcpProxy> {
        let account = "rackhand-controller";
        let rights = self.plane.kubeconfig_of(SYSTEM, account).await?;
        let line = self.line().await?;
        let path = self.dir.join("line.kubeconfig");
        let kubeconfig = self.over(&line, &std::fs::read_to_string(rights)?);
        std::fs::write(&path, kubeconfig)?;
        *self.way.lock() = Some(path);
        Ok(line)
    }

    async fn line(&self) -> Result<TcpProxy> {
        let there = self.plane.url().strip_prefix("https://");
        TcpProxy::to(there.context("the API server's address")?).await
    }

    fn over(&self, line: &TcpProxy, kubeconfig: &str) -> String {
        let here = format!("https://{}", line.address());
        kubeconfig.replace(self.plane.url(), &here)
    }
}
