//! The one task that owns every fleet of Nodes.
//!
//! Owns what is under way. Decides nothing: `rackhand_core::nodes` says what a check does, and is
//! asked anew after every change. Must never begin two things for one Node at one time.

mod carry;
mod handover;
mod touch;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::views::{LabelSelector, NodeTemplateRef};
use rackhand_core::handover::Handover;
use rackhand_core::nodes::{
    Action, Check, Disabled, Fleet, HeldLease, Memory, Outside, Request, RequestId,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    leases::lease_name,
    openshift::OpenShift,
    seen::KnownNode,
    status,
    versions::Versions,
    watches::{self, News, Requests, Sender},
};
use crate::clock::Stopwatch;
use carry::Done;

/// Changes that are taken in before anything is decided.
const BATCH: usize = 256;
/// Time between two looks at whose CRD it is.
const LOOK_CRD: Duration = Duration::from_secs(60);

/// A check and its Node.
type Item = (String, String);

/// A check that is ours.
struct Watched {
    object: Arc<DynamicObject>,
    selector: LabelSelector,
    check: Arc<Check>,
    references: Arc<[NodeTemplateRef]>,
    fleet: Fleet,
    memory: Memory,
    dry_run: bool,
    /// Whether its templates can be used; `None`: nobody has looked yet.
    disabled: Option<Option<Disabled>>,
    looking: bool,
    /// A template changed while the templates were being read.
    look_again: bool,
    blocked: BTreeMap<String, (Timestamp, String)>,
    /// Nodes whose remediation is to be begun, and what still has to be read before.
    due: BTreeSet<Arc<str>>,
    handover: Handover,
    /// The read that is under way for it.
    read: u64,
    armed: Option<Timestamp>,
    writing: bool,
    not_before: Instant,
}

/// Something to do at a time although nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Crd,
    Facts,
    Templates(String),
    Status(String),
    Retry(Item),
    Settled(String),
}

struct KindWatch {
    synced: bool,
    versions: Arc<Versions>,
    cancel: CancellationToken,
}

/// Every check, and what is under way for them.
pub(super) struct Driver {
    context: Arc<Context>,
    news: Sender,
    heard: mpsc::UnboundedReceiver<News>,
    our_crd: Option<bool>,
    objects: BTreeMap<String, Arc<DynamicObject>>,
    watched: BTreeMap<String, Watched>,
    nodes: BTreeMap<String, KnownNode>,
    nodes_known: bool,
    nodes_watched: bool,
    openshift: OpenShift,
    requests: BTreeMap<RequestId, (Request, Option<u64>)>,
    kinds: BTreeMap<Requests, KindWatch>,
    /// What was taken in of checks and Nodes.
    check_versions: Arc<Versions>,
    node_versions: Arc<Versions>,
    /// Live reads that were begun, and since when times are counted.
    reads: u64,
    started: Stopwatch,
    /// Leases of Nodes by their names, as they read now.
    leases: BTreeMap<String, HeldLease>,
    /// Kinds of templates that are watched.
    templates: BTreeMap<Requests, CancellationToken>,
    /// Nodes whose remediation is being made: for which check.
    creating: BTreeMap<String, String>,
    busy: BTreeSet<Item>,
    held: BTreeSet<Item>,
    /// What must not be lost because something else was under way.
    pending: BTreeMap<Item, Vec<Action>>,
    wakes: BTreeSet<(Timestamp, String)>,
    timers: BTreeSet<(Instant, Timer)>,
    dirty: BTreeSet<String>,
    tasks: JoinSet<Done>,
    /// What each task is for: it may end badly.
    under_way: HashMap<tokio::task::Id, carry::UnderWay>,
    watches: JoinSet<()>,
    stop: CancellationToken,
}

// === impl Driver ===

impl Driver {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let (news, heard) = mpsc::unbounded_channel();
        Self {
            context,
            news,
            heard,
            our_crd: None,
            objects: BTreeMap::new(),
            watched: BTreeMap::new(),
            nodes: BTreeMap::new(),
            nodes_known: false,
            nodes_watched: false,
            openshift: OpenShift::default(),
            requests: BTreeMap::new(),
            kinds: BTreeMap::new(),
            check_versions: Arc::default(),
            node_versions: Arc::default(),
            reads: 0,
            started: Stopwatch::start(),
            leases: BTreeMap::new(),
            templates: BTreeMap::new(),
            creating: BTreeMap::new(),
            busy: BTreeSet::new(),
            held: BTreeSet::new(),
            pending: BTreeMap::new(),
            wakes: BTreeSet::new(),
            timers: BTreeSet::new(),
            dirty: BTreeSet::new(),
            tasks: JoinSet::new(),
            under_way: HashMap::new(),
            watches: JoinSet::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Evaluates until `cancel`.
    pub(super) async fn run(mut self, cancel: &CancellationToken) {
        self.stop = cancel.child_token();
        let (context, news) = (self.context.clone(), self.news.clone());
        self.watches
            .spawn(watches::checks(context, news, self.stop.clone()));
        self.look_at_crd();
        let mut news = Vec::new();
        loop {
            for check in std::mem::take(&mut self.dirty) {
                self.evaluate(&check);
            }
            let next = self.next();
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = self.heard.recv_many(&mut news, BATCH) => {
                    for one in news.drain(..) {
                        self.hear(one);
                    }
                }
                () = sleep_until(next) => self.fire(),
                Some(done) = self.tasks.join_next_with_id() => self.joined(done),
            }
        }
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        while self.watches.join_next().await.is_some() {}
    }

