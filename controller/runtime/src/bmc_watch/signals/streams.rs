//! The streams of the agents: one for each rack with hosts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use rackhand_core::signals::Signal;
use rackhand_proto::{
    convert::duration_to_proto,
    limits::{SHORTEST_HEALTH_INTERVAL, WATCH_CHANGES, WATCH_ID, WATCHED_HOSTS},
    v1,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

use super::{SignalWatch, owner::Completed};
use crate::{agents::WatchEvent, bmc_watch::watched::Watched, clusters::node_facts};

/// Time until a stream that has ended is opened again.
const AGAIN: Duration = Duration::from_secs(10);
/// The same at an agent of an earlier version, which has no such stream.
const AGAIN_UNSUPPORTED: Duration = Duration::from_secs(600);
/// Time until a host that the agent refuses, or whose credentials could not be read, is added again.
const ADD_AGAIN: Duration = Duration::from_secs(300);
/// Requests of a stream that may wait.
const QUEUE: usize = 8;
/// Secrets that are read at one time.
const CONCURRENT: usize = 8;

/// The stream of one rack.
struct RackStream {
    requests: mpsc::Sender<v1::WatchHostsRequest>,
    /// The agent that serves it.
    agent: String,
    /// When each host was added.
    added: BTreeMap<String, Instant>,
}

/// The streams of all racks.
#[derive(Default)]
pub(super) struct Streams {
    racks: BTreeMap<String, RackStream>,
    /// When a stream that has ended is opened again.
    again: BTreeMap<String, Instant>,
    numbers: u64,
}

impl Streams {
    /// Opens the streams of racks that have none. A rack that another agent serves now gets another stream.
    pub(super) fn open(
        &mut self,
        watch: &SignalWatch,
        racks: &BTreeSet<String>,
        events: &mpsc::Sender<(String, WatchEvent)>,
        tasks: &mut JoinSet<Completed>,
    ) {
        self.racks.retain(|rack, stream| {
            let serving = watch.queries.serving(rack);
            racks.contains(rack) && serving.is_ok_and(|agent| agent == stream.agent)
        });
        for rack in racks {
            let is_early = self.again.get(rack).is_some_and(|at| *at > Instant::now());
            if is_early || self.racks.contains_key(rack) {
                continue;
            }
            let Ok(agent) = watch.queries.serving(rack) else {
                continue;
            };
            self.again.insert(rack.clone(), Instant::now() + AGAIN);
            let (requests, waiting) = mpsc::channel(QUEUE);
            let stream = RackStream {
                requests,
                agent,
                added: BTreeMap::new(),
            };
            self.racks.insert(rack.clone(), stream);
            let following =
                watch
                    .queries
                    .clone()
                    .watch_hosts(rack.clone(), waiting, events.clone());
            tasks.spawn(async move {
                following.await;
                Completed::Stream
            });
        }
    }

    /// The stream of a rack has ended.
    pub(super) fn ended(&mut self, rack: &str, why: &str, is_unsupported: bool) {
        let pause = if is_unsupported {
            AGAIN_UNSUPPORTED
        } else {
            AGAIN
        };
        self.racks.remove(rack);
        self.again.insert(rack.to_owned(), Instant::now() + pause);
        if is_unsupported {
            tracing::info!(
                rack,
                why,
                "the agent has no hardware signals; it needs a later version"
            );
        } else {
            tracing::debug!(rack, why, "the stream of hardware signals has ended");
        }
    }

    /// Adds the hosts of a rack that its stream does not have yet, and removes those that are gone.
    pub(super) fn keep_hosts(
        &mut self,
        watch: &SignalWatch,
        rack: &str,
        hosts: &BTreeMap<&str, (Arc<Watched>, bool)>,
        tasks: &mut JoinSet<Completed>,
    ) {
        let Some(stream) = self.racks.get_mut(rack) else {
            return;
        };
        let gone = stream
            .added
            .keys()
            .filter(|name| !hosts.contains_key(name.as_str()));
        let gone: Vec<String> = gone.take(WATCH_CHANGES).cloned().collect();
        if !gone.is_empty() {
            let request = v1::WatchHostsRequest {
                remove: gone.clone(),
                ..v1::WatchHostsRequest::default()
            };
            if stream.requests.try_send(request).is_ok() {
                stream.added.retain(|name, _| !gone.contains(name));
            }
        }
        let mut adds = Vec::new();
        for (name, (watched, is_refused)) in hosts {
            let added = stream.added.get(*name);
            let is_due = added.is_none_or(|at| *is_refused && at.elapsed() >= ADD_AGAIN);
            let fits =
                name.len() <= WATCH_ID && (added.is_some() || stream.added.len() < WATCHED_HOSTS);
            if is_due && fits && adds.len() < WATCH_CHANGES {
                stream.added.insert((*name).to_owned(), Instant::now());
                adds.push(((*name).to_owned(), watched.clone()));
            }
        }
        if !adds.is_empty() {
            let adding = add(watch.clone(), stream.requests.clone(), adds);
            tasks.spawn(async move {
                adding.await;
                Completed::Stream
            });
        }
    }

    /// Lets hosts of a rack be read at once, twice. Returns whether the agent will.
    pub(super) fn read(&mut self, watch: &SignalWatch, rack: &str, hosts: &[String]) -> bool {
        let Some(stream) = self.racks.get(rack) else {
            return false;
        };
        let reads = hosts.iter().take(WATCH_CHANGES).map(|id| {
            self.numbers += 1;
            v1::ReadRequest {
                id: id.clone(),
                number: self.numbers,
                stops: watch.signals.contains(&Signal::OsStopped),
                health: false,
            }
        });
        let request = v1::WatchHostsRequest {
            read: reads.collect(),
            ..v1::WatchHostsRequest::default()
        };
        stream.requests.try_send(request).is_ok()
    }
}

/// Adds hosts, with the credentials of those that the agent has none of.
async fn add(
    watch: SignalWatch,
    requests: mpsc::Sender<v1::WatchHostsRequest>,
    hosts: Vec<(String, Arc<Watched>)>,
) {
    let watch = &watch;
    let targets = stream::iter(hosts).map(|(id, watched)| async move {
        match watched.endpoint(&watch.client, &watch.index).await {
            Ok(endpoint) => Some(target(watch, id, &watched, endpoint)),
            Err(why) => {
                tracing::debug!(host = id, why, "the host is not watched");
                None
            }
        }
    });
    let targets: Vec<_> = targets.buffer_unordered(CONCURRENT).collect().await;
    let request = v1::WatchHostsRequest {
        add: targets.into_iter().flatten().collect(),
        ..v1::WatchHostsRequest::default()
    };
    requests.send(request).await.ok();
}

fn target(
    watch: &SignalWatch,
    id: String,
    watched: &Watched,
    endpoint: Option<v1::BmcEndpoint>,
) -> v1::WatchedTarget {
    let node = watched.node.as_ref();
    let node = node.and_then(|(cluster, name)| watch.index.node(cluster, name));
    let is_failing = watch.signals.contains(&Signal::HardwareFailing);
    let expect = node.map(|node| v1::SystemIdentity {
        system_uuid: node_facts(&node, None).system_uuid,
        ..v1::SystemIdentity::default()
    });
    v1::WatchedTarget {
        id,
        target: Some(v1::Target {
            host: watched.host.host.clone(),
            endpoint,
        }),
        expect,
        health_interval: is_failing.then(|| duration_to_proto(SHORTEST_HEALTH_INTERVAL)),
    }
}
