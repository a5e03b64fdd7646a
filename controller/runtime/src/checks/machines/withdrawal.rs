//! Finds and withdraws orphaned remediations.

use super::{Engine, Machines, dialect::MachineDialect, results::Done};
use crate::{
    checks::{engine::panicked, withdrawal::CreatedRemediation},
    store::{
        object::{Key, Kind},
        request::RequestId,
    },
};

impl<M: MachineDialect> Engine<Machines<M>> {
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
        for kind in Kind::REQUESTS {
            let id = RequestId::new(kind, machine.clone());
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
