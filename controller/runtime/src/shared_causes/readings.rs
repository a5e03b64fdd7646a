//! Readings of the BMCs of hosts that failed together, which tell a loss of power from a loss of network.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rackhand_core::{
    fleet::shared_cause::{BmcReading, HostName},
    remediation::{HostRef, PowerDevice, PowerState, Progress},
};
use tokio::{task::JoinSet, time::Instant};

use super::{CauseWatch, fleet::resolve};
use crate::{hosts::bmc_endpoint, store::object::Key};

/// Timeout of one reading of a BMC.
const READING: Duration = Duration::from_secs(10);
/// Interval of the readings of a BMC while its host is failed.
const INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of concurrent readings.
const CONCURRENT: usize = 32;

/// The readings in flight, and the start of the last reading of each host.
#[derive(Default)]
pub(super) struct Readings {
    running: JoinSet<(HostName, Option<BmcReading>)>,
    begun: BTreeMap<HostName, Instant>,
}

impl Readings {
    /// Collects finished readings.
    pub(super) fn collect(&mut self, watch: &CauseWatch) {
        let mut inner = watch.causes.inner.lock();
        while let Some(done) = self.running.try_join_next() {
            if let Ok((name, Some(reading))) = done
                && inner.failures.of_host(&name).is_some()
            {
                inner.readings.insert(name, reading);
            }
        }
    }

    /// Starts due readings for these hosts.
    pub(super) fn start(&mut self, watch: &Arc<CauseWatch>, hosts: &[HostName]) {
        self.begun.retain(|_, begun| begun.elapsed() < INTERVAL);
        for name in hosts {
            if self.running.len() >= CONCURRENT {
                return;
            }
            if self.begun.contains_key(name) {
                continue;
            }
            self.begun.insert(name.clone(), Instant::now());
            let (watch, name) = (watch.clone(), name.clone());
            self.running.spawn(async move {
                let reading = read(&watch, &name).await;
                (name, reading)
            });
        }
    }
}

/// What the BMC of a host reports; `None` if that cannot be known, or a remediation works on the host.
async fn read(watch: &CauseWatch, name: &HostName) -> Option<BmcReading> {
    let (cluster, node) = name.rsplit_once('/')?;
    let cluster = Key::parse(cluster);
    let node = watch.index.node(&cluster, node)?;
    let (host, bmh) = resolve(watch, &cluster, &node)?;
    if is_remediated(watch, &host) {
        return None;
    }
    let is_lost = || watch.agents.of_rack(&host.rack).is_err();
    if is_lost() {
        return Some(BmcReading::AgentLost);
    }
    let endpoint = match &bmh {
        None => None,
        Some(key) => {
            let view = watch.index.host(key)?.view.ok()?;
            let endpoint = bmc_endpoint(&watch.client, key, &view).await;
            Some(endpoint.ok()?)
        }
    };
    let owner = format!("shared-cause-{}", host.host);
    let view = watch
        .queries
        .read_power(&host, endpoint, PowerDevice::Bmc, &owner, READING)
        .await;
    Some(match view.result.map(|reading| reading.state) {
        Ok(PowerState::Off) => BmcReading::Off,
        Ok(PowerState::Unknown) => return None,
        Ok(PowerState::On | PowerState::PoweringOn | PowerState::PoweringOff) => BmcReading::On,
        Err(_) if is_lost() => BmcReading::AgentLost,
        Err(_) => BmcReading::NoResponse,
    })
}

/// Whether a remediation that has begun works on the host.
fn is_remediated(watch: &CauseWatch, host: &HostRef) -> bool {
    let active = watch.active.lock();
    let mut begun = active.values().filter(|r| r.progress == Progress::Begun);
    begun.any(|r| r.bmc.as_ref() == Some(&host.bmc))
}
