//! The stage of these tests, with hosts of baremetal-operator.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use rackhand_tests::{
    bmo::Metal3,
    rack::{LogEvent, ResetType, SimHost},
    stage::{LONG, Recorder, Seen, Stage, wait_until},
};
use serde_json::{Value, json};

pub const HOLD: &str = "reboot.metal3.io/rackhand-";

pub const SOMEBODY: &str = "reboot.metal3.io/somebody-else";

pub const PAUSED: &str = "baremetalhost.metal3.io/paused";

pub const DETACHED: &str = "baremetalhost.metal3.io/detached";

/// Sender of the agent's commands in the logs of hosts: its user name at the BMCs.
pub const AGENT: &str = "rackhand";

pub const IRONIC: &str = "ironic";

/// Grace period of baremetal-operator before the agent acts.
pub const GRACE: Duration = Duration::from_secs(10);

pub const OFF: ResetType = ResetType::ForceOff;

pub const ON: ResetType = ResetType::On;

/// Hosts of a baremetal-operator and an Ironic without faults.
pub const WELL: [&str; 14] = [
    "path-1",
    "sync-1",
    "foreign-1",
    "offline-1",
    "paused-1",
    "paused-2",
    "serv-1",
    "serv-2",
    "new-1",
    "gone-1",
    "keep-1",
    "det-1",
    "det-2",
    "plain-1",
];

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
    pub well: Metal3,
    /// baremetal-operator is stopped before the hold.
    pub down: Metal3,
    /// Both are stopped once the host is held.
    pub held: Metal3,
    /// Ironic runs without the operator, and syncs so slowly that an off can be confirmed between.
    pub late: Metal3,
    /// A release that deletes foreign hold keys.
    pub _old: Metal3,
    /// Ironic's power changes fail, and its sync does not force.
    pub ill: Metal3,
    /// baremetal-operator is late with the power-on.
    pub slow: Metal3,
    /// baremetal-operator stops before the power-on.
    pub away: Metal3,
    /// The same, and nobody starts them again.
    pub alone: Metal3,
    /// baremetal-operator backs off for so long that a test does not wait for it, and Ironic's sync does not force.
    pub weary: Metal3,
}

impl World {
    pub fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    /// Hangs the host, with a pod that stays in the API until [`Stage::let_pod_go`], and waits until the
    /// drain is blocked by it.
    pub async fn draining(&self, host: &str) -> Result<()> {
        self.stage.bind_pod(host, true).await?;
        self.host(host)?
            .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        self.hang(host)?;
        self.stage.wait_step(host, "Draining").await.map(drop)
    }

    /// Hangs the host, and stops baremetal-operator once the host is held. Ironic is stopped already, so that the
    /// owner has the host as on.
    pub async fn held_and_left(&self, metal3: &Metal3, host: &str) -> Result<Seen> {
        metal3.stop_ironic();
        self.hang(host)?;
        wait_until(&format!("{host} is held"), LONG, || async {
            let seen = self.is_held(host).await?;
            Ok(seen.then_some(()).ok_or_else(|| "no hold".to_owned()))
        })
        .await?;
        metal3.stop_operator();
        self.stage.wait_blocked(host, "OwnerDoesNotReportOff").await
    }

    pub fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    /// All commands that a host has received, in order, with their senders.
    pub fn commands(&self, host: &str) -> Result<Vec<(String, ResetType)>> {
        let log = self.host(host)?.log();
        let commands = log.into_iter().filter_map(|entry| match entry.event {
            LogEvent::Command { reset, by, .. } => Some((by, reset)),
            _ => None,
        });
        Ok(commands.collect())
    }

