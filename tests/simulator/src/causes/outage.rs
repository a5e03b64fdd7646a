//! The fleet and the outages that happen to it.

use std::{collections::BTreeSet, time::Duration};

use fastrand::Rng;
use rackhand_core::{
    fleet::placement::Placement,
    fleet::shared_cause::{BmcReading, Domain, DomainKind, HostName, Likely},
};

/// Four clusters of fifteen racks of twenty hosts.
pub(super) const CLUSTERS: usize = 4;
pub(super) const RACKS: usize = 60;
pub(super) const PER_RACK: usize = 20;
pub(super) const HOSTS: usize = RACKS * PER_RACK;
const RACKS_OF_CLUSTER: usize = RACKS / CLUSTERS;

/// How long an outage lasts, but for a bad kernel, which stays.
pub(super) const OUTAGE: Duration = Duration::from_secs(720);

/// Until when failures are generated.
pub(super) const END: Duration = Duration::from_secs(3600);

/// Hosts that fail for themselves in an hour: each host about every eight days, which is often.
const OTHERS_PER_HOUR: f64 = 6.0;

const OLD_KERNEL: &str = "6.8.0-45";
const NEW_KERNEL: &str = "6.8.0-47";

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A rack loses its power: in one moment, or while its batteries end within 90 s.
    RackPower,
    /// The switch of a rack fails.
    RackSwitch,
    /// A switch fails that connects half of the hosts of two racks.
    RowSwitch,
    /// A PDU fails that alone feeds a quarter of the hosts of its rack.
    Pdu,
    /// A rolling update installs a kernel with which most Nodes fail.
    Kernel,
    /// The kubelets of a cluster do not reach its API server.
    ApiServer,
    /// Nothing but hosts that fail for themselves.
    Independent,
}

/// An outage, or none.
pub(super) struct Outage {
    /// When each host fails, in the order of time.
    pub(super) failures: Vec<(Duration, usize)>,
    /// When the outage ends; `None`: never.
    pub(super) ends: Option<Duration>,
    /// How long a host takes to be back after that, at least and at most.
    pub(super) back: (u64, u64),
    /// What the hosts share.
    pub(super) domain: Option<Domain>,
    /// What has to be likely.
    pub(super) likely: &'static [Likely],
    /// What BMCs of its hosts report.
    pub(super) bmc: BmcReading,
    /// When Nodes get the new kernel.
    pub(super) updates: Vec<(Duration, usize)>,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::RackPower,
        Self::RackSwitch,
        Self::RowSwitch,
        Self::Pdu,
        Self::Kernel,
        Self::ApiServer,
        Self::Independent,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RackPower => "rack power",
            Self::RackSwitch => "top-of-rack switch",
            Self::RowSwitch => "switch of two racks",
            Self::Pdu => "PDU",
            Self::Kernel => "bad kernel",
            Self::ApiServer => "API server away",
            Self::Independent => "none",
        }
    }

    /// An outage of this kind.
    pub(super) fn outage(self, rng: &mut Rng) -> Outage {
        let begins = Duration::from_secs(rng.u64(600..1200));
        let rack = rng.usize(0..RACKS);
        let of_rack = rack * PER_RACK..(rack + 1) * PER_RACK;
        let mut outage = Outage {
            failures: Vec::new(),
            ends: Some(begins + OUTAGE),
            back: (5, 60),
            domain: None,
            likely: &[Likely::Network],
            bmc: BmcReading::On,
            updates: Vec::new(),
        };
        let hosts: Vec<usize> = match self {
            Self::RackPower => {
                outage.back = (120, 300);
                outage.likely = &[Likely::PowerLoss, Likely::RackUnreachable];
                outage.bmc = one_of(rng, BmcReading::NoResponse, BmcReading::AgentLost);
                outage.domain = Some(Domain::new(DomainKind::Rack, rack_name(rack)));
                of_rack.collect()
            }
            Self::RackSwitch => {
                outage.likely = &[Likely::Network, Likely::RackUnreachable];
                // The management network is another one as a rule; otherwise the agent is cut off too.
                outage.bmc = one_of(rng, BmcReading::On, BmcReading::AgentLost);
                outage.domain = Some(Domain::new(DomainKind::Rack, rack_name(rack)));
                of_rack.collect()
            }
            Self::RowSwitch => {
                outage.bmc = one_of(rng, BmcReading::On, BmcReading::NoResponse);
                let first = rack / 2 * 2 * PER_RACK;
                outage.domain = Some(Domain::new(DomainKind::Switch, switch(first)));
                let row = first..first + 2 * PER_RACK;
                row.filter(|host| host.is_multiple_of(2)).collect()
            }
            Self::Pdu => {
                outage.back = (120, 300);
                outage.likely = &[Likely::PowerLoss];
                outage.bmc = BmcReading::NoResponse;
                outage.domain = Some(Domain::new(DomainKind::Pdu, format!("pdu-{rack}-a")));
                of_rack.filter(|host| host.is_multiple_of(4)).collect()
            }
            Self::Kernel => return Self::rollout(rng, rack / RACKS_OF_CLUSTER, outage),
            Self::ApiServer => {
                outage.likely = &[Likely::ClusterWide];
                let cluster = rack / RACKS_OF_CLUSTER;
                outage.domain = Some(Domain::new(DomainKind::Cluster, cluster_name(cluster)));
                let size = RACKS_OF_CLUSTER * PER_RACK;
                (cluster * size..(cluster + 1) * size).collect()
            }
            Self::Independent => Vec::new(),
        };
        let batteries = self == Self::RackPower && rng.f64() < 0.3;
        for host in hosts {
            let late = if batteries { rng.u64(0..90_000) } else { 0 };
            // A few hosts of an outage come through it.
            if rng.f64() < 0.95 {
                outage
                    .failures
                    .push((begins + Duration::from_millis(late), host));
            }
        }
        outage.failures.sort_unstable();
        outage
    }

    /// One Node after the other is updated, and nine of ten fail within minutes.
    fn rollout(rng: &mut Rng, cluster: usize, mut outage: Outage) -> Outage {
        outage.ends = None;
        outage.likely = &[Likely::Kernel];
        let name = cluster_name(cluster);
        let kernel = format!("{NEW_KERNEL} of cluster {name}");
        outage.domain = Some(Domain::new(DomainKind::Kernel, kernel));
        let size = RACKS_OF_CLUSTER * PER_RACK;
        let mut hosts: Vec<usize> = (cluster * size..(cluster + 1) * size).collect();
        rng.shuffle(&mut hosts);
        let mut time = 600;
        // Somebody stops a rollout of which ten Nodes have failed.
        for host in hosts.into_iter().take(12) {
            time += rng.u64(120..480);
            outage.updates.push((Duration::from_secs(time), host));
            if rng.f64() < 0.9 {
                let fails = time + rng.u64(10..300);
                outage.failures.push((Duration::from_secs(fails), host));
            }
        }
        outage.failures.sort_unstable();
        outage
    }
}

