//! An evaluated check: its spec, its fleet, and its pending status.

use jiff::Timestamp;
use rackhand_api::views::MachineView;
use rackhand_core::checks::machines::{Fleet, Policy, Target, clock_skew};

use super::{
    RequestOwners,
    dialect::{MachineDialect, Spec, Summary},
};
use crate::{
    checks::{
        Context,
        conditions::Notices,
        engine::queue::Item,
        facts,
        remediations::{external_requests::ExternalRequests, template::TemplateCache},
    },
    store::object::Key,
};

/// A health check of Machines and what the engine knows of it.
pub(in crate::checks) struct CheckState<M: MachineDialect> {
    pub(super) spec: Spec<M>,
    pub(super) fleet: Fleet<M::Policy>,
    /// The template of the check's remediations.
    pub(super) template: TemplateCache,
    /// Whether the names of the targets may have changed.
    pub(super) names_changed: bool,
}

/// A target with the Machine facts of a dialect.
type TargetOf<M> = Target<<<M as MachineDialect>::Policy as Policy>::Machine>;

// === impl CheckState ===

impl<M: MachineDialect> CheckState<M> {
    /// Builds the state of a check with a fleet from the index.
    pub(super) fn new(
        context: &Context,
        external: &ExternalRequests<RequestOwners>,
        spec: Spec<M>,
        key: &Key,
        now: Timestamp,
    ) -> Self {
        let mut fleet = Fleet::new(
            spec.rules.clone(),
            spec.cluster_facts.clone(),
            facts::unreachable(&context.index, &spec.cluster, M::FEEDS),
            now,
        );
        for entry in M::machines(&context.index, &spec, &key.namespace) {
            // A Machine that cannot be parsed is left out; the engine logs it.
            if let Ok(view) = &entry.view {
                let machine = Key::new(&key.namespace, &view.meta.name);
                let target = Self::target_of(&spec, context, external, &machine, view);
                fleet.put(target, now);
            }
        }
        Self {
            spec,
            fleet,
            template: TemplateCache::default(),
            names_changed: true,
        }
    }

    /// A Machine with its Node and remediation.
    pub(super) fn target(
        &self,
        context: &Context,
        external: &ExternalRequests<RequestOwners>,
        machine: &Key,
        view: &MachineView,
    ) -> TargetOf<M> {
        Self::target_of(&self.spec, context, external, machine, view)
    }

    /// Like [`Self::target`], while the state is being changed.
    pub(super) fn target_of(
        spec: &Spec<M>,
        context: &Context,
        external: &ExternalRequests<RequestOwners>,
        machine: &Key,
        view: &MachineView,
    ) -> TargetOf<M> {
        Target {
            node: facts::node(&context.index, &spec.cluster, view.node_name.as_deref()),
            machine: M::facts(view),
            request: spec.request(context, external, machine, &view.meta.uid),
        }
    }

    /// The members of a check.
    pub(super) fn items(&self, key: &Key) -> Vec<Item> {
        let members = self.fleet.machines();
        members.map(|member| Item::new(key, member)).collect()
    }

    /// The precedence of a check for all its members: whether it can act, and its age.
    pub(super) fn precedence(&self) -> (bool, Option<Timestamp>) {
        let able = !self.fleet.paused() && !self.spec.dry_run;
        (able, self.spec.meta.created)
    }

    /// The status of the check, with the names of its targets only if they may have changed.
    pub(super) fn summary(&mut self) -> Summary {
        let names = std::mem::take(&mut self.names_changed);
        Summary {
            tally: *self.fleet.tally(),
            targets: names.then(|| self.fleet.status().targets),
            gate: self.fleet.gate(),
            paused: self.fleet.paused(),
            failed: None,
            notices: Notices {
                overlapping: None,
                stale: None,
                ahead: clock_skew(self.fleet.ahead()),
            },
        }
    }
}
