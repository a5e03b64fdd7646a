//! Reads the BMCs of the fleet between remediations, so that one that could not fence its host, or that is
//! the BMC of another host, is known before it is needed.
//!
//! Owns: the Node condition [`FENCING_UNAVAILABLE`] and the metric of the same name. Must never: switch
//! anything, delay a remediation, or report a BMC because its agent does not answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rackhand_api::names::conditions::FENCING_UNAVAILABLE;
use rackhand_core::{
    bmc_health::{BmcHealth, Unavailable, UnavailableCause},
    bmc_identity::{BmcIdentity, ExpectedHost, IDENTITY_REMEDY, NodeUuids, compare_with_node},
    remediation::{HostRef, HostView, PowerDevice, PowerReading},
};
use rackhand_proto::v1;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    credentials::bmc_endpoint,
    metrics::BmcCounts,
    target::{fleet, host},
};
use crate::{
    clusters::{node_facts, node_label},
    leader::writer::Lane,
    store::{object::Key, watch::pause},
};

/// Interval in which BMCs are searched that are due.
const TICK: Duration = Duration::from_secs(5);
/// Longest time for which the hosts of the fleet and their agents count as resolved. To resolve them costs time
/// of a processor in proportion to the fleet.
const RESOLVED_FOR: Duration = Duration::from_secs(60);
/// Time that a BMC has for one reading.
const READING: Duration = Duration::from_secs(20);
/// BMCs that are read at one time; one that does not answer takes [`READING`].
const CONCURRENT: usize = 64;

/// Owns the condition in the Node's status, and nothing else of it.
const FIELD_MANAGER: &str = "rackhand-bmc-watch";

/// A host that may be fenced.
struct Watched {
    host: HostRef,
    bmh: Option<Key>,
    /// Its cluster and Node.
    node: Option<(Key, String)>,
}

/// The hosts of the fleet by rack and name, and the Nodes by the identity of their machines.
#[derive(Default)]
struct Fleet {
    watched: BTreeMap<String, Arc<Watched>>,
    uuids: Arc<NodeUuids>,
}

/// Reads every BMC once in the interval of the configuration, until `cancel`.
pub(super) async fn run(context: Arc<Context>, cancel: CancellationToken) {
    let interval = context.config.bmc_check_interval;
    if interval.is_zero() {
        return cancel.cancelled().await;
    }
    let (mut health, mut counted) = (BTreeMap::new(), BTreeMap::new());
    let mut all = Fleet::default();
    let mut resolved: Option<Instant> = None;
    while !pause(&cancel, TICK).await {
        if resolved.is_none_or(|at| at.elapsed() >= RESOLVED_FOR.min(interval)) {
            all = resolve(&context);
            resolved = Some(Instant::now());
        }
        let reading = read_due(&context, &all, &mut health, interval);
        if cancel.run_until_cancelled(reading).await.is_none() {
            return;
        }
        let counts = count_by_rack(&all.watched, &health);
        context.metrics.set_bmc_counts(&counted, &counts);
        counted = counts;
        let topologies = &context.live.topologies;
        topologies.retain(|name| all.watched.contains_key(name));
        context.metrics.set_topology(topologies.counts());
    }
}

/// Reads the BMCs that are due, and reports what has changed.
async fn read_due(
    context: &Arc<Context>,
    all: &Fleet,
    health: &mut BTreeMap<String, BmcHealth>,
    interval: Duration,
) {
    let now = Timestamp::now();
    let watched = &all.watched;
    health.retain(|name, _| watched.contains_key(name));
    let mut due = Vec::new();
    let remediated = remediated(context);
    let mut answers: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, watched) in watched {
        let health = health.entry(name.clone());
        let health = health.or_insert_with(|| BmcHealth::new(now, interval, place(name)));
        if health.next <= now
            && !remediated.contains(&watched.host.bmc)
            && *answers
                .entry(&watched.host.rack)
                .or_insert_with_key(|rack| context.agents.of_rack(rack).is_ok())
        {
            due.push((
                name.clone(),
                watched.clone(),
                context.clone(),
                all.uuids.clone(),
            ));
        }
    }
    let uses_topology = uses_topology(context);
    let readings = due
        .into_iter()
        .map(|(name, watched, context, uuids)| async move {
            let reading = read(&context, &watched, &uuids).await;
            if uses_topology && reading.is_ok() && context.live.topologies.is_due(&name, now) {
                read_topology(&context, &name, &watched).await;
            }
            (name, watched, reading)
        });
    let mut readings = stream::iter(readings).buffer_unordered(CONCURRENT);
    while let Some((name, watched, reading)) = readings.next().await {
        // An agent that was lost meanwhile says nothing about the BMC.
        let is_lost = context.agents.of_rack(&watched.host.rack).is_err();
        let Some(health) = health.get_mut(&name).filter(|_| !is_lost) else {
            continue;
        };
        health.record(reading, Timestamp::now(), interval);
        report(context, &watched, health.unavailable()).await;
    }
}

