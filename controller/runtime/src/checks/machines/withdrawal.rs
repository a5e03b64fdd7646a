//! Search for orphaned remediations, and their withdrawal.

use std::collections::BTreeMap;

use kube::api::DynamicObject;

use super::{CheckEngine, Machines, dialect::MachineDialect, results::Done};
use crate::{
    checks::{engine::panicked, remediations::withdrawal::CreatedRemediation},
    store::{
        object::{Key, Kind},
        remediation::RemediationId,
    },
};

/// The inputs, besides Machines, that decide which remediations of a check are orphaned: the check and its
/// Cluster, without their status.
#[derive(PartialEq, Eq)]
pub(super) struct Examined {
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
    pub(super) fn of(check: &DynamicObject, cluster: Option<&DynamicObject>) -> Option<Self> {
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

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// Records the current state of a check and its Cluster. Returns whether its remediations may have become
    /// orphans since the last call: whether anything but the status, which each verdict writes, has changed.
    pub(super) fn record_examined(&mut self, key: &Key) -> bool {
        let check = M::check(&self.context.index, key);
        let cluster = self.dialect.clusters.get(key);
        let cluster = cluster.and_then(|cluster| self.context.index.cluster(cluster));
        let cluster = cluster.as_ref().map(|entry| &*entry.object);
        let examined = check.and_then(|entry| Examined::of(&entry.object, cluster));
        let Some(examined) = examined else {
            self.dialect.examined.remove(key);
            return true;
        };
        let is_same = self.dialect.examined.get(key) == Some(&examined);
        self.dialect.examined.insert(key.clone(), examined);
        !is_same
    }

    /// Examines the known remediations that match.
    pub(super) fn examine_requests(&mut self, fits: impl Fn(&CreatedRemediation) -> bool) {
        let indexed = self.context.index.requests().into_iter();
        let indexed =
            indexed.filter_map(|(_, entry)| CreatedRemediation::read(&entry.object, M::OWNER));
        let external = self.dialect.external.made(M::OWNER);
        let all: Vec<CreatedRemediation> = indexed.chain(external).filter(fits).collect();
        for made in all {
            self.examine(made);
        }
    }

    /// Examines the remediations of one Machine.
    pub(super) fn examine_machine(&mut self, machine: &Key) {
        for kind in Kind::REMEDIATIONS {
            let id = RemediationId::new(kind, machine.clone());
            let entry = self.context.index.request(&id);
            if let Some(made) =
                entry.and_then(|entry| CreatedRemediation::read(&entry.object, M::OWNER))
            {
                self.examine(made);
            }
        }
    }

    /// Starts the withdrawal of a remediation if it is orphaned.
    pub(super) fn examine(&mut self, made: CreatedRemediation) {
        let index = &self.context.index;
        if self.dialect.withdrawing.contains(&made.uid) || !made.is_orphan_by_index(index) {
            return;
        }
        self.dialect.withdrawing.insert(made.uid.clone());
        let context = self.context.clone();
        self.spawn(Done::Withdrawn(made.clone(), Err(panicked())), async move {
            let withdrawn = made.withdraw(&context).await;
            Done::Withdrawn(made, withdrawn)
        });
    }
}

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
