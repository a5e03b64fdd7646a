//! Periodic readings of the fleet's BMCs between remediations, and hardware signals ([`signals`]).
//!
//! The readings find a BMC that could not fence its host, or that manages another host, before a remediation
//! needs it. They also find hosts that are on while their owner records them as off.
//!
//! Owns: the Node condition [`FENCING_UNAVAILABLE`] and the metric of the same name. Must never: switch
//! anything, delay a remediation, or report a BMC because its agent does not answer.

mod condition;
mod metrics;
mod owner;
pub(crate) mod signals;
pub(crate) mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::Client;
use rackhand_core::{
    fleet::bmc_health::{BmcHealth, UnavailableCause},
    fleet::bmc_identity::{BmcIdentity, ExpectedHost, NodeUuids, compare_with_node},
    limits::power_owner::OwnerDifference,
    remediation::{PowerDevice, PowerReading, PowerState},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::metrics::BmcCounts;
pub(crate) use self::metrics::BmcWatchMetrics;
use self::watched::{Fleet, Watched, resolve};
use crate::{
    agents::{AgentConnections, AgentQueries},
    clusters::{Workloads, node_facts, node_label},
    hosts::{ActiveRemediations, topology::Topologies},
    leader::{events::Events, writer::Writer},
    store::{index::Index, object::Key, time_slice::TimeSlice, watch::pause},
};

/// Interval of the search for BMCs with a due reading.
const TICK: Duration = Duration::from_secs(5);
/// Maximum age of the resolved hosts of the fleet and their agents. The resolution costs CPU time in
/// proportion to the fleet.
const RESOLVED_FOR: Duration = Duration::from_secs(60);
/// Timeout of one reading of a BMC.
const READING: Duration = Duration::from_secs(20);
/// Maximum number of concurrent readings; a BMC that does not answer takes [`READING`].
const CONCURRENT: usize = 64;

/// The state of one host from its readings.
struct Seen {
    health: BmcHealth,
    owner: OwnerDifference,
}

/// One reading of a BMC.
struct Reading {
    power: PowerState,
    /// How its identity differs from that of the Node.
    other_system: Option<String>,
}

/// Dependencies of the BMC readings.
pub(crate) struct BmcWatch {
    pub(crate) client: Client,
    pub(crate) index: Arc<Index>,
    pub(crate) workloads: Arc<Workloads>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<BmcWatchMetrics>,
    /// Active remediations, which read the BMCs of their hosts themselves.
    pub(crate) active: Arc<ActiveRemediations>,
    /// The topology of hosts as their BMCs report it.
    pub(crate) topologies: Arc<Topologies>,
    /// Interval between two readings of each BMC; zero disables the readings.
    pub(crate) interval: Duration,
}

/// Reads every BMC once per configured interval, until `cancel`.
pub(crate) async fn run(watch: Arc<BmcWatch>, cancel: CancellationToken) {
    let interval = watch.interval;
    if interval.is_zero() {
        return cancel.cancelled().await;
    }
    let (mut seen, mut counted) = (BTreeMap::new(), BTreeMap::new());
    let mut all = Fleet::default();
    let mut resolved: Option<Instant> = None;
    while !pause(&cancel, TICK).await {
        if resolved.is_none_or(|at| at.elapsed() >= RESOLVED_FOR.min(interval)) {
            let resolving = resolve(&watch.index, &watch.agents, &mut all);
            if cancel.run_until_cancelled(resolving).await.is_none() {
                return;
            }
            resolved = Some(Instant::now());
        }
        let reading = read_due(&watch, &all, &mut seen, interval);
        if cancel.run_until_cancelled(reading).await.is_none() {
            return;
        }
        let counts = count_by_rack(&all, &seen).await;
        watch.metrics.set_counts(&counted, &counts);
        counted = counts;
        let topologies = &watch.topologies;
        topologies.retain(|name| all.contains(name));
        watch.metrics.set_topology(topologies.counts());
    }
}

/// Reads the BMCs that are due, and reports what has changed.
async fn read_due(
    watch: &Arc<BmcWatch>,
    all: &Fleet,
    seen: &mut BTreeMap<String, Seen>,
    interval: Duration,
) {
    let now = Timestamp::now();
    let mut slice = TimeSlice::begin();
    forget_others(all, seen, &mut slice).await;
    let mut due = Vec::new();
    let remediated = remediated(watch);
    let mut answers: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, watched) in all.hosts() {
        slice.pause_if_over().await;
        if !seen.contains_key(name) {
            let new = Seen {
                health: BmcHealth::new(now, interval, place(name)),
                owner: OwnerDifference::default(),
            };
            seen.insert(name.to_owned(), new);
        }
        let is_due = |seen: &Seen| seen.health.next <= now;
        if seen.get(name).is_some_and(is_due)
            && !remediated.contains(&watched.host.bmc)
            && *answers
                .entry(&watched.host.rack)
                .or_insert_with_key(|rack| watch.agents.of_rack(rack).is_ok())
        {
            due.push((name.to_owned(), watched.clone(), watch.clone()));
        }
    }
    let uses_topology = uses_topology(watch);
    let readings = due.into_iter().map(|(name, watched, watch)| async move {
        let reading = read(&watch, &watched, all.uuids()).await;
        if uses_topology && reading.is_ok() && watch.topologies.is_due(&name, now) {
            read_topology(&watch, &name, &watched).await;
        }
        (name, watched, reading)
    });
    let mut readings = stream::iter(readings).buffer_unordered(CONCURRENT);
    while let Some((name, watched, reading)) = readings.next().await {
        // The failure of an agent that was lost meanwhile proves nothing about the BMC.
        let is_lost = watch.agents.of_rack(&watched.host.rack).is_err();
        let Some(seen) = seen.get_mut(&name).filter(|_| !is_lost) else {
            continue;
        };
        if let Ok(reading) = &reading {
            owner::observe(watch, &watched, reading.power, &mut seen.owner);
        }
        let health = &mut seen.health;
        let reading = reading.map(|reading| reading.other_system);
        health.record(reading, Timestamp::now(), interval);
        condition::report(watch, &watched, health.unavailable()).await;
    }
}

