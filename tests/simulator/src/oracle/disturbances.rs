//! Until when faults act: what is judged by a time is judged from then on.

use std::{collections::BTreeMap, time::Duration};

use crate::fleet::HostId;

/// Until when faults act, beside those of hosts themselves; with the time to start again.
#[derive(Debug, Default)]
pub(crate) struct Disturbances {
    all: Duration,
    racks: BTreeMap<usize, Duration>,
    hosts: BTreeMap<HostId, Duration>,
}

impl Disturbances {
    pub(crate) fn add_for_all(&mut self, until: Duration) {
        self.all = self.all.max(until);
    }

    pub(crate) fn add_for_rack(&mut self, rack: usize, until: Duration) {
        let known = self.racks.entry(rack).or_default();
        *known = (*known).max(until);
    }

    pub(crate) fn add_for_host(&mut self, host: HostId, until: Duration) {
        let known = self.hosts.entry(host).or_default();
        *known = (*known).max(until);
    }

    pub(crate) fn until(&self, host: HostId, rack: usize) -> Duration {
        let rack = self.racks.get(&rack).copied().unwrap_or_default();
        let host = self.hosts.get(&host).copied().unwrap_or_default();
        self.all.max(rack).max(host)
    }
}
