//! The stage of these tests, with several workload clusters.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_tests::{
    rack::{PowerState, SimHost},
    stage::{LONG, Recorder, Stage, Wire, wait_until},
};
use serde_json::{Value, json};

pub const HOLD: &str = "reboot.metal3.io/rackhand-";

pub const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

pub const ETCD_ROLE: &str = "rke.cattle.io/etcd-role";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
    /// The connection to the cluster `far`.
    pub wire: Wire,
}

impl World {
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    pub fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    /// Starts a pod on a host, then hangs the host.
    pub async fn lose(&self, host: &str, kept: bool) -> Result<()> {
        self.stage.bind_pod(host, kept).await?;
        self.host(host)?
            .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        self.hang(host)
    }

    pub async fn untainted(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let seen = seen.map(|s| (s.step, s.reason, s.message));
            let taints = self.recorder.taints(host);
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{taints:?} {seen:?}"))
            })
        })
        .await
    }

    /// Waits for the recovery of a host, and checks: one power cycle, tainted once and only while off,
    /// nothing left.
    pub async fn comes_back(&self, host: &str) -> Result<()> {
        self.untainted(host).await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)?;
        self.stage
            .tainted_only_while_off(&self.recorder, host)
            .await
    }

    /// Waits until a remediation that the test created has succeeded, and deletes it.
    pub async fn succeeded(&self, host: &str) -> Result<()> {
        self.stage.wait_step(host, "Succeeded").await?;
        self.stage.withdraw(host).await?;
        self.stage.wait_back(host).await
    }

    pub fn steps(&self, host: &str) -> Vec<String> {
        let steps = self.recorder.steps(host).into_iter();
        steps.map(|(_, step)| step).collect()
    }

    /// Checks that a host stays off while its remediation is observed.
    pub async fn stays_off(&self, host: &str) -> Result<()> {
        self.stage.wait_looks(host, 2).await?;
        let power = self.host(host)?.real_power();
        ensure!(power == PowerState::Off, "{host} is {power}");
        Ok(())
    }

    pub async fn patch_host(&self, host: &str, spec: Value) -> Result<()> {
        let (params, body) = (
            PatchParams::default(),
            Patch::Merge(json!({ "spec": spec })),
        );
        let hosts = self.stage.bare_metal_hosts();
        hosts.patch(host, &params, &body).await?;
        Ok(())
    }
}