/// A number that distributes hosts over the interval, the same in each process.
fn place(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The BMCs of hosts under remediation, because remediations read these BMCs themselves.
fn remediated(watch: &BmcWatch) -> BTreeSet<String> {
    let active = watch.active.lock();
    active.values().filter_map(|r| r.bmc.clone()).collect()
}

/// Whether a policy judges shared causes.
fn uses_topology(watch: &BmcWatch) -> bool {
    let policies = watch.index.power_policies();
    policies.iter().any(|entry| {
        let stored = entry.view.as_ref();
        stored.is_ok_and(|stored| stored.policy.shared_causes.is_some())
    })
}

/// Reads the topology of a host. A BMC that reports none is read again at the same interval as one that does.
async fn read_topology(watch: &BmcWatch, name: &str, watched: &Watched) {
    let Ok(endpoint) = watched.endpoint(&watch.client, &watch.index).await else {
        return;
    };
    let owner = format!("topology-{}", watched.host.host);
    let read = watch
        .queries
        .read_topology(&watched.host, endpoint, &owner, READING)
        .await;
    if let Err(error) = &read {
        tracing::debug!(host = name, error, "the topology of a host is not read");
    }
    let topology = read.ok().flatten();
    let now = Timestamp::now();
    watch.topologies.put(name, topology.as_ref(), now);
}

/// Reads the BMC.
async fn read(watch: &BmcWatch, watched: &Watched, uuids: &NodeUuids) -> Result<Reading, String> {
    let endpoint = watched.endpoint(&watch.client, &watch.index).await?;
    let owner = format!("bmc-check-{}", watched.host.host);
    let view = watch
        .queries
        .read_power(&watched.host, endpoint, PowerDevice::Bmc, &owner, READING)
        .await;
    let reading = view.result?;
    Ok(Reading {
        power: reading.state,
        other_system: other_system(watch, watched, uuids, &reading),
    })
}

/// How the identity that a BMC reports differs from that of the Node; `None` if no difference is known.
fn other_system(
    watch: &BmcWatch,
    watched: &Watched,
    uuids: &NodeUuids,
    reading: &PowerReading,
) -> Option<String> {
    let (cluster, name) = watched.node.as_ref()?;
    let node = watch.index.node(cluster, name)?;
    let bmh = watched.host.bmh.as_deref().map(Key::parse);
    let bmh = bmh.and_then(|key| watch.index.host(&key)?.view.ok());
    let expected = ExpectedHost {
        node: &node_label(cluster, name),
        system_uuid: &node_facts(&node, None).system_uuid,
        serial: &bmh
            .and_then(|bmh| bmh.serial_number.clone())
            .unwrap_or_default(),
    };
    match compare_with_node(&reading.bmc, &reading.identity, &expected, uuids) {
        BmcIdentity::Different(why) => Some(why),
        BmcIdentity::Same | BmcIdentity::Unknown(_) => None,
    }
}

/// Drops the readings of hosts that are no longer in the fleet.
async fn forget_others(all: &Fleet, seen: &mut BTreeMap<String, Seen>, slice: &mut TimeSlice) {
    let mut gone = Vec::new();
    for name in seen.keys() {
        slice.pause_if_over().await;
        if !all.contains(name) {
            gone.push(name.clone());
        }
    }
    for name in gone {
        slice.pause_if_over().await;
        seen.remove(&name);
    }
}

async fn count_by_rack(all: &Fleet, seen: &BTreeMap<String, Seen>) -> BTreeMap<String, BmcCounts> {
    let mut slice = TimeSlice::begin();
    let mut racks: BTreeMap<String, BmcCounts> = BTreeMap::new();
    for (name, watched) in all.hosts() {
        slice.pause_if_over().await;
        let counts = racks.entry(watched.host.rack.clone()).or_default();
        let Some(seen) = seen.get(name) else {
            continue;
        };
        counts.off_by_owner += i64::from(seen.owner.is_reported());
        let Some(unavailable) = seen.health.unavailable() else {
            continue;
        };
        counts.unavailable += 1;
        counts.other_system += i64::from(unavailable.cause == UnavailableCause::OtherSystem);
    }
    racks
}