    /// When there is something to do although nothing happens.
    fn next(&self) -> Option<Instant> {
        let now = Timestamp::now();
        let wake = self.wakes.first().map(|(at, _)| {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            // Clocks are set: no sleep is so long that nobody notices.
            Instant::now() + left.min(Duration::from_secs(60))
        });
        let timer = self.timers.first().map(|(at, _)| *at);
        wake.into_iter().chain(timer).min()
    }

    fn fire(&mut self) {
        let now = Timestamp::now();
        while let Some((at, _)) = self.wakes.first()
            && *at <= now
        {
            if let Some((_, check)) = self.wakes.pop_first() {
                if let Some(watched) = self.watched.get_mut(&check) {
                    watched.armed = None;
                }
                self.dirty.insert(check);
            }
        }
        let now = Instant::now();
        while let Some((at, _)) = self.timers.first()
            && *at <= now
        {
            let Some((_, timer)) = self.timers.pop_first() else {
                break;
            };
            match timer {
                Timer::Crd => self.look_at_crd(),
                Timer::Facts => {
                    if !self.openshift.is_known() {
                        self.openshift.give_up();
                        self.dirty.extend(self.watched.keys().cloned());
                    }
                }
                Timer::Templates(check) => self.look_at_templates(&check),
                Timer::Status(check) => self.write_status(&check),
                Timer::Settled(check) => self.begin_read(&check),
                Timer::Retry(item) => {
                    self.held.remove(&item);
                    self.dirty.insert(item.0);
                }
            }
        }
    }

    fn later(&mut self, after: Duration, timer: Timer) {
        self.timers.insert((Instant::now() + after, timer));
    }

    /// What is known beside Nodes and remediations.
    fn outside(&self, name: &str, watched: &Watched) -> Outside {
        let of = |check: &String| check == name;
        let creating = self.creating.iter();
        let (ours, others): (Vec<_>, Vec<_>) = creating.partition(|(_, check)| of(check));
        Outside {
            disabled: self
                .openshift
                .disabled()
                .or_else(|| watched.disabled.clone().flatten()),
            upgrading: self.openshift.upgrading(),
            creating: ours.into_iter().map(|(node, _)| node.clone()).collect(),
            elsewhere: others
                .into_iter()
                .map(|(node, check)| (node.clone(), check.clone()))
                .collect(),
            blocked: watched.blocked.clone(),
            leases: self.leases_of(watched),
        }
    }

    /// The Leases of the Nodes for which a check has something in hand.
    fn leases_of(&self, watched: &Watched) -> BTreeMap<String, HeldLease> {
        let nodes = watched.memory.nodes.keys();
        let held = |node: &String| {
            let lease = self.leases.get(&lease_name(node))?;
            Some((node.clone(), lease.clone()))
        };
        nodes.filter_map(held).collect()
    }

    /// Whether everything is known that a decision needs.
    fn knows(&self, watched: &Watched) -> bool {
        let synced = |kind: &Requests| self.kinds.get(kind).is_some_and(|kind| kind.synced);
        // While it is disabled nothing is done, and why may be just what keeps the rest unknown.
        let ready = match &watched.disabled {
            None => false,
            Some(Some(_)) => true,
            Some(None) => touch::kinds_of(watched).iter().all(synced),
        };
        self.nodes_known && self.openshift.is_known() && ready
    }

    /// Asks what a check does now, and sees to it.
    fn evaluate(&mut self, name: &str) {
        let Some(watched) = self.watched.get(name) else {
            return;
        };
        if !self.knows(watched) {
            return;
        }
        let outside = self.outside(name, watched);
        let Some(watched) = self.watched.get_mut(name) else {
            return;
        };
        let now = Timestamp::now();
        watched.blocked.retain(|_, (until, _)| now < *until);
        let plan = watched.fleet.decide(&outside, &watched.memory, now);
        if plan.wake_at != watched.armed {
            if let Some(old) = watched.armed.take() {
                self.wakes.remove(&(old, name.to_owned()));
            }
            self.wakes
                .extend(plan.wake_at.map(|at| (at, name.to_owned())));
            watched.armed = plan.wake_at;
        }
        if watched.dry_run {
            for action in &plan.actions {
                tracing::info!(check = name, ?action, "dry run: not done");
            }
            return;
        }
        let metrics = self.context.metrics.nodes();
        for (node, entry) in &plan.memory.nodes {
            for tried in &entry.tried {
                metrics.begun(node, &tried.id);
            }
        }
        for over in &plan.finished {
            metrics.finished(&over.node, &over.request, over.lasted);
        }
        for event in &plan.events {
            let message = format!("[remediation] {}", event.message);
            let events = &self.context.events;
            events.send(&watched.object, event.warning, event.reason, &message);
        }
        watched.memory = plan.memory;
        if !watched.writing && status::differs(&watched.object, &watched.memory) {
            let at = watched.not_before;
            self.timers.insert((at, Timer::Status(name.to_owned())));
        }
        let actions = self.cleared(name, plan.actions);
        let mut groups: BTreeMap<String, Vec<Action>> = BTreeMap::new();
        for action in actions {
            let node = action.node().to_owned();
            groups.entry(node).or_default().push(action);
        }
        let waiting = self.pending.keys().filter(|(check, _)| check == name);
        let waiting: Vec<String> = waiting.map(|(_, node)| node.clone()).collect();
        for node in waiting {
            groups.entry(node).or_default();
        }
        for (node, actions) in groups {
            self.act((name.to_owned(), node), actions);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => tokio::time::sleep_until(at.into()).await,
    }
}

#[cfg(test)]
mod tests;
