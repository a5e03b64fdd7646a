//! Waits and assertions about real hosts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{RealSite, Report};
use crate::stage::{LONG, TAINT, wait_until};

/// How long a report may be under way.
const UNDER_WAY: Duration = Duration::from_secs(2);

impl RealSite {
    /// Waits for a report of a Pod that arrives from now on.
    ///
    /// # Errors
    /// None comes in time.
    pub async fn wait_report(
        &self,
        pod: &str,
        what: &str,
        wanted: impl Fn(&Report) -> bool,
    ) -> Result<Report> {
        let since = Instant::now();
        wait_until(&format!("{pod}: {what}"), 2 * LONG, || async {
            let last = self.reports.last(pod);
            let fits = last
                .clone()
                .filter(|report| report.at > since && wanted(report));
            Ok(fits.ok_or_else(|| format!("{last:?}")))
        })
        .await
    }

    /// The boot ID that the Node of a host shows.
    ///
    /// # Errors
    /// The Node does not exist.
    pub async fn boot_id(&self, name: &str) -> Result<String> {
        let status = self.stage.node(name).await?.status;
        let info = status.and_then(|status| status.node_info);
        Ok(info.map(|info| info.boot_id).unwrap_or_default())
    }

    /// The last report of a Pod.
    ///
    /// # Errors
    /// It never reported.
    pub fn last_report(&self, pod: &str) -> Result<Report> {
        let last = self.reports.last(pod);
        last.with_context(|| format!("{pod} never reported"))
    }

    /// Waits until a host was remediated: there was a remediation, it is gone, it left no taint, and the Node is
    /// Ready after another boot than this one.
    ///
    /// # Errors
    /// It does not become so in time.
    pub async fn wait_back(&self, name: &str, old_boot: &str) -> Result<()> {
        self.recorder.wait_created(name).await?;
        wait_until(&format!("{name}: back"), 4 * LONG, || async {
            if let Some(seen) = self.stage.remediation(name).await? {
                return Ok(Err(format!(
                    "{}, {}: {}",
                    seen.step, seen.reason, seen.message
                )));
            }
            let tainted = self.stage.tainted(name).await?;
            let boot = self.boot_id(name).await?;
            Ok(if tainted || boot == old_boot {
                Err(format!("taint {TAINT}: {tainted}, boot ID {boot}"))
            } else {
                Ok(())
            })
        })
        .await?;
        self.wait_ready(name).await.map(drop)
    }

    /// Checks that the host was switched off and on once since its first start, and by its BMC.
    ///
    /// # Errors
    /// Its power changed otherwise.
    pub fn one_cycle(&self, name: &str) -> Result<()> {
        let changes = self.host(name)?.power_changes();
        let on: Vec<bool> = changes.iter().map(|change| change.on).collect();
        ensure!(
            on == [true, false, true],
            "{name}: not one cycle: {changes:?}"
        );
        Ok(())
    }

    /// Checks that the power of a host did not change since its first start.
    ///
    /// # Errors
    /// It did.
    pub fn never_switched(&self, name: &str) -> Result<()> {
        let changes = self.host(name)?.power_changes();
        ensure!(changes.len() == 1, "{name} was switched: {changes:?}");
        Ok(())
    }

    /// Checks that the Node of a host had the taint only while the host was off, and returns how often.
    ///
    /// # Errors
    /// It was tainted while the host was on.
    pub async fn tainted_only_while_off(&self, name: &str) -> Result<usize> {
        self.recorder.catch_up(name).await?;
        let changes = self.host(name)?.power_changes();
        let taints = self.recorder.taints(name);
        let set: Vec<Instant> = taints.iter().filter(|t| t.1).map(|t| t.0).collect();
        for at in &set {
            let power = changes.iter().rfind(|change| change.at <= *at);
            ensure!(
                power.is_some_and(|change| !change.on),
                "{name} was tainted while it was on: {changes:?}"
            );
        }
        Ok(set.len())
    }

    /// Checks that no Pod ran in two boots or on two hosts at once, and that none reported from a host that was
    /// off.
    ///
    /// # Errors
    /// One did; the error names both places.
    pub fn nothing_ran_twice(&self) -> Result<()> {
        let mut places: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for report in self.reports.all() {
            let place = (report.host.clone(), report.boot.clone());
            let of_pod = places.entry(report.pod.clone()).or_default();
            if of_pod.last() != Some(&place) {
                let left = of_pod.contains(&place);
                ensure!(!left, "{report:?}, after it ran elsewhere: {of_pod:?}");
                of_pod.push(place);
            }
            let changes = self.host(&report.host)?.power_changes();
            let off_at = |at: Instant| {
                let last = changes.iter().rfind(|change| change.at <= at);
                last.is_some_and(|change| !change.on)
            };
            let off = off_at(report.at - UNDER_WAY) && off_at(report.at);
            ensure!(!off, "{report:?} while the host was off: {changes:?}");
        }
        Ok(())
    }
}
