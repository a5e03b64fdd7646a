//! Search for orphaned remediations, and their withdrawal.

use std::collections::BTreeMap;

use kube::api::DynamicObject;
use rackhand_core::checks::dispatch::Withdrawals;

use super::{Parts, RemediationOwners, act, dialect::MachineDialect};
use crate::{
    checks::remediations::{
        external_remediations::ExternalRemediations, withdrawal::CreatedRemediation,
    },
    store::{
        object::{Key, Kind},
        remediation::RemediationId,
        time_slice::beside,
    },
};

/// Which checks were examined for orphaned remediations, and which of these are being withdrawn.
#[derive(Default)]
pub(super) struct OrphanSearch {
    /// Checks as they were when their remediations were examined last.
    examined: BTreeMap<Key, Examined>,
    withdrawals: Withdrawals<String, CreatedRemediation>,
}

/// The inputs, besides Machines, that decide which remediations of a check are orphaned: the check and its
/// Cluster, without their status.
#[derive(PartialEq, Eq)]
struct Examined {
    check: Version,
    cluster: Option<Version>,
}

/// The parts of an object that show a change of anything but its status.
#[derive(PartialEq, Eq)]
struct Version {
    uid: Option<String>,
    generation: i64,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    is_deleting: bool,
}

// === impl Examined ===

impl Examined {
    /// `None` if changes of an object cannot be told from changes of its status.
    fn of(check: &DynamicObject, cluster: Option<&DynamicObject>) -> Option<Self> {
        let check = Version::of(check)?;
        let cluster = match cluster {
            Some(cluster) => Some(Version::of(cluster)?),
            None => None,
        };
        Some(Self { check, cluster })
    }
}

// === impl Version ===

impl Version {
    fn of(object: &DynamicObject) -> Option<Self> {
        let meta = &object.metadata;
        Some(Self {
            uid: meta.uid.clone(),
            generation: meta.generation?,
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
            is_deleting: meta.deletion_timestamp.is_some(),
        })
    }
}

// === impl OrphanSearch ===

impl OrphanSearch {
    /// Examines the remediations of a check at the next call of [`Self::record`] in any case.
    pub(super) fn forget(&mut self, check: &Key) {
        self.examined.remove(check);
    }

    /// Records a check and its Cluster as they are now. Returns whether its remediations may have become orphans
    /// since the last call: whether anything but the status, which each verdict writes, has changed.
    pub(super) fn record(
        &mut self,
        key: &Key,
        check: Option<&DynamicObject>,
        cluster: Option<&DynamicObject>,
    ) -> bool {
        let Some(examined) = check.and_then(|check| Examined::of(check, cluster)) else {
            self.forget(key);
            return true;
        };
        let is_same = self.examined.get(key) == Some(&examined);
        self.examined.insert(key.clone(), examined);
        !is_same
    }

    /// Examines the known remediations that match.
    pub(super) fn examine_all<M: MachineDialect>(
        &mut self,
        engine: &mut Parts<M>,
        external: &ExternalRemediations<RemediationOwners>,
        fits: impl Fn(&CreatedRemediation) -> bool,
    ) {
        let indexed = engine.context.index.remediations();
        let all: Vec<_> = beside(indexed.len(), || {
            let indexed = indexed
                .iter()
                .filter_map(|(_, entry)| CreatedRemediation::read(&entry.object, M::OWNER));
            indexed
                .chain(external.made(M::OWNER))
                .filter(fits)
                .collect()
        });
        for made in all {
            self.examine(engine, made);
        }
    }

    /// Examines the remediations of one Machine.
    pub(super) fn examine_machine<M: MachineDialect>(
        &mut self,
        engine: &mut Parts<M>,
        machine: &Key,
    ) {
        for kind in Kind::REMEDIATIONS {
            let id = RemediationId::new(kind, machine.clone());
            let entry = engine.context.index.remediation(&id);
            if let Some(made) =
                entry.and_then(|entry| CreatedRemediation::read(&entry.object, M::OWNER))
            {
                self.examine(engine, made);
            }
        }
    }

    /// Starts the withdrawal of a remediation if it is orphaned.
    pub(super) fn examine<M: MachineDialect>(
        &mut self,
        engine: &mut Parts<M>,
        made: CreatedRemediation,
    ) {
        let is_new = !self.withdrawals.is_under_way(&made.uid);
        if is_new && made.is_orphan_by_index(&engine.context.index) {
            self.withdrawals.begin(made.uid.clone());
            act::withdraw(engine, made);
        }
    }

    /// A withdrawal has ended; `done`: nothing is left to withdraw.
    pub(super) fn withdrawn<M: MachineDialect>(
        &mut self,
        engine: &mut Parts<M>,
        made: CreatedRemediation,
        done: bool,
    ) {
        let uid = made.uid.clone();
        self.withdrawals.end(&uid, made, done, engine.now());
        self.set_timer(engine);
    }

    /// Examines the remediations again that were not withdrawn, if that is due.
    pub(super) fn examine_due<M: MachineDialect>(&mut self, engine: &mut Parts<M>) {
        while let Some(made) = self.withdrawals.pop_due(engine.now()) {
            self.examine(engine, made);
        }
        self.set_timer(engine);
    }

    fn set_timer<M: MachineDialect>(&self, engine: &mut Parts<M>) {
        if let Some(at) = self.withdrawals.next_due() {
            engine.set_timer(at, OrphansDue);
        }
    }
}

/// The timer at which remediations that were not withdrawn are examined again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) struct OrphansDue;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_change_beside_the_status_is_examined() {
        let object = |generation: i64, annotation: &str, status: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": { "uid": "u", "generation": generation, "annotations": { "a": annotation } },
                "status": { "phase": status },
            }))
            .unwrap()
        };
        let (check, cluster) = (object(1, "x", "one"), object(1, "x", "one"));
        let before = Examined::of(&check, Some(&cluster));
        assert!(before.is_some());
        let other_status = object(1, "x", "two");
        assert!(Examined::of(&other_status, Some(&other_status)) == before);
        for changed in [object(2, "x", "one"), object(1, "y", "one")] {
            assert!(Examined::of(&changed, Some(&cluster)) != before);
            assert!(Examined::of(&check, Some(&changed)) != before);
        }
        assert!(Examined::of(&check, None) != before);
        let mut without_generation = check;
        without_generation.metadata.generation = None;
        assert!(Examined::of(&without_generation, None).is_none());
    }
}
