//! Start, change and end of the evaluation of checks.

use std::time::Instant;

use jiff::Timestamp;
use rackhand_core::checks::dispatch::{Phase, SEE_AGAIN};

use super::{
    CheckEngine, CheckState, Machines,
    dialect::{MachineDialect, Spec, Unread},
    request_source::RequestSource,
};
use crate::{
    checks::engine::{RESYNC, queue::Item},
    store::object::Key,
};

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// Applies a change of a check or of its Cluster.
    pub(super) fn refresh(&mut self, key: &Key) {
        let spec = M::read(&self.context, key);
        let entry = M::check(&self.context.index, key);
        if entry.is_some() {
            self.resync_at(key, Instant::now() + RESYNC);
        }
        let named = entry.and_then(|entry| M::cluster_of(&self.context, key, &entry.object));
        self.set_cluster(key, named);
        match spec {
            Ok(spec) => self.evaluate(key, spec),
            Err(Unread::NotEvaluated) => self.drop_check(key),
            Err(Unread::Invalid(reason, message)) => {
                self.drop_check(key);
                self.report(key, reason, message);
            }
        }
        // Examined before the watch of the kind ends, because remediations that the check covered may be
        // orphaned.
        let lost = !self.checks.contains_key(key);
        if lost {
            self.dialect.examined.remove(key);
        }
        if lost || self.record_examined(key) {
            self.examine_requests(|made| {
                made.check().as_ref() == Some(key) || (lost && made.key.namespace == key.namespace)
            });
        }
        self.watch_kinds();
        M::evaluates_some(&self.context.index, !self.dialect.of_cluster.is_empty());
    }

    /// Reads a check again without a known change.
    pub(super) fn resync(&mut self, key: &Key) {
        self.dialect.examined.remove(key);
        self.refresh(key);
        if M::RESYNCS_MACHINES {
            let items: Vec<Item> = self.checks.get(key).map_or_else(Vec::new, |c| c.items(key));
            for item in items {
                self.reconsider(&item);
            }
        }
    }

    /// Updates the lookup of checks by their cluster.
    fn set_cluster(&mut self, key: &Key, named: Option<Key>) {
        let old = match &named {
            Some(cluster) => self.dialect.clusters.insert(key.clone(), cluster.clone()),
            None => self.dialect.clusters.remove(key),
        };
        if old == named {
            return;
        }
        if let Some(old) = old
            && let Some(checks) = self.dialect.of_cluster.get_mut(&old)
        {
            checks.remove(key);
            if checks.is_empty() {
                self.dialect.of_cluster.remove(&old);
            }
        }
        if let Some(cluster) = named {
            let checks = self.dialect.of_cluster.entry(cluster).or_default();
            checks.insert(key.clone());
        }
    }

    fn evaluate(&mut self, key: &Key, spec: Spec<M>) {
        let context = self.context.clone();
        let now = Timestamp::now();
        if let RequestSource::External(kind) = &spec.source
            && !self.dialect.external.synced(kind)
        {
            // Without the remediations the limit is not known; the first list refreshes the check again.
            let kind = kind.clone();
            self.drop_check(key);
            self.dialect.waiting.insert(key.clone(), kind);
            return;
        }
        self.dialect.waiting.remove(key);
        let mut before = self.checks.get(key).map(CheckState::precedence);
        match self.checks.get_mut(key) {
            Some(check) if check.spec.looks_at_the_same(&spec) => {
                let external = &self.dialect.external;
                let rules = spec.rules.clone();
                let template = M::template(&check.spec.view) != M::template(&spec.view);
                check.progress.dry_run = spec.dry_run;
                check.spec = spec;
                let (spec, fleet) = (&check.spec, &mut check.fleet);
                fleet.set_check(rules, now, |machine| {
                    let machine = Key::new(&key.namespace, machine);
                    let view = M::machine(&context.index, &machine)?.view.ok()?;
                    Some(CheckState::target_of(
                        spec, &context, external, &machine, &view,
                    ))
                });
                fleet.set_cluster(spec.cluster_facts.clone(), now);
                if template {
                    check.template = Default::default();
                }
                // Another client may have changed the status.
                check.names_changed = true;
            }
            _ => {
                before = None;
                self.drop_check(key);
                let check = CheckState::new(&context, &self.dialect.external, spec, key, now);
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
        self.context.metrics.remove_check(key);
        self.dialect.waiting.remove(key);
        if self.forget_check(key).is_none() {
            return;
        }
        M::forget(&self.context.metrics, key);
        self.overlap_again(key);
    }

    /// Watches exactly the kinds of remediations that checks need and that are not in the index.
    fn watch_kinds(&mut self) {
        let of_check = |c: &CheckState<M>| match &c.spec.source {
            RequestSource::External(kind) => Some(kind.clone()),
            _ => None,
        };
        let checks = self.checks.values().filter_map(of_check);
        let waiting = self.dialect.waiting.values().cloned();
        let wanted = checks.chain(waiting).collect();
        let (ended, begun) = self.dialect.watching.keep(wanted, &self.end);
        for kind in &ended {
            self.dialect.external.forget(kind);
        }
        for (kind, cancel) in begun {
            let (external, context) = (self.dialect.external.clone(), self.context.clone());
            let sender = self.sender.clone();
            let notify = move |changed| drop(sender.send(changed));
            self.watches
                .spawn(external.watch(context, kind, notify, cancel));
        }
    }
}
