//! What stands around Rackhand: hosts with their BMCs and kubelets, the controllers of Kubernetes that
//! matter to a failed node, and baremetal-operator.

mod bmc;
mod cluster;
mod etcd;
mod host;
mod journals;
mod kubelet;
mod metal3;
mod objects;
pub(crate) mod pdu;
mod planned;
mod policy;

pub use bmc::SimulatedBmcs;
pub(crate) use cluster::{OUT_OF_SERVICE, has_taint};
pub use host::{BmcCondition, Check, Host, HostId, Link, Os, Power};
pub use objects::{CLUSTER, NAMESPACE, SYSTEM};
pub(crate) use objects::{FROZEN, bmc_url, cluster_of_kubeconfig, endpoint};
pub(crate) use planned::is_by_check;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use crate::{breakage::Breakage, oracle::Oracle};

/// How a fleet is made up.
#[derive(Debug, Clone)]
pub struct FleetSpec {
    /// The racks: how their hosts are known, and how many there are.
    pub racks: Vec<(Link, usize)>,
    /// Pods with a volume, each an identity that may run once.
    pub pods: usize,
    /// The health checks, under which hosts are in turn.
    pub checks: Vec<Check>,
    /// For how many hosts there is a MachineHealthCheck of Cluster API of its own; `None`: one for all of its kind.
    pub hosts_of_check: Option<usize>,
    /// How many hosts a workload cluster has, each with an API server of its own; `None`: all are in one cluster, which is
    /// the management cluster too.
    pub hosts_of_cluster: Option<usize>,
    /// Of a hundred hosts under a health check, how many may be remediated at one time.
    pub max_unhealthy: usize,
    /// Whether each second rack has two agents.
    pub second_agents: bool,
    /// How many hosts of a rack a PowerPolicy lets be remediated at one time.
    pub rack_budget: Option<usize>,
    /// Whether racks of an inventory have two PDUs, with outlets that feed two of three of their hosts.
    pub pdus: bool,
}

impl fmt::Display for FleetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agents = (0..self.racks.len()).map(|rack| self.agents(rack).len());
        write!(
            f,
            "{} hosts in {} racks with {} agents and 2 controllers, {} pods with volumes",
            self.hosts(),
            self.racks.len(),
            agents.sum::<usize>(),
            self.pods,
        )
    }
}

impl FleetSpec {
    /// The names of the agents of a rack.
    #[must_use]
    pub fn agents(&self, rack: usize) -> Vec<String> {
        let name = rack_name(rack);
        if self.second_agents && rack.is_multiple_of(2) {
            ["a", "b"].map(|at| format!("{name}-{at}")).to_vec()
        } else {
            vec![name]
        }
    }

    /// Whether a rack has PDUs that its agents know.
    #[must_use]
    pub(crate) fn has_pdus(&self, rack: usize) -> bool {
        let link = self.racks.get(rack).map(|(link, _)| *link);
        self.pdus && link == Some(Link::Inventory)
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.racks.iter().map(|(_, size)| size).sum()
    }

    /// So many hosts in so many racks, under three health checks in turn. The links of the racks are in
    /// turn too. A seed tells which comes first, and whose the third check is.
    #[must_use]
    pub fn of(hosts: usize, racks: usize, seed: u64) -> Self {
        let links = [Link::Inventory, Link::Managed, Link::Detached];
        let racks = racks.clamp(1, hosts.max(1));
        let size = |rack: usize| hosts / racks + usize::from(rack < hosts % racks);
        let first = usize::try_from(seed % 3).unwrap_or(0);
        // Beside a MachineHealthCheck of OpenShift, one of medik8s is disabled.
        let last = if seed.is_multiple_of(2) {
            Check::Node
        } else {
            Check::OpenShift
        };
        let link = |rack: usize| links.get((first + rack) % links.len()).copied();
        Self {
            racks: (0..racks)
                .map(|rack| (link(rack).unwrap_or(Link::Inventory), size(rack)))
                .collect(),
            pods: hosts,
            checks: vec![Check::Metal3, Check::Power, last],
            hosts_of_check: None,
            hosts_of_cluster: None,
            max_unhealthy: 60,
            second_agents: true,
            rack_budget: Some(2),
            pdus: true,
        }
    }
}

/// Requests to BMCs that are under way.
#[derive(Debug, Default)]
pub(crate) struct BmcRequests {
    now: usize,
    by_rack: BTreeMap<usize, usize>,
    /// The most at one time.
    pub(crate) most: usize,
    /// The most at one time in one rack.
    pub(crate) most_of_rack: usize,
}

impl BmcRequests {
    fn begin(&mut self, rack: usize) {
        self.now += 1;
        self.most = self.most.max(self.now);
        let here = self.by_rack.entry(rack).or_default();
        *here += 1;
        self.most_of_rack = self.most_of_rack.max(*here);
    }

    fn end(&mut self, rack: usize) {
        self.now = self.now.saturating_sub(1);
        if let Some(here) = self.by_rack.get_mut(&rack) {
            *here = here.saturating_sub(1);
        }
    }
}

