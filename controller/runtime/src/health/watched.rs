//! One check: what it says, its fleet, and what is to be written about it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION},
    views::{MachineHealthCheckView, MachineView, Meta},
};
use rackhand_core::{
    handover::Handover,
    health::{Check, ClusterFacts, Fleet, RequestView, Target, clock_skew},
};

use super::{
    Context, facts, others::Others, recipe::Shelf, shown::Asides, source::Source, status::Summary,
};
use crate::object::Key;

/// Time between two writes of one status: a storm is told a few times a second.
const STATUS_PACE: Duration = Duration::from_millis(300);

/// What a check says, read together with its Cluster.
pub(super) struct Spec {
    pub(super) view: Arc<MachineHealthCheckView>,
    pub(super) cluster: Key,
    pub(super) source: Source,
    pub(super) rules: Check,
    pub(super) cluster_facts: ClusterFacts,
    pub(super) dry_run: bool,
}

/// Why a check is not evaluated.
pub(super) enum Unread {
    /// It is gone, going, or not ours.
    NotOurs,
    /// It cannot be: reason and message for its condition.
    Invalid(&'static str, String),
}

/// When the status of a check is written.
pub(super) struct Pace {
    pub(super) due: bool,
    pub(super) writing: bool,
    pub(super) not_before: Instant,
    failures: u32,
}

/// A check that is evaluated.
pub(super) struct Watched {
    pub(super) spec: Spec,
    pub(super) fleet: Fleet,
    /// Recipe of its requests.
    pub(super) shelf: Shelf,
    /// The deadline that stands in the queue.
    pub(super) armed: Option<Timestamp>,
    pub(super) pace: Pace,
    /// The machines that wait to be handed over.
    pub(super) handover: Handover,
    /// The number of the live read that they wait for.
    pub(super) read: u64,
    /// The names of its targets may read otherwise than before.
    pub(super) names: bool,
}

// === impl Spec ===

impl Spec {
    pub(super) fn read(context: &Context, key: &Key) -> Result<Self, Unread> {
        let entry = context.index.check(key).ok_or(Unread::NotOurs)?;
        let meta = Meta::of(&entry.object);
        if !context.mine.evaluates(&meta) || meta.is_deleting() {
            return Err(Unread::NotOurs);
        }
        let view = entry
            .view
            .map_err(|error| Unread::Invalid("InvalidSpec", error.to_string()))?;
        let name = view.cluster_name.clone().unwrap_or_default();
        let cluster = Key::new(&key.namespace, name);
        let Some(found) = context.index.cluster(&cluster) else {
            let message = format!("Cluster {cluster} does not exist");
            return Err(Unread::Invalid("ClusterNotFound", message));
        };
        let found = found
            .view
            .map_err(|error| Unread::Invalid("InvalidCluster", error.to_string()))?;
        let source = Source::of(&key.namespace, view.remediation_template.as_ref());
        let paused = context.mine.paused(&meta) || found.is_paused();
        Ok(Self {
            rules: facts::check(&view, paused),
            cluster_facts: facts::cluster(&found),
            dry_run: meta.is_annotated_true(DRY_RUN_ANNOTATION),
            view,
            cluster,
            source,
        })
    }

    /// Whether the same machines and requests are looked at.
    pub(super) fn looks_at_the_same(&self, other: &Self) -> bool {
        self.cluster == other.cluster
            && self.source == other.source
            && self.view.selector == other.view.selector
    }

    pub(super) fn selects(&self, labels: &std::collections::BTreeMap<String, String>) -> bool {
        labels.get(CLUSTER_NAME_LABEL) == Some(&self.cluster.name)
            && self.view.selector.matches(labels)
    }

    /// A Machine with its Node and request.
    pub(super) fn target(
        &self,
        context: &Context,
        others: &Others,
        machine: &MachineView,
    ) -> Target {
        Target {
            node: facts::node(&context.index, &self.cluster, machine.node_name.as_deref()),
            machine: facts::machine(machine),
            request: self.request(context, others, &machine.meta.name, &machine.meta.uid),
        }
    }

    /// The request of a Machine.
    pub(super) fn request(
        &self,
        context: &Context,
        others: &Others,
        machine: &str,
        uid: &str,
    ) -> RequestView {
        let key = Key::new(&self.cluster.namespace, machine);
        self.source.request(context, others, &key, uid)
    }

    /// The UID of the request of that name.
    pub(super) fn request_uid(
        &self,
        context: &Context,
        others: &Others,
        key: &Key,
    ) -> Option<String> {
        self.source.uid(context, others, key)
    }
}

// === impl Watched ===

impl Watched {
    /// Its fleet, read anew.
    pub(super) fn new(context: &Context, others: &Others, spec: Spec, now: Timestamp) -> Self {
        let mut fleet = Fleet::new(
            spec.rules.clone(),
            spec.cluster_facts.clone(),
            facts::unreachable(&context.index, &spec.cluster),
            now,
        );
        let namespace = &spec.cluster.namespace;
        let selected = context
            .index
            .select_machines(namespace, |labels| spec.selects(labels));
        for entry in selected {
            match &entry.view {
                Ok(machine) => fleet.put(spec.target(context, others, machine), now),
                // A Machine that does not read is left alone.
                Err(error) => tracing::warn!(%error, "a Machine cannot be read and is left out"),
            }
        }
        Self {
            spec,
            fleet,
            shelf: Shelf::default(),
            armed: None,
            pace: Pace {
                due: false,
                writing: false,
                not_before: Instant::now(),
                failures: 0,
            },
            handover: Handover::default(),
            read: 0,
            names: true,
        }
    }

    /// What its status shall say; the names only if they may have changed.
    pub(super) fn summary(&mut self) -> Summary {
        let tally = *self.fleet.tally();
        let names = std::mem::take(&mut self.names);
        Summary {
            expected: tally.expected,
            healthy: tally.healthy,
            unhealthy: tally.unhealthy,
            targets: names.then(|| self.fleet.status().targets),
            gate: self.fleet.gate(),
            paused: self.fleet.paused(),
            failed: None,
            asides: Asides {
                shared: None,
                stale: None,
                ahead: clock_skew(self.fleet.ahead()),
            },
        }
    }
}

// === impl Pace ===

impl Pace {
    /// A write is over.
    pub(super) fn written(&mut self, whole: bool, now: Instant) {
        self.writing = false;
        if whole {
            self.failures = 0;
            self.not_before = now + STATUS_PACE;
        } else {
            let wait = STATUS_PACE.saturating_mul(1 << self.failures.min(7));
            self.failures = self.failures.saturating_add(1);
            self.not_before = now + wait;
            self.due = true;
        }
    }
}
