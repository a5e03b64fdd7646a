//! Start, change and end of the evaluation of checks.

use jiff::Timestamp;
use rackhand_core::checks::dispatch::Work;

use super::{
    CheckState, Machines, Parts, act,
    dialect::{MachineDialect, Spec, Unread},
};
use crate::{checks::engine::RESYNC, store::object::Key};

impl<M: MachineDialect> Machines<M> {
    /// Applies a change of a check or of its Cluster.
    pub(super) fn refresh(&mut self, engine: &mut Parts<M>, key: &Key) {
        let context = engine.context.clone();
        let spec = M::read(&context, key);
        let entry = M::check(&context.index, key);
        if entry.is_some() {
            engine.resync_in(RESYNC, key);
        }
        let check = entry.as_ref().map(|entry| &*entry.object);
        let cluster = check.and_then(|check| M::cluster_of(&context, key, check));
        self.clusters.set(key, cluster);
        match spec {
            Ok(spec) => self.evaluate(engine, key, spec),
            Err(Unread::NotEvaluated) => self.drop_check(engine, key),
            Err(Unread::Invalid(reason, message)) => {
                self.drop_check(engine, key);
                if self.reports.begin(key) {
                    act::report_invalid(engine, key, reason, message);
                }
            }
        }
        // Examined before the watch of the kind ends, because remediations that the check covered may be
        // orphaned.
        let lost = !self.checks.contains_key(key);
        if lost {
            self.orphans.forget(key);
        }
        if lost || self.record_examined(engine, key) {
            let external = self.remediations.known();
            self.orphans.examine_all(engine, external, |made| {
                made.check().as_ref() == Some(key) || (lost && made.key.namespace == key.namespace)
            });
        }
        let sources = self.checks.values().map(|check| &check.spec.source);
        self.remediations
            .watch(sources, &context, &mut engine.watches);
        M::evaluates_some(&context.index, !self.clusters.is_empty());
    }

    /// Records the current state of a check and its Cluster. Returns whether its remediations may have become
    /// orphans since the last call.
    fn record_examined(&mut self, engine: &Parts<M>, key: &Key) -> bool {
        let index = &engine.context.index;
        let check = M::check(index, key);
        let cluster = self.clusters.cluster(key);
        let cluster = cluster.and_then(|cluster| index.cluster(cluster));
        let check = check.as_ref().map(|entry| &*entry.object);
        let cluster = cluster.as_ref().map(|entry| &*entry.object);
        self.orphans.record(key, check, cluster)
    }

    fn evaluate(&mut self, engine: &mut Parts<M>, key: &Key, spec: Spec<M>) {
        let context = engine.context.clone();
        let now = Timestamp::now();
        if !self.remediations.is_known(key, &spec.source) {
            // Without the remediations the limit is not known; the first list refreshes the check again.
            self.end_check(engine, key);
            return;
        }
        let before = self.checks.get(key).map(CheckState::precedence);
        match self.checks.get_mut(key) {
            Some(check) if check.spec.looks_at_the_same(&spec) => {
                let external = self.remediations.known();
                let rules = spec.rules.clone();
                let template = M::template(&check.spec.view) != M::template(&spec.view);
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
                self.end_check(engine, key);
                let check = CheckState::new(&context, spec, now);
                self.checks.insert(key.clone(), check);
                engine.begin_check(key);
                self.backlog.push(Work::Fill(key.clone()));
                return;
            }
        }
        if before != self.checks.get(key).map(CheckState::precedence) {
            self.overlap_again(engine, key);
        }
        self.count(engine, key);
        engine.status_due(key);
        self.settle(engine, key);
    }

    fn drop_check(&mut self, engine: &mut Parts<M>, key: &Key) {
        self.remediations.forget(key);
        self.end_check(engine, key);
    }

    /// Ends the evaluation of a check, which may wait for its kind of remediations.
    fn end_check(&mut self, engine: &mut Parts<M>, key: &Key) {
        engine.context.metrics.remove_check(key);
        if self.checks.remove(key).is_none() {
            return;
        }
        engine.end_check(key);
        M::forget(&engine.context.metrics, key);
        self.overlap_again(engine, key);
    }
}
