//! Shared causes: finds hosts that fail together, and blocks their remediations where a PowerPolicy requires
//! it.
//!
//! Owns: the failures of the fleet, the judgements about them, their Events and their metric. One task
//! maintains them; a decision only looks up its host. Must never switch anything: it reads BMCs, and a
//! remediation takes its own readings.

mod fleet;
mod metrics;
pub(crate) mod policy_status;
mod readings;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use rackhand_api::kinds::power_policy::SharedCauseStatus;
use rackhand_core::{
    fleet::shared_cause::{
        BmcReading, CauseHold, CauseSummary, Domain, DomainKind, Failures, HostName, Judgement,
        SharedCauseRules, judge,
    },
    limits::power_policy::PowerPolicy,
    overview::SharedCauseEntry,
    remediation::Progress,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentConnections, AgentQueries},
    hosts::{ActiveRemediations, topology::Topologies},
    leader::events::Events,
    store::{
        index::{Change, ChangeQueue, Index},
        object::{Key, Kind},
        watch::pause,
    },
};
use fleet::Fleet;
pub(crate) use fleet::{kernel_version, not_ready_since};
pub(crate) use metrics::SharedCauseMetrics;
use readings::Readings;

/// Minimum interval of judgements. It is short compared with the settling time that every failure waits out.
const TICK: Duration = Duration::from_millis(500);
/// Judgements, and reads of the whole fleet, take at most one part in this many of the time.
const SHARE: u32 = 20;

/// How long the first judgement of a leader waits for the first lists of Nodes. Until then no remediation begins that a
/// cause may hold.
const LISTED_WITHIN: Duration = Duration::from_secs(10);

/// How long a remediation waits for a new read of the fleet if the fleet does not have its host in its rack,
/// for example because its agent has just connected.
const PLACED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// What hosts share, which of them have failed, and the judgements about the failures.
#[derive(Default)]
pub(crate) struct SharedCauses {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    failures: Failures,
    /// What the BMCs of failed hosts reported.
    readings: BTreeMap<HostName, BmcReading>,
    /// Hosts of remediations that the fleet does not have in their rack, and since when.
    misplaced: BTreeMap<String, Timestamp>,
    /// The judgement for each PowerPolicy, by its name.
    judged: BTreeMap<String, Judged>,
}

struct Judged {
    rules: SharedCauseRules,
    judgement: Judgement,
    /// The causes that an Event has reported.
    announced: BTreeSet<Domain>,
}

/// Dependencies of the task that maintains and judges the failures.
pub(crate) struct CauseWatch {
    pub(crate) client: Client,
    pub(crate) index: Arc<Index>,
    pub(crate) agents: Arc<AgentConnections>,
    pub(crate) queries: AgentQueries,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<SharedCauseMetrics>,
    /// Active remediations. A remediation that has begun reads the BMC of its host itself.
    pub(crate) active: Arc<ActiveRemediations>,
    pub(crate) causes: Arc<SharedCauses>,
    /// The topology of hosts as their BMCs report it.
    pub(crate) topologies: Arc<Topologies>,
}

/// The name of a host, by which the failures are stored.
fn host_name(cluster: &Key, node: &str) -> HostName {
    format!("{cluster}/{node}").into()
}

impl Inner {
    /// Whether the fleet does not have a host in its rack, and has not had time for a new read since.
    fn is_misplaced(&mut self, host: &str, rack: Option<&str>, now: Timestamp) -> bool {
        let Some(rack) = rack else { return false };
        let rack = Domain::new(DomainKind::Rack, rack);
        let domains = self.failures.domains(host);
        if domains.is_some_and(|domains| domains.contains(&rack)) {
            self.misplaced.remove(host);
            return false;
        }
        let since = *self.misplaced.entry(host.to_owned()).or_insert(now);
        now.duration_since(since) < PLACED_WITHIN
    }
}

impl SharedCauses {
    /// Why a remediation of a host in a rack is blocked, by policy. `failing` tells whether the index shows its
    /// Node, and the Node is not Ready.
    pub(crate) fn holds(
        &self,
        policies: &[PowerPolicy],
        (host, rack): (&str, Option<&str>),
        failing: bool,
        now: Timestamp,
    ) -> BTreeMap<String, CauseHold> {
        if policies.iter().all(|policy| policy.shared_causes.is_none()) {
            return BTreeMap::new();
        }
        let inner = &mut *self.inner.lock();
        let is_misplaced = failing && inner.is_misplaced(host, rack, now);
        let unjudged = Judgement::default();
        let holds = policies.iter().filter_map(|policy| {
            let rules = policy.shared_causes.as_ref()?;
            let judged = inner.judged.get(&policy.name);
            let judgement = judged
                .filter(|_| !is_misplaced)
                .map_or(&unjudged, |judged| &judged.judgement);
            let hold = judgement.hold(&inner.failures, rules, host, failing, now)?;
            Some((policy.name.clone(), hold))
        });
        holds.collect()
    }

    /// The open cause that contains the failure of a Node, by any policy.
    pub(crate) fn cause_of(&self, cluster: &Key, node: &str) -> Option<CauseSummary> {
        let inner = self.inner.lock();
        if inner.judged.is_empty() {
            return None;
        }
        let host = host_name(cluster, node);
        let mut judged = inner.judged.values();
        let cause = judged.find_map(|j| j.judgement.cause_of(&inner.failures, &host))?;
        Some(cause.summary())
    }

    /// Records that the causes of a host block a remediation, which starts their time.
    pub(crate) fn begin_hold(&self, policy: &str, host: &str, now: Timestamp) {
        let inner = &mut *self.inner.lock();
        if let Some(judged) = inner.judged.get_mut(policy) {
            judged.judgement.begin_hold(&inner.failures, host, now);
        }
    }