    /// Waits until the remediation is finished, the Node is Ready and nothing is left, and checks that the
    /// host received exactly these commands in one power cycle.
    pub async fn back_by(&self, host: &str, wanted: &[(&str, ResetType)]) -> Result<()> {
        self.untainted(host).await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)?;
        let got = self.commands(host)?;
        let got: Vec<(&str, ResetType)> = got.iter().map(|(by, r)| (by.as_str(), *r)).collect();
        ensure!(got == wanted, "{host} got {got:?}, not {wanted:?}");
        self.stage
            .tainted_only_while_off(&self.recorder, host)
            .await
    }

    /// Waits until the taint was set once and removed.
    pub async fn untainted(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let seen = seen.map(|s| (s.step, s.reason, s.message));
            let taints = self.recorder.taints(host);
            let over = taints.len() >= 2 && taints.last().is_some_and(|(_, there)| !there);
            Ok(if over {
                Ok(())
            } else {
                Err(format!("{taints:?} {seen:?}"))
            })
        })
        .await
    }

    /// Waits until baremetal-operator reports the host off.
    pub async fn reports_off(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} is reported off"), LONG, || async {
            let object = self.stage.bare_metal_hosts().get(host).await?;
            let seen = object.data["status"]["poweredOn"].clone();
            Ok(if seen == false {
                Ok(())
            } else {
                Err(seen.to_string())
            })
        })
        .await
    }

    /// Checks that nobody switches a host off that is back: longer than the two minutes of Ironic's power sync,
    /// with its shortened period.
    pub async fn stays_on(&self, metal3: &Metal3, host: &str) -> Result<()> {
        let offs = self.host(host)?.counters().offs;
        self.synced(metal3, host, 3).await?;
        let (now, sent) = (self.host(host)?.counters().offs, metal3.sent(host)?);
        ensure!(now == offs, "{host} was switched off again: {sent:?}");
        Ok(())
    }

    /// Waits until Ironic has synced a host this many more times.
    pub async fn synced(&self, metal3: &Metal3, host: &str, more: u32) -> Result<()> {
        let enough = metal3.sent(host)?.syncs + more;
        wait_until(&format!("{host} is synced"), LONG, || async {
            let syncs = metal3.sent(host)?.syncs;
            Ok(if syncs >= enough {
                Ok(())
            } else {
                Err(format!("{syncs} of {enough}"))
            })
        })
        .await
    }

    /// Whether the host carries a hold key of Rackhand.
    pub async fn is_held(&self, host: &str) -> Result<bool> {
        let object = self.stage.bare_metal_hosts().get(host).await?;
        let mut keys = object.annotations().keys();
        Ok(keys.any(|key| key.starts_with(HOLD)))
    }

    pub async fn patch(&self, host: &str, spec: Value) -> Result<()> {
        let (params, body) = (
            PatchParams::default(),
            Patch::Merge(json!({ "spec": spec })),
        );
        let hosts = self.stage.bare_metal_hosts();
        hosts.patch(host, &params, &body).await?;
        Ok(())
    }

    pub async fn provisioning(&self, host: &str, state: &str) -> Result<()> {
        let body = json!({ "status": { "provisioning": { "state": state } } });
        let hosts = self.stage.bare_metal_hosts();
        hosts
            .patch_status(host, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        Ok(())
    }

    pub async fn annotate(&self, host: &str, key: &str, value: Option<&str>) -> Result<()> {
        let hosts = self.stage.bare_metal_hosts();
        self.stage.annotate(&hosts, host, key, value).await
    }

    pub async fn operational(&self, host: &str, wanted: &str) -> Result<()> {
        wait_until(&format!("{host} is {wanted}"), LONG, || async {
            let object = self.stage.bare_metal_hosts().get(host).await?;
            let seen = object.data["status"]["operationalStatus"].clone();
            Ok(if seen == wanted {
                Ok(())
            } else {
                Err(seen.to_string())
            })
        })
        .await
    }

    /// Hangs a host, waits until its remediation is blocked by this reason without any command, and checks
    /// that baremetal-operator brings it back after `cleared`.
    pub async fn blocked_until(
        &self,
        host: &str,
        reason: &str,
        cleared: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        self.hang(host)?;
        self.stage.wait_blocked(host, reason).await?;
        self.synced(&self.well, host, 1).await?;
        self.stage.untouched(host)?;
        let holds = self.recorder.holds(host, HOLD);
        ensure!(holds.is_empty(), "{host} was held: {holds:?}");
        cleared.await?;
        self.back_by(host, &[(IRONIC, OFF), (AGENT, OFF), (IRONIC, ON)])
            .await
    }
}
