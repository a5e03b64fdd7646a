//! The stage of these tests, with hosts whose BMCs lie, refuse or are silent.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use rackhand_tests::{
    rack::{LogEvent, PowerState, SimHost},
    stage::{LONG, Recorder, Stage, wait_until},
};

pub const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

pub const CONFIRM: &str = "rackhand.dev/confirm-fenced";

pub const HOLD: &str = "reboot.metal3.io/rackhand-";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
    /// Whether the host without faults hangs already.
    pub fine_hangs: AtomicBool,
}

impl World {
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    /// Starts a pod on a host, then hangs the host.
    pub async fn lose(&self, host: &str, kept: bool) -> Result<String> {
        let pod = self.stage.bind_pod(host, kept).await?;
        let sim = self.host(host)?;
        sim.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        ensure!(sim.hang(), "{host} was not up");
        Ok(pod.metadata.uid.unwrap_or_default())
    }

    /// Checks that the workload is untouched: the Node was never tainted, and the pod is unchanged.
    pub async fn workload_untouched(&self, host: &str, pod: &str) -> Result<()> {
        self.stage.never_tainted(&self.recorder, host).await?;
        let found = self.stage.bound_pod(host).await?;
        let found = found.with_context(|| format!("the pod on {host} is gone"))?;
        ensure!(
            found.metadata.uid.as_deref() == Some(pod)
                && found.metadata.deletion_timestamp.is_none(),
            "the pod on {host} was touched: {:?}",
            found.metadata
        );
        Ok(())
    }

    /// Waits for the recovery of a host, and checks: one power cycle, tainted once and only while off.
    pub async fn comes_back(&self, host: &str) -> Result<()> {
        self.tainted_once(host).await?;
        self.stage.one_cycle(host)?;
        // F1: two readings of off, 2 s apart, come before the taint.
        let (tainted, _) = self.recorder.taints(host)[0];
        let log = self.host(host)?.log();
        let off = log
            .iter()
            .rfind(|entry| {
                entry.stamp.at <= tainted && matches!(entry.event, LogEvent::Power(PowerState::Off))
            })
            .with_context(|| format!("{host} was tainted before it was off"))?;
        let confirmed = tainted - off.stamp.at;
        ensure!(
            confirmed.as_secs() >= 2,
            "{host} was tainted {confirmed:?} after the off"
        );
        Ok(())
    }

    pub async fn tainted_once(&self, host: &str) -> Result<()> {
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
        .await?;
        self.stage.wait_back(host).await?;
        self.stage
            .tainted_only_while_off(&self.recorder, host)
            .await?;
        let tainted = self.recorder.taints(host).len();
        ensure!(
            tainted == 2,
            "{host}: tainted and untainted once, not {tainted}"
        );
        Ok(())
    }

    /// Hangs the host without faults, once for all tests.
    pub fn hang_another(&self) -> Result<()> {
        if !self.fine_hangs.swap(true, Ordering::SeqCst) {
            ensure!(self.host("fine-1")?.hang(), "fine-1 was not up");
        }
        Ok(())
    }

    /// Waits until the host without faults has hung and recovered, which shows that others are not delayed.
    pub async fn others_go_on(&self) -> Result<()> {
        self.hang_another()?;
        wait_until("fine-1 has lost its taint", LONG, || async {
            let taints = self.recorder.taints("fine-1");
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{taints:?}"))
            })
        })
        .await?;
        self.stage.wait_back("fine-1").await
    }

    pub async fn blocked_then_back(
        &self,
        host: &str,
        reason: &str,
        clear: impl FnOnce(&SimHost),
    ) -> Result<()> {
        let pod = self.lose(host, false).await?;
        self.stage.wait_blocked(host, reason).await?;
        self.others_go_on().await?;
        self.workload_untouched(host, &pod).await?;
        clear(self.host(host)?);
        self.comes_back(host).await
    }
}
