//! Work on many Machines, done piece by piece: changes of the index, the first reading of a fleet, and what follows
//! for its members.

use jiff::Timestamp;
use rackhand_core::checks::dispatch::Work;

use super::{Machines, Parts, dialect::MachineDialect, remediation_source::RemediationSource};
use crate::{
    checks::engine::queue::MemberKey,
    store::{
        index::Change,
        object::{Key, Kind},
    },
};

/// Machines that are read at once for a fleet.
const FILLED_AT_ONCE: usize = 8;
/// Machines that are evaluated at once.
const ADVANCED_AT_ONCE: usize = 64;

impl<M: MachineDialect> Machines<M> {
    /// Does one piece of work.
    pub(super) fn work_on(&mut self, engine: &mut Parts<M>, work: Work<Key, Change>) {
        match work {
            Work::Apply(change) => self.apply_change(engine, change),
            Work::Fill(check) => self.fill(engine, &check),
            Work::Advance(check) => self.advance_some(engine, &check),
            Work::ReadRemediation(item) => self.remediation_changed(engine, &item),
            Work::ChooseActing(item) => {
                let among = self.clusters.siblings(&item.check);
                self.overlap_among(engine, &item.key(), &among);
            }
            Work::Reconsider(item) => self.reconsider(engine, &item),
        }
    }

    fn apply_change(&mut self, engine: &mut Parts<M>, change: Change) {
        match change {
            Change::Object(kind, key) if kind == M::CHECK => self.refresh(engine, &key),
            Change::Object(Kind::Cluster, key) => {
                for check in self.clusters.checks(&key) {
                    self.refresh(engine, &check);
                }
            }
            Change::Object(kind, key) if kind == M::MACHINE => {
                self.machine_changed(engine, &key);
                self.orphans.examine_machine(engine, &key);
            }
            Change::Object(kind, key) if Kind::REMEDIATIONS.contains(&kind) => {
                self.remediation_touched(engine, &RemediationSource::Index(kind), &key);
                self.orphans.examine_machine(engine, &key);
            }
            Change::Node(cluster, node) => self.node_changed(engine, &cluster, &node),
            Change::Object(..) | Change::Workload(_) | Change::Agent(_) => {}
        }
    }

    /// Evaluates the next Machines of a check, because something has changed for all of them or their deadlines have
    /// passed, or acts on the result once all are evaluated (F13).
    fn advance_some(&mut self, engine: &mut Parts<M>, key: &Key) {
        let Some(check) = self.checks.get_mut(key) else {
            return;
        };
        let (fleet, now) = (&mut check.fleet, Timestamp::now());
        let is_left =
            fleet.evaluate_some(now, ADVANCED_AT_ONCE) || fleet.advance_some(now, ADVANCED_AT_ONCE);
        match is_left {
            true => self.backlog.push(Work::Advance(key.clone())),
            false => self.settle(engine, key),
        }
    }

    /// Reads the next Machines of a check, or begins to act on it once all were read (F13).
    fn fill(&mut self, engine: &mut Parts<M>, key: &Key) {
        let Some(check) = self.checks.get_mut(key).filter(|c| !c.fleet.is_whole()) else {
            return;
        };
        if check.fill(engine, self.remediations.known(), key, FILLED_AT_ONCE) {
            self.backlog.push(Work::Fill(key.clone()));
            return;
        }
        check.fleet.end_filling();
        let now = engine.now();
        for item in engine.members.resume_remediations(key, now) {
            self.remediation_changed(engine, &item);
        }
        self.overlap_all(key);
        self.count(engine, key);
        engine.status_due(key);
        self.settle(engine, key);
    }
}
