//! Work on many Machines, done piece by piece: changes of the index, the first reading of a fleet, and what follows
//! for its members.

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

impl<M: MachineDialect> Machines<M> {
    /// Does one piece of work.
    pub(super) fn work_on(&mut self, engine: &mut Parts<M>, work: Work<Key, Change>) {
        match work {
            Work::Apply(change) => self.apply_change(engine, change),
            Work::Fill(check) => self.fill(engine, &check),
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