fn resolve(context: &Context) -> Fleet {
    let (index, racks) = (&context.index, context.agents.racks());
    let (mut all, mut uuids) = (BTreeMap::new(), NodeUuids::default());
    for member in fleet(index) {
        let target = member.target;
        let node = target.cluster.clone().zip(target.node.clone());
        let facts = node.as_ref().and_then(|(cluster, name)| {
            let node = index.node(cluster, name)?;
            let facts = node_facts(&node, None);
            uuids.add(&node_label(cluster, name), &facts.system_uuid);
            Some(facts)
        });
        let found = host(index, &racks, &target, facts.as_ref(), None);
        let (HostView::Found(host), bmh) = (found.view, found.bmh) else {
            continue;
        };
        let name = format!("{}/{}", host.rack, host.host);
        all.insert(name, Arc::new(Watched { host, bmh, node }));
    }
    Fleet {
        watched: all,
        uuids: Arc::new(uuids),
    }
}

/// A number that distributes hosts over the interval, the same in each process.
fn place(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The BMCs of the hosts that remediations work on, which read them themselves.
fn remediated(context: &Context) -> BTreeSet<String> {
    let active = context.active.lock();
    active.values().filter_map(|r| r.bmc.clone()).collect()
}

/// Whether a policy judges what hosts have in common.
fn uses_topology(context: &Context) -> bool {
    let policies = context.index.power_policies();
    policies.iter().any(|entry| {
        let stored = entry.view.as_ref();
        stored.is_ok_and(|stored| stored.policy.shared_causes.is_some())
    })
}

/// Reads where a host is. A BMC that does not report it is read again as late as one that does.
async fn read_topology(context: &Context, name: &str, watched: &Watched) {
    let Ok(endpoint) = endpoint(context, watched).await else {
        return;
    };
    let owner = format!("topology-{}", watched.host.host);
    let read = context
        .agents
        .read_topology(&watched.host, endpoint, &owner, READING)
        .await;
    if let Err(error) = &read {
        tracing::debug!(host = name, error, "the topology of a host is not read");
    }
    let topology = read.ok().flatten();
    let now = Timestamp::now();
    context.live.topologies.put(name, topology.as_ref(), now);
}

/// Address and credentials of the BMC, where the agent does not have them.
async fn endpoint(context: &Context, watched: &Watched) -> Result<Option<v1::BmcEndpoint>, String> {
    let Some(key) = &watched.bmh else {
        return Ok(None);
    };
    let entry = context.index.host(key).and_then(|entry| entry.view.ok());
    let view = entry.ok_or_else(|| format!("BareMetalHost {key} cannot be read"))?;
    let endpoint = bmc_endpoint(&context.client, key, &view).await;
    endpoint.map_err(|error| error.to_string())?.map(Some)
}

/// Reads the BMC; returns how its identity differs from that of the Node.
async fn read(
    context: &Context,
    watched: &Watched,
    uuids: &NodeUuids,
) -> Result<Option<String>, String> {
    let endpoint = endpoint(context, watched).await?;
    let owner = format!("bmc-check-{}", watched.host.host);
    let view = context
        .agents
        .read_power(&watched.host, endpoint, PowerDevice::Bmc, &owner, READING)
        .await;
    let reading = view.result?;
    Ok(other_system(context, watched, uuids, &reading))
}

/// How the identity that a BMC reports differs from that of the Node; `None`: not as far as is known.
fn other_system(
    context: &Context,
    watched: &Watched,
    uuids: &NodeUuids,
    reading: &PowerReading,
) -> Option<String> {
    let (cluster, name) = watched.node.as_ref()?;
    let node = context.index.node(cluster, name)?;
    let bmh = watched.host.bmh.as_deref().map(Key::parse);
    let bmh = bmh.and_then(|key| context.index.host(&key)?.view.ok());
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

/// Writes the condition of the Node where it is not what it is to be.
async fn report(context: &Context, watched: &Watched, unavailable: Option<Unavailable>) {
    let Some((cluster, name)) = &watched.node else {
        return;
    };
    let Some(node) = context.index.node(cluster, name) else {
        return;
    };
    let host = &watched.host.host;
    let reason = unavailable.as_ref().map(|why| why.cause.label());
    if reason_set(&node).as_deref() == reason {
        return;
    }
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (status, reason, message) = match &unavailable {
        Some(Unavailable {
            since,
            message,
            cause: cause @ UnavailableCause::OtherSystem,
        }) => {
            tracing::warn!(host, rack = watched.host.rack, node = name, %since, message,
                "the BMC is that of another host");
            let message =
                format!("{message}. A remediation of this node would stop: {IDENTITY_REMEDY}");
            ("True", cause.label(), message)
        }
        Some(Unavailable {
            since,
            message,
            cause: cause @ UnavailableCause::NotReadable,
        }) => {
            tracing::warn!(host, rack = watched.host.rack, node = name, %since, message,
                "the BMC cannot fence its host");
            // An agent checks the hosts of its inventory; preflight has the credentials of the others.
            let check = match watched.bmh {
                None => format!("rackhand-agent host check {host}"),
                Some(_) => "kubectl rackhand preflight".to_owned(),
            };
            let message = format!(
                "BMC of host {host} of rack {}: {message}; a remediation of this node would wait \
                 for a person. `{check}` finds out why",
                watched.host.rack
            );
            ("True", cause.label(), message)
        }
        None => {
            tracing::info!(
                host,
                rack = watched.host.rack,
                node = name,
                "the BMC answers again, and is that of the host as far as is known"
            );
            let message = format!("the BMC of host {host} answers");
            ("False", "BMCAvailable", message)
        }
    };
    let body = json!({ "apiVersion": "v1", "kind": "Node", "status": { "conditions": [{
        "type": FENCING_UNAVAILABLE,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }] } });
    let Some(workload) = context.workloads.get(cluster) else {
        return;
    };
    let nodes: Api<Node> = Api::all(workload.client.clone());
    let (cluster, name) = (cluster.clone(), name.clone());
    let what = format!("condition {FENCING_UNAVAILABLE} of node {name} of cluster {cluster}");
    let written = context
        .writer
        .on(Lane::Reports)
        .write("node condition", what, move || async move {
            let params = PatchParams::apply(FIELD_MANAGER).force();
            nodes
                .patch_status(&name, &params, &Patch::Apply(body))
                .await
        })
        .await;
    match written {
        Ok(node) => context.index.apply_node(&cluster, node),
        Err(error) => tracing::warn!(%error, "the condition is tried again with the next reading"),
    }
}

/// The reason of the condition, if that is true.
fn reason_set(node: &Node) -> Option<String> {
    let status = node.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    let set = conditions.find(|c| c.type_ == FENCING_UNAVAILABLE && c.status == "True")?;
    Some(set.reason.clone().unwrap_or_default())
}

fn count_by_rack(
    watched: &BTreeMap<String, Arc<Watched>>,
    health: &BTreeMap<String, BmcHealth>,
) -> BTreeMap<String, BmcCounts> {
    let mut racks: BTreeMap<String, BmcCounts> = BTreeMap::new();
    for (name, watched) in watched {
        let counts = racks.entry(watched.host.rack.clone()).or_default();
        let Some(unavailable) = health.get(name).and_then(BmcHealth::unavailable) else {
            continue;
        };
        counts.unavailable += 1;
        counts.other_system += i64::from(unavailable.cause == UnavailableCause::OtherSystem);
    }
    racks
}