/// The hosts and what is known of the workload.
pub struct Fleet {
    pub(crate) spec: FleetSpec,
    pub(crate) hosts: Vec<Host>,
    pub(crate) by_name: BTreeMap<String, HostId>,
    /// How many hosts are under each health check.
    by_check: BTreeMap<Check, usize>,
    /// The first host of each rack.
    first_of_rack: Vec<usize>,
    pub(crate) oracle: Oracle,
    pub(crate) journals: journals::Journals,
    pub(crate) bmc_requests: BmcRequests,
    pdus: BTreeMap<pdu::PduId, pdu::PduCondition>,
    /// Where containers of a pod were started; they may have ended.
    pub(crate) started_on: BTreeMap<String, BTreeSet<HostId>>,
    /// Since when Nodes are gone.
    pub(crate) missing: BTreeMap<String, Duration>,
    /// The assumption that does not hold, in a test of the oracle.
    pub(crate) breakage: Option<Breakage>,
    /// The hosts that are remediated and frozen, for the judgement of the PowerPolicy.
    pub(crate) policy: policy::PolicyRecord,
    /// What people have planned.
    pub(crate) planned: planned::PlannedWork,
    /// Until when nothing that Kubernetes' own controllers do happens, because the API was away.
    pub(crate) quiet_until: Duration,
}

impl Fleet {
    /// A fleet whose hosts all run.
    #[must_use]
    pub fn new(spec: FleetSpec) -> Self {
        let mut hosts = Vec::new();
        let mut first_of_rack = Vec::new();
        for (rack, (link, size)) in spec.racks.iter().enumerate() {
            first_of_rack.push(hosts.len());
            for place in 0..*size {
                let check = spec.checks.get(hosts.len() % spec.checks.len().max(1));
                let check = check.copied().unwrap_or(Check::Metal3);
                let mut host = Host::new(rack, place, *link, check);
                if let Some(size) = spec.hosts_of_check {
                    host.pool = format!("{}-{}", check.name(), hosts.len() / size.max(1));
                }
                if let Some(size) = spec.hosts_of_cluster {
                    host.cluster = Some(hosts.len() / size.max(1));
                    host.name = format!("{}{}", node_prefix(hosts.len() / size.max(1)), host.name);
                }
                if spec.has_pdus(rack) {
                    host.feeds = pdu::Feeds::at(place);
                }
                hosts.push(host);
            }
        }
        etcd::choose_members(&mut hosts);
        let mut by_check = BTreeMap::new();
        for host in &hosts {
            *by_check.entry(host.check).or_default() += 1;
        }
        let by_name = hosts.iter().enumerate();
        let by_name = by_name.map(|(at, host)| (host.name.clone(), HostId(at)));
        Self {
            by_name: by_name.collect(),
            by_check,
            first_of_rack,
            hosts,
            oracle: Oracle::default(),
            journals: journals::Journals::default(),
            bmc_requests: BmcRequests::default(),
            pdus: BTreeMap::new(),
            started_on: BTreeMap::new(),
            missing: BTreeMap::new(),
            breakage: None,
            policy: policy::PolicyRecord::default(),
            planned: planned::PlannedWork::default(),
            quiet_until: Duration::ZERO,
            spec,
        }
    }

    /// The host at a place of a rack.
    #[must_use]
    pub(crate) fn at(&self, rack: usize, place: usize) -> Option<HostId> {
        let first = self.first_of_rack.get(rack)?;
        let (_, size) = self.spec.racks.get(rack)?;
        (place < *size).then_some(HostId(first + place))
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

    pub(crate) fn pdu(&self, id: pdu::PduId) -> pdu::PduCondition {
        self.pdus.get(&id).cloned().unwrap_or_default()
    }

    pub(crate) fn pdu_mut(&mut self, id: pdu::PduId) -> &mut pdu::PduCondition {
        self.pdus.entry(id).or_default()
    }

    /// The places of the hosts on which a pod may run: those of its cluster.
    fn hosts_for(&self, pod: &str) -> std::ops::Range<usize> {
        let all = self.hosts.len();
        let Some(size) = self
            .spec
            .hosts_of_cluster
            .filter(|size| (1..all).contains(size))
        else {
            return 0..all;
        };
        let number = pod
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok());
        let first = number.unwrap_or(0_usize) % all.div_ceil(size) * size;
        first..(first + size).min(all)
    }

    /// All hosts.
    pub fn ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len()).map(HostId)
    }

    /// The first host of each health check.
    pub(crate) fn one_of_each_check(&self) -> Vec<HostId> {
        let mut seen = BTreeSet::new();
        let first = |id: &HostId| seen.insert(self.host(*id).check);
        self.ids().filter(first).collect()
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

/// How the names of the Nodes of a workload cluster begin, where there are several.
pub(crate) fn node_prefix(cluster: usize) -> String {
    format!("c{cluster}-")
}

pub(crate) fn rack_name(rack: usize) -> String {
    format!("r{rack}")
}

impl Fleet {
    /// How many hosts are under a health check.
    pub(crate) fn count(&self, check: Check) -> usize {
        self.by_check.get(&check).copied().unwrap_or(0)
    }

    /// How many hosts under a health check may be remediated at one time.
    pub(crate) fn limit(&self, check: Check) -> usize {
        // As Cluster API rounds: down.
        self.count(check) * self.spec.max_unhealthy / 100
    }
}