/// Hosts that fail for themselves, outside of the outage.
pub(super) fn others(rng: &mut Rng, of_outage: &BTreeSet<usize>) -> Vec<(Duration, usize)> {
    let mut failures: Vec<(Duration, usize)> = Vec::new();
    let mut time = 0.0;
    loop {
        time += -3600.0 / OTHERS_PER_HOUR * (1.0 - rng.f64()).ln();
        if time >= END.as_secs_f64() {
            return failures;
        }
        let host = rng.usize(0..HOSTS);
        let is_known = failures.iter().any(|(_, known)| *known == host);
        if !is_known && !of_outage.contains(&host) {
            failures.push((Duration::from_secs_f64(time), host));
        }
    }
}

fn one_of(rng: &mut Rng, often: BmcReading, seldom: BmcReading) -> BmcReading {
    if rng.f64() < 0.7 { often } else { seldom }
}

pub(super) fn host_name(host: usize) -> HostName {
    let cluster = host / PER_RACK / RACKS_OF_CLUSTER;
    format!("{}/n{host}", cluster_name(cluster)).into()
}

fn cluster_name(cluster: usize) -> String {
    format!("prod/c{cluster}")
}

fn rack_name(rack: usize) -> String {
    format!("rack-{rack}")
}

fn switch(host: usize) -> String {
    format!("sw-{}-{}", host / PER_RACK / 2, host % 2)
}

/// Where a host is. Three of four hosts have two power supplies at two PDUs.
pub(super) fn placement(host: usize, is_updated: bool) -> Placement {
    let rack = host / PER_RACK;
    let kernel = if is_updated { NEW_KERNEL } else { OLD_KERNEL };
    let mut pdus = BTreeSet::from([format!("pdu-{rack}-a")]);
    if !host.is_multiple_of(4) {
        pdus.insert(format!("pdu-{rack}-b"));
    }
    Placement {
        cluster: Some(cluster_name(rack / RACKS_OF_CLUSTER)),
        rack: Some(rack_name(rack)),
        pdus,
        switches: BTreeSet::from([switch(host)]),
        kernel: Some(kernel.to_owned()),
        labels: None,
    }
}
