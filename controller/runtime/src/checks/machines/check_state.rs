//! An evaluated check: its spec, its fleet, and its pending status.

use jiff::Timestamp;
use rackhand_api::views::MachineView;
use rackhand_core::checks::machines::{DialectRules, Fleet, Target, clock_skew};

use super::{
    Parts, RemediationOwners,
    dialect::{MachineDialect, Spec, Summary},
    lookup,
};
use crate::{
    checks::{
        Context,
        conditions::Notices,
        engine::queue::Item,
        facts,
        remediations::{external_remediations::ExternalRemediations, template::TemplateCache},
    },
    store::object::Key,
};

/// A health check of Machines and what the engine knows of it.
pub(in crate::checks) struct CheckState<M: MachineDialect> {
    pub(super) spec: Spec<M>,
    pub(super) fleet: Fleet<M::Rules>,
    /// Whether its fleet is not read yet, because the first list of the cluster's Nodes is not known: a judgement
    /// without Nodes would count every Machine against the limit.
    pub(super) awaits_nodes: bool,
    /// The last Machine that was read for a fleet that is not whole.
    read_to: Option<Key>,
    /// The template of the check's remediations.
    pub(super) template: TemplateCache,
    /// Whether the names of the targets may have changed.
    pub(super) names_changed: bool,
}

/// A target with the Machine facts of a dialect.
type TargetOf<M> = Target<<<M as MachineDialect>::Rules as DialectRules>::Machine>;

// === impl CheckState ===

impl<M: MachineDialect> CheckState<M> {
    /// The state of a check whose fleet is read by [`Self::fill`].
    pub(super) fn new(context: &Context, spec: Spec<M>, now: Timestamp) -> Self {
        let fleet = Fleet::unfilled(
            spec.rules.clone(),
            spec.cluster_facts.clone(),
            facts::unreachable(&context.index, &spec.cluster, M::FEEDS),
            now,
        );
        Self {
            awaits_nodes: context.index.is_connecting(&spec.cluster),
            spec,
            fleet,
            read_to: None,
            template: TemplateCache::default(),
            names_changed: true,
        }
    }

    /// Puts the next Machines of the index into the fleet; what was put before follows the changes. Returns whether
    /// there may be more.
    pub(super) fn fill(
        &mut self,
        engine: &Parts<M>,
        external: &ExternalRemediations<RemediationOwners>,
        key: &Key,
        most: usize,
    ) -> bool {
        let (index, namespace) = (&engine.context.index, &key.namespace);
        let now = Timestamp::now();
        let first = Key::new(namespace, "");
        let after = self.read_to.as_ref().unwrap_or(&first);
        let keys = index.keys_after(M::MACHINE, Some(after), most);
        let of_namespace = |machine: &&Key| machine.namespace == *namespace;
        for machine in keys.iter().take_while(of_namespace) {
            let selector = &self.spec.selector;
            let entry = lookup::select_machine(index, M::MACHINE, machine, |labels| {
                selector.matches(labels)
            });
            // A Machine that cannot be parsed is left out; the engine logs it.
            let Some(view) = entry.and_then(|entry| entry.view.ok()) else {
                continue;
            };
            let mut target = self.target(&engine.context, external, machine, &view);
            let item = Item::new(key, &machine.name.as_str().into());
            target.remediation = engine.members.counted(&item, target.remediation);
            self.fleet.put(target, now);
        }
        let is_last = |last: &Key| last.namespace != *namespace;
        let last = keys.into_iter().last();
        let has_more = last.as_ref().is_some_and(|last| !is_last(last));
        self.read_to = last;
        has_more
    }

    /// A Machine with its Node and remediation.
    pub(super) fn target(
        &self,
        context: &Context,
        external: &ExternalRemediations<RemediationOwners>,
        machine: &Key,
        view: &MachineView,
    ) -> TargetOf<M> {
        Self::target_of(&self.spec, context, external, machine, view)
    }

    /// Like [`Self::target`], while the state is being changed.
    pub(super) fn target_of(
        spec: &Spec<M>,
        context: &Context,
        external: &ExternalRemediations<RemediationOwners>,
        machine: &Key,
        view: &MachineView,
    ) -> TargetOf<M> {
        Target {
            node: facts::node(&context.index, &spec.cluster, view.node_name.as_deref()),
            machine: M::facts(view),
            remediation: spec.remediation(context, external, machine, &view.meta.uid),
        }
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
