//! Which checks are evaluated, and by which rules.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::health::Policy;
use tokio_util::sync::CancellationToken;

use super::{Engine, Timer, dispatch::SEE_AGAIN};
use crate::{
    checks::{
        check_state::CheckState,
        dialect::{Dialect, Spec, Unread},
        external_requests::ExternalKind,
        item_state::Phase,
        queue::Item,
        request_source::RequestSource,
    },
    object::Key,
};

/// Resync interval of a check.
const RESYNC: Duration = Duration::from_secs(60);

impl<D: Dialect> Engine<D> {
    /// A check, or its Cluster, has changed.
    pub(super) fn refresh(&mut self, key: &Key) {
        let spec = D::read(&self.context, key);
        let entry = D::check(&self.context.index, key);
        if entry.is_some() {
            self.resync_at(key, Instant::now() + RESYNC);
        }
        let named = entry.and_then(|entry| D::cluster_of(&self.context, key, &entry.object));
        self.set_cluster(key, named);
        match spec {
            Ok(spec) => self.evaluate(key, spec),
            Err(Unread::NotEvaluated) => self.drop_check(key),
            Err(Unread::Invalid(reason, message)) => {
                self.drop_check(key);
                self.report(key, reason, message);
            }
        }
        // Before the watch of its kind of requests ends. What it covered may be an orphan without it.
        let lost = !self.checks.contains_key(key);
        self.examine_requests(|made| {
            made.check().as_ref() == Some(key) || (lost && made.key.namespace == key.namespace)
        });
        self.end_watches();
        D::evaluates_some(&self.context.index, !self.of_cluster.is_empty());
    }

    /// Reads a check again although nothing is known to have changed.
    pub(super) fn resync(&mut self, key: &Key) {
        self.resync_at.remove(key);
        self.refresh(key);
        if D::RESYNCS_MACHINES {
            let items: Vec<Item> = self.checks.get(key).map_or_else(Vec::new, |c| c.items(key));
            for item in items {
                self.reconsider(&item);
            }
        }
    }

    /// Reads a check again at that time, or earlier if that is due already.
    pub(super) fn resync_at(&mut self, key: &Key, at: Instant) {
        if self.resync_at.get(key).is_some_and(|known| *known <= at) {
            return;
        }
        self.resync_at.insert(key.clone(), at);
        self.schedule.reset(at, Timer::Resync(key.clone()));
    }

    /// Keeps checks findable by their cluster.
    fn set_cluster(&mut self, key: &Key, named: Option<Key>) {
        let old = match &named {
            Some(cluster) => self.clusters.insert(key.clone(), cluster.clone()),
            None => self.clusters.remove(key),
        };
        if old == named {
            return;
        }
        if let Some(old) = old
            && let Some(checks) = self.of_cluster.get_mut(&old)
        {
            checks.remove(key);
            if checks.is_empty() {
                self.of_cluster.remove(&old);
            }
        }
        if let Some(cluster) = named {
            let checks = self.of_cluster.entry(cluster).or_default();
            checks.insert(key.clone());
        }
    }

    fn evaluate(&mut self, key: &Key, spec: Spec<D>) {
        let context = self.context.clone();
        let now = Timestamp::now();
        if let RequestSource::External(kind) = &spec.source
            && !self.external.synced(kind)
        {
            // Without the requests the limit is not known; the first list brings it back here.
            let kind = kind.clone();
            self.drop_check(key);
            self.watch(&kind);
            self.waiting.insert(key.clone(), kind);
            return;
        }
        self.waiting.remove(key);
        let mut before = self.checks.get(key).map(CheckState::precedence);
        match self.checks.get_mut(key) {
            Some(check) if check.spec.looks_at_the_same(&spec) => {
                let external = &self.external;
                let rules = spec.rules.clone();
                let template = D::template(&check.spec.view) != D::template(&spec.view);
                check.spec = spec;
                let (spec, fleet) = (&check.spec, &mut check.fleet);
                fleet.set_check(rules, now, |machine| {
                    let machine = Key::new(&key.namespace, machine);
                    let view = D::machine(&context.index, &machine)?.view.ok()?;
                    Some(CheckState::target_of(
                        spec, &context, external, &machine, &view,
                    ))
                });
                fleet.set_cluster(spec.cluster_facts.clone(), now);
                if template {
                    check.template = Default::default();
                }
                // Somebody else may have written into its status.
                check.names_changed = true;
            }
            _ => {
                before = None;
                self.drop_check(key);
                let check = CheckState::new(&context, &self.external, spec, key, now);
                self.checks.insert(key.clone(), check);
                let again = Instant::now() + SEE_AGAIN;
                for item in self.items.in_phase(key, Phase::request_may_exist) {
                    self.request_changed(&item);
                    self.queue.later(&item, again);
                }
            }
        }
        match (before, self.checks.get(key).map(CheckState::precedence)) {
            (None, _) => self.overlap_all(key),
            (before, now) if before != now => self.overlap_again(key),
            _ => {}
        }
        self.count(key);
        self.status_due(key);
        self.settle(key);
    }

    fn drop_check(&mut self, key: &Key) {
        let metrics = &self.context.metrics;
        metrics.forget_check(key);
        self.waiting.remove(key);
        if self.checks.remove(key).is_none() {
            return;
        }
        D::forget(metrics, key);
        self.schedule.arm(key, None);
        self.queue.forget(key);
        self.items.forget(key);
        self.overlap_again(key);
    }

    /// Watches a kind of requests that others carry out.
    fn watch(&mut self, kind: &ExternalKind) {
        if self.watching.contains_key(kind) {
            return;
        }
        let cancel = CancellationToken::new();
        self.watching.insert(kind.clone(), cancel.clone());
        let (external, context) = (self.external.clone(), self.context.clone());
        let (kind, news) = (kind.clone(), self.news.clone());
        self.watches
            .spawn(async move { external.watch(context, kind, news, cancel).await });
    }

    /// Ends the watches that no check needs any more.
    fn end_watches(&mut self) {
        let of_check = |c: &CheckState<D>| match &c.spec.source {
            RequestSource::External(kind) => Some(kind.clone()),
            _ => None,
        };
        let mut needed: BTreeSet<ExternalKind> =
            self.checks.values().filter_map(of_check).collect();
        needed.extend(self.waiting.values().cloned());
        let external = &self.external;
        self.watching.retain(|kind, cancel| {
            let keep = needed.contains(kind);
            if !keep {
                cancel.cancel();
                external.forget(kind);
            }
            keep
        });
    }

    /// All that a check of its dialect can act on is no reason to wait for a burst.
    pub(super) fn settles(check: &CheckState<D>) -> bool {
        check.spec.rules.can_close(check.fleet.tally().expected)
    }
}
