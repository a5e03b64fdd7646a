//! What stands around Rackhand: hosts with their BMCs and kubelets, the controllers of Kubernetes that
//! matter to a failed node, and baremetal-operator.

mod bmc;
mod cluster;
mod host;
mod kubelet;
mod metal3;
mod objects;

pub use bmc::SimulatedBmcs;
pub(crate) use cluster::{OUT_OF_SERVICE, has_taint};
pub use host::{BmcCondition, Host, HostId, Link, Os, Power};
pub use objects::{CLUSTER, NAMESPACE, SYSTEM};
pub(crate) use objects::{bmc_url, endpoint};

use std::{collections::BTreeMap, time::Duration};

use crate::oracle::Oracle;

/// How a fleet is made up.
#[derive(Debug, Clone)]
pub struct FleetSpec {
    /// The racks: how their hosts are known, and how many there are.
    pub racks: Vec<(Link, usize)>,
    /// Pods with a volume, each an identity that may run once.
    pub pods: usize,
    /// `maxUnhealthy` of the health check.
    pub max_unhealthy: String,
}

impl FleetSpec {
    /// So many hosts in racks of up to `size`, of all links in turn.
    #[must_use]
    pub fn of(hosts: usize, racks: usize) -> Self {
        let links = [Link::Inventory, Link::Managed, Link::Detached];
        let racks = racks.clamp(1, hosts.max(1));
        let size = |rack: usize| hosts / racks + usize::from(rack < hosts % racks);
        let link = |rack: usize| links.get(rack % links.len()).copied();
        Self {
            racks: (0..racks)
                .map(|rack| (link(rack).unwrap_or(Link::Inventory), size(rack)))
                .collect(),
            pods: hosts,
            max_unhealthy: "60%".to_owned(),
        }
    }
}

/// The hosts and what is known of the workload.
pub struct Fleet {
    pub(crate) spec: FleetSpec,
    pub(crate) hosts: Vec<Host>,
    pub(crate) by_name: BTreeMap<String, HostId>,
    pub(crate) oracle: Oracle,
    /// All BMCs report off, always, and switch nothing.
    pub(crate) lying_bmcs: bool,
    /// Until when nothing that Kubernetes' own controllers do happens, because the API was away.
    pub(crate) quiet_until: Duration,
}

impl Fleet {
    /// A fleet whose hosts all run.
    #[must_use]
    pub fn new(spec: FleetSpec) -> Self {
        let mut hosts = Vec::new();
        for (rack, (link, size)) in spec.racks.iter().enumerate() {
            for place in 0..*size {
                hosts.push(Host::new(rack, place, *link));
            }
        }
        let by_name = hosts.iter().enumerate();
        let by_name = by_name.map(|(at, host)| (host.name.clone(), HostId(at)));
        Self {
            by_name: by_name.collect(),
            hosts,
            oracle: Oracle::default(),
            lying_bmcs: false,
            quiet_until: Duration::ZERO,
            spec,
        }
    }

    /// The names of the racks.
    #[must_use]
    pub fn racks(&self) -> Vec<String> {
        (0..self.spec.racks.len()).map(rack_name).collect()
    }

    /// The simulated host with this id.
    #[must_use]
    #[allow(clippy::indexing_slicing, reason = "an id is made with its host")]
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    #[allow(clippy::indexing_slicing, reason = "an id is made with its host")]
    pub(crate) fn host_mut(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.0]
    }

    /// All hosts.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    /// The host of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<HostId> {
        self.by_name.get(name).copied()
    }

    /// What has been judged so far.
    #[must_use]
    pub fn oracle(&self) -> &Oracle {
        &self.oracle
    }
}

pub(crate) fn rack_name(rack: usize) -> String {
    format!("r{rack}")
}

impl Fleet {
    /// How many hosts the limit of the health check allows to be remediated at one time.
    pub(crate) fn limit(&self) -> usize {
        let percent = self.spec.max_unhealthy.trim_end_matches('%');
        let percent: usize = percent.parse().unwrap_or(100);
        // As Cluster API rounds: down.
        self.hosts.len() * percent / 100
    }
}