    /// The causes that a policy knows, for its status; `None` before its first judgement.
    pub(crate) fn status(&self, policy: &str, now: Timestamp) -> Option<Vec<SharedCauseStatus>> {
        let inner = self.inner.lock();
        let judged = inner.judged.get(policy)?;
        let causes = judged.judgement.causes.values();
        let status = causes.map(|cause| report::status(cause, &judged.rules, now));
        Some(status.take(report::MAX_IN_STATUS).collect())
    }

    /// The open causes for the status page, each once even if several policies know it.
    pub(crate) fn open(&self, now: Timestamp) -> Vec<SharedCauseEntry> {
        let inner = self.inner.lock();
        let mut all: BTreeMap<&Domain, SharedCauseEntry> = BTreeMap::new();
        for (policy, judged) in &inner.judged {
            for (domain, cause) in &judged.judgement.causes {
                let entry = all
                    .entry(domain)
                    .or_insert_with(|| report::entry(cause, &judged.rules, now));
                entry.policies.push(policy.clone());
            }
        }
        all.into_values().collect()
    }

    /// Judges all policies. The causes in the status of a policy are continued.
    fn judge(&self, index: &Index, now: Timestamp) -> report::Changes {
        let inner = &mut *self.inner.lock();
        let mut changes = report::Changes::default();
        let policies = index.power_policies();
        let of_rules = policies.iter().filter_map(|entry| {
            let stored = entry.view.as_ref().ok()?;
            let rules = stored.policy.shared_causes.as_ref()?;
            Some((entry, stored.policy.name.clone(), rules))
        });
        let mut judged = BTreeMap::new();
        for (entry, name, rules) in of_rules {
            let before = inner.judged.remove(&name);
            let before = before.unwrap_or_else(|| report::stored(&entry.object, rules));
            let readings = &inner.readings;
            let judgement = judge(&inner.failures, rules, &before.judgement, readings, now);
            let after = Judged {
                rules: rules.clone(),
                judgement,
                announced: before.announced.clone(),
            };
            let after = changes.compare(&inner.failures, &entry.object, &before, after, now);
            judged.insert(name, after);
        }
        inner.judged = judged;
        changes
    }
}

/// Whether a change of the index matters.
pub(crate) fn concerns(change: &Change) -> bool {
    match change {
        Change::Node(..) | Change::Workload(_) | Change::Agent(_) => true,
        Change::Object(kind, _) => matches!(
            kind,
            Kind::Machine | Kind::Metal3Machine | Kind::BareMetalHost | Kind::Cluster
        ),
    }
}

/// Maintains the failures and judges them, until `cancel`. `inbox` is the queue of the remediations, to wake
/// remediations that are no longer blocked.
pub(crate) async fn run(
    watch: Arc<CauseWatch>,
    changes: Arc<ChangeQueue>,
    inbox: Arc<ChangeQueue>,
    cancel: CancellationToken,
) {
    let (mut fleet, mut readings) = (Fleet::default(), Readings::default());
    let mut rest = TICK;
    let started = Instant::now();
    let mut listed = false;
    while !pause(&cancel, rest).await {
        let changed = changes.drain();
        let policies = watch.index.power_policies();
        let is_used = policies.iter().any(|entry| {
            let stored = entry.view.as_ref();
            stored.is_ok_and(|stored| stored.policy.shared_causes.is_some())
        });
        if !is_used {
            fleet = Fleet::default();
            *watch.causes.inner.lock() = Inner::default();
            watch.metrics.set_open(&BTreeMap::new());
            continue;
        }
        let update = fleet.update(&watch, changed);
        if cancel.run_until_cancelled(update).await.is_none() {
            return;
        }
        listed = listed || are_listed(&watch.index) || started.elapsed() >= LISTED_WITHIN;
        if !listed {
            continue;
        }
        let (now, begun) = (Timestamp::now(), Instant::now());
        readings.collect(&watch);
        let judged = watch.causes.judge(&watch.index, now);
        readings.start(&watch, &judged.unread);
        report::send(&watch, &judged);
        wake(&watch, &inbox, &judged);
        rest = TICK.max(begun.elapsed() * SHARE);
    }
}

/// Whether the Nodes of each cluster were listed once, or cannot be. Before that, the hosts that have failed would look
/// recovered.
fn are_listed(index: &Index) -> bool {
    let mut clusters = index.clusters();
    if index.watches_own_nodes() {
        clusters.push(Key::local());
    }
    !clusters.iter().any(|cluster| index.is_connecting(cluster))
}

/// Wakes the waiting remediations that the judgement concerns.
fn wake(watch: &CauseWatch, inbox: &ChangeQueue, changes: &report::Changes) {
    if changes.settled.is_empty() && changes.released.is_empty() {
        return;
    }
    let waiting: Vec<String> = {
        let active = watch.active.lock();
        let waiting = active.values().filter(|r| r.progress != Progress::Begun);
        waiting.filter_map(|r| r.node.clone()).collect()
    };
    let inner = watch.causes.inner.lock();
    for name in waiting {
        let is_released = || {
            let domains = inner.failures.domains(&name).into_iter().flatten();
            domains.into_iter().any(|d| changes.released.contains(d))
        };
        if (changes.settled.contains(name.as_str()) || is_released())
            && let Some((cluster, node)) = name.rsplit_once('/')
        {
            inbox.push(Change::Node(Key::parse(cluster), node.to_owned()));
        }
    }
}

#[cfg(test)]
mod stalls;
#[cfg(test)]
mod tests;
