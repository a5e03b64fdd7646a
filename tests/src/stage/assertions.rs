//! Waits and assertions of tests.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt};

use super::{Recorder, SYSTEM, Seen, Stage, TAINT, is_ready, objects, wait_until};
use crate::rack::{LogEvent, Overlap, PowerState, ResetType, overlaps};

/// Timeout of waits, long enough for a busy machine.
pub const LONG: Duration = Duration::from_secs(150);

/// Prefix of Rackhand's hold key on a BareMetalHost.
const HOLD: &str = "reboot.metal3.io/rackhand-";

/// On a Node that Rackhand has cordoned.
const CORDONED_BY: &str = "rackhand.dev/cordoned-by";

impl Stage {
    /// Waits until a Machine's remediation satisfies `wanted`.
    ///
    /// # Errors
    /// The condition is not reached in time; the message contains the last state.
    pub async fn wait_remediation(
        &self,
        machine: &str,
        what: &str,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Seen> {
        wait_until(&format!("{machine}: {what}"), LONG, || async {
            Ok(match self.remediation(machine).await? {
                Some(seen) if wanted(&seen) => Ok(seen),
                Some(seen) => Err(format!("{}, {}: {}", seen.step, seen.reason, seen.message)),
                None => Err("there is no remediation".to_owned()),
            })
        })
        .await
    }

    /// Waits for a step.
    ///
    /// # Errors
    /// The expected step, reason or Event does not occur in time.
    pub async fn wait_step(&self, machine: &str, step: &str) -> Result<Seen> {
        self.wait_remediation(machine, step, |seen| {
            // The drain is recorded before the taint is set.
            let is_recorded_early = step == "Draining" && seen.reason == "Tainting";
            seen.step == step && !is_recorded_early
        })
        .await
    }

    /// Waits for a reason and its Warning Event.
    ///
    /// # Errors
    /// The expected step, reason or Event does not occur in time.
    pub async fn wait_blocked(&self, machine: &str, reason: &str) -> Result<Seen> {
        let seen = self
            .wait_remediation(machine, reason, |seen| seen.reason == reason)
            .await?;
        ensure!(
            !seen.message.is_empty(),
            "{machine}: {reason} has no message"
        );
        self.wait_warning(machine, reason).await?;
        Ok(seen)
    }

    /// Waits for a Warning Event.
    ///
    /// # Errors
    /// The expected step, reason or Event does not occur in time.
    pub async fn wait_warning(&self, object: &str, reason: &str) -> Result<()> {
        wait_until(&format!("{object}: Warning {reason}"), LONG, || async {
            let events = self.events(object).await?;
            let told = events.iter().any(|e| {
                e.reason.as_deref() == Some(reason) && e.type_.as_deref() == Some("Warning")
            });
            let reasons: Vec<_> = events.iter().filter_map(|e| e.reason.clone()).collect();
            Ok(if told {
                Ok(())
            } else {
                Err(format!("{reasons:?}"))
            })
        })
        .await
    }

    /// Waits until the BMC of a host has received this many more requests, which shows that it is observed.
    ///
    /// # Errors
    /// The BMC receives too few requests.
    pub async fn wait_looks(&self, host: &str, more: u64) -> Result<()> {
        let enough = self.host(host)?.counters().requests + more;
        wait_until(&format!("{host}: its BMC is read"), LONG, || async {
            let now = self.host(host)?.counters().requests;
            Ok(if now >= enough {
                Ok(())
            } else {
                Err(format!("{now} of {enough}"))
            })
        })
        .await
    }

    /// Waits until the remediation of a host is finished, nothing of it is left (F9), and the Node is Ready.
    ///
    /// # Errors
    /// The state is not reached in time.
    pub async fn wait_back(&self, host: &str) -> Result<()> {
        self.wait_clean(host).await?;
        wait_until(&format!("{host}: Ready"), LONG, || async {
            let node = self.node(host).await?;
            Ok(if is_ready(&node) {
                Ok(())
            } else {
                Err("not Ready".to_owned())
            })
        })
        .await
    }

    /// Waits until nothing is left by this account, and the Node is Ready.
    ///
    /// # Errors
    /// The state is not reached in time.
    pub async fn wait_ready_without(
        &self,
        host: &str,
        left: impl AsyncFn() -> Result<Vec<String>>,
    ) -> Result<()> {
        wait_until(&format!("{host}: back"), LONG, || async {
            let mut left = left().await?;
            if !is_ready(&self.node(host).await?) {
                left.push("not Ready".into());
            }
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            })
        })
        .await
    }

    /// Waits until there is no remediation, no taint, hold key or finalizer is left (F9), and the host is on.
    ///
    /// # Errors
    /// Something is left.
    pub async fn wait_clean(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host}: nothing is left"), LONG, || async {
            let mut left = self.asked_for(host).await?;
            left.extend(self.left_on(host).await?);
            Ok(if left.is_empty() {
                Ok(())
            } else {
                Err(left.join(", "))
            })
        })
        .await
    }

    /// Descriptions of the remediations of a host.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn asked_for(&self, host: &str) -> Result<Vec<String>> {
        if self.config.plain {
            let asked = self.power_remediations_of(host).await?;
            return Ok(asked.iter().map(objects::words).collect());
        }
        let seen = self.remediation(host).await?;
        Ok(seen
            .map(|seen| format!("{}: {} ({})", seen.step, seen.reason, seen.message))
            .into_iter()
            .collect())
    }

    /// Remains of a remediation on Node, BareMetalHost and host.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn left_on(&self, host: &str) -> Result<Vec<String>> {
        let mut left = Vec::new();
        if self.tainted(host).await? {
            left.push(format!("taint {TAINT}"));
        }
        let node = self.node(host).await?;
        if node.annotations().contains_key(CORDONED_BY) {
            left.push("cordon".into());
        }
        if !self.config.plain
            && let Some(bmh) = self.bare_metal_hosts().get_opt(host).await?
        {
            let keys = bmh.annotations().keys().filter(|k| k.starts_with(HOLD));
            left.extend(keys.cloned());
        }
        let power = self.host(host)?.real_power();
        if power != PowerState::On {
            left.push(format!("power {power}"));
        }
        Ok(left)
    }

    /// Checks that the host had exactly one power cycle.
    ///
    /// # Errors
    /// The host had another number of power changes.
    pub fn one_cycle(&self, host: &str) -> Result<()> {
        let counters = self.host(host)?.counters();
        let once = counters.offs == 1 && counters.ons == 1 && counters.resets == 0;
        ensure!(once, "{host}: not one cycle: {counters:?}");
        Ok(())
    }

    /// Checks that the host received no command.
    ///
    /// # Errors
    /// The host received a command.
    pub fn untouched(&self, host: &str) -> Result<()> {
        let counters = self.host(host)?.counters();
        let commands: u64 = counters.commands.values().sum();
        ensure!(
            counters.offs == 0 && commands == 0,
            "{host} was touched: {counters:?}"
        );
        Ok(())
    }

    /// Pods that ran on two hosts at the same time.
    #[must_use]
    pub fn ran_twice(&self) -> Vec<Overlap> {
        overlaps(self.racks().iter().flat_map(|r| r.processes()).collect())
    }

    /// When a host first received a command of this type.
    ///
    /// # Errors
    /// The host never received such a command.
    pub fn commanded(&self, host: &str, wanted: ResetType) -> Result<Instant> {
        let log = self.host(host)?.log();
        let found = log.iter().find(
            |entry| matches!(&entry.event, LogEvent::Command { reset, .. } if *reset == wanted),
        );
        match found {
            Some(entry) => Ok(entry.stamp.at),
            None => anyhow::bail!("{host} never got {wanted:?}"),
        }
    }

    /// Checks F1 and F4 by the log of the host: whenever the taint was set, the host was off, and it stayed
    /// off until the taint was removed.
    ///
    /// # Errors
    /// The host was tainted while it was not off.
    pub async fn tainted_only_while_off(&self, recorder: &Recorder, host: &str) -> Result<()> {
        recorder.catch_up(host).await?;
        let log = self.host(host)?.log();
        for (at, there) in recorder.taints(host) {
            // A taint is observed shortly after it was set. The power at that moment is conclusive, because
            // the next step takes longer.
            let power = log
                .iter()
                .filter(|entry| entry.stamp.at <= at)
                .filter_map(|entry| match entry.event {
                    LogEvent::Power(power) => Some(power),
                    _ => None,
                })
                .next_back();
            ensure!(
                !there || power == Some(PowerState::Off),
                "{host} was tainted while it was {power:?}"
            );
        }
        Ok(())
    }

    /// Checks that Rackhand deleted pods only while the host was off; returns how often it did. The time of a
    /// deletion is that of the controller's clock, which is wrong by at most `clock_error`.
    ///
    /// # Errors
    /// Pods were deleted while the host was not off.
    pub async fn pods_deleted_only_while_off(
        &self,
        host: &str,
        clock_error: Duration,
    ) -> Result<usize> {
        let log = self.host(host)?.log();
        let powers = log.iter().filter_map(|entry| match entry.event {
            LogEvent::Power(power) => Some((entry.stamp.wall, power)),
            _ => None,
        });
        let powers: Vec<_> = powers.collect();
        let mut deletions = 0;
        for event in self.events(host).await? {
            let Some(at) = event.event_time.as_ref().map(|t| t.0) else {
                continue;
            };
            if event.reason.as_deref() != Some("PodsDeleted") {
                continue;
            }
            let (first, last) = (at - clock_error, at + clock_error);
            let before = powers.iter().rfind(|(since, _)| *since <= first);
            let within = powers
                .iter()
                .filter(|(since, _)| *since > first && *since <= last);
            let seen: Vec<_> = before.into_iter().chain(within).collect();
            ensure!(
                seen.iter().any(|(_, power)| *power == PowerState::Off),
                "pods of {host} were deleted at {at}, while it was {seen:?}"
            );
            deletions += 1;
        }
        Ok(deletions)
    }

    /// Checks that the Node was never tainted.
    ///
    /// # Errors
    /// The Node was tainted.
    pub async fn never_tainted(&self, recorder: &Recorder, host: &str) -> Result<()> {
        recorder.catch_up(host).await?;
        let taints = recorder.taints(host);
        ensure!(taints.is_empty(), "{host} was tainted: {taints:?}");
        Ok(())
    }

    /// Holder and term of the leader Lease.
    ///
    /// # Errors
    /// There is none.
    pub async fn leader(&self) -> Result<(String, i32)> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM);
        let lease = leases.get_opt("rackhand-controller").await?;
        let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
        Ok((
            spec.holder_identity.unwrap_or_default(),
            spec.lease_transitions.unwrap_or_default(),
        ))
    }

    /// The report of a failed test: states of remediations, and the ends of all logs.
    pub async fn report(&self) -> String {
        let mut text = String::new();
        if self.config.plain {
            text.push_str(&self.report_of_nodes().await);
        }
        for spec in &self.config.racks {
            for host in &spec.hosts {
                if let Ok(Some(seen)) = self.remediation(host).await {
                    let counters = self.host(host).map(|h| h.counters()).unwrap_or_default();
                    text.push_str(&format!(
                        "--- {host}: {}, {}: {}\n    {counters:?}\n    {}\n",
                        seen.step,
                        seen.reason,
                        seen.message,
                        seen.object["metadata"]["annotations"]
                    ));
                }
            }
        }
        text.push_str(&self.logs());
        text
    }
}
