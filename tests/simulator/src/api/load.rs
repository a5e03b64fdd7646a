//! How much API servers have to do: requests that wait for their turn, one after another.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use super::request::Request;

/// Objects of a list that take as long as a request: Nodes, pods, and anything smaller, such as Leases and the metadata of
/// any kind. Those of Nodes and Leases are measured with kube-apiserver, the others by their size.
const NODES: u32 = 8;
const PODS: u32 = 22;
const SMALL: u32 = 60;

/// The management cluster, or the workload cluster with this number where there are several.
pub(crate) type Cluster = Option<usize>;

/// The load of all API servers.
#[derive(Debug, Default)]
pub struct Load {
    /// How many requests each serves in a second; `None`: as many as come.
    pub rate: Option<u32>,
    /// How many requests may wait; more are refused, as by priority and fairness. `None`: any number.
    most_waiting: Option<usize>,
    servers: BTreeMap<Cluster, Server>,
    /// The most requests that have waited for one of them at one time.
    pub longest_queue: usize,
    /// Requests that were refused because too many waited.
    pub refused: u64,
    /// The time for which that of the management cluster was busy.
    pub busy: Duration,
}

#[derive(Debug, Default)]
struct Server {
    /// When it has served those that wait.
    free_at: Duration,
    waiting: usize,
}

/// What becomes of a request that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is served at once.
    Now,
    /// It is served at this time.
    At(Duration),
    /// It is refused.
    Refused,
}

impl Load {
    /// Lets each serve only so many requests in a second, and refuse those that find too many waiting.
    pub fn limit(&mut self, rate: u32, most_waiting: usize) {
        self.rate = Some(rate);
        self.most_waiting = Some(most_waiting);
    }

    /// Ends that. Requests that wait are served in their turn.
    pub fn unlimit(&mut self) {
        if self.most_waiting.take().is_some() {
            self.rate = None;
        }
    }

    /// A request arrives. One that is exempt is never refused.
    pub fn arrive(&mut self, cluster: Cluster, is_exempt: bool, now: Duration) -> Turn {
        let Some(rate) = self.rate else {
            return Turn::Now;
        };
        let server = self.servers.entry(cluster).or_default();
        let most = self.most_waiting.filter(|_| !is_exempt);
        if most.is_some_and(|most| server.waiting >= most) {
            self.refused += 1;
            return Turn::Refused;
        }
        server.waiting += 1;
        self.longest_queue = self.longest_queue.max(server.waiting);
        Turn::At(self.take(cluster, Duration::from_secs(1) / rate, now))
    }

    /// A request is served that has waited.
    pub fn leaves(&mut self, cluster: Cluster) {
        let server = self.servers.entry(cluster).or_default();
        server.waiting = server.waiting.saturating_sub(1);
    }

    /// How much longer the answer to a request takes: a list takes longer than what is counted for a request.
    pub fn answers(
        &mut self,
        cluster: Cluster,
        request: &Request,
        answer: &Value,
        now: Duration,
    ) -> Duration {
        let (Some(rate), Some(items)) = (self.rate, answer["items"].as_array()) else {
            return Duration::ZERO;
        };
        let is_partial = request.accept.contains("PartialObjectMetadata");
        let of_request = match request.path.rsplit('/').next() {
            _ if is_partial => SMALL,
            Some("nodes") => NODES,
            Some("pods") => PODS,
            _ => SMALL,
        };
        let objects = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let time = Duration::from_secs(1) / rate * objects / of_request;
        self.take(cluster, time, now);
        time
    }

    /// Takes this much time of a server, and returns when it ends.
    fn take(&mut self, cluster: Cluster, time: Duration, now: Duration) -> Duration {
        let server = self.servers.entry(cluster).or_default();
        server.free_at = server.free_at.max(now) + time;
        if cluster.is_none() {
            self.busy += time;
        }
        server.free_at
    }
}
