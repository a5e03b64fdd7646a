//! What follows from the verdicts of a check: members are queued, and processed when their turn comes.

use std::{collections::BTreeSet, time::Instant};

use jiff::Timestamp;
use rackhand_api::names::conditions::EXTERNALLY_REMEDIATED;
use rackhand_core::checks::{
    dispatch::{Role, Turn, Visit, Wanted},
    machines::{Claim, MachineRemediation, Verdict},
};

use super::{
    Machines, Parts,
    act::{self, Creation},
    dialect::{Effect, Job, MachineDialect, MachineStatus},
};
use crate::{
    checks::{
        engine::queue::{Item, MemberKey},
        metrics::CheckCounts,
        remediations::{lifecycle::EffectOutcome, template::Unusable, withdrawal::Owner},
    },
    store::object::Key,
};

/// Most Machines of a fleet that are reconsidered at once.
const AT_ONCE: usize = 32;
/// Most Machines that lose their live read one by one, while that of others of their check counts.
const WITHDRAWN_ALONE: usize = 2_000;

impl<M: MachineDialect> Machines<M> {
    /// Applies changes of a fleet: enqueues members with an action, schedules the status and the next
    /// deadline.
    pub(super) fn settle(&mut self, engine: &mut Parts<M>, key: &Key) {
        let check = self.checks.get_mut(key);
        if check.as_ref().is_some_and(|check| check.fleet.is_stale()) {
            self.backlog.advance(key.clone());
        }
        let Some(check) = check.filter(|check| check.fleet.is_whole()) else {
            return;
        };
        let turn = check.fleet.take();
        check.names_changed |= turn.targets;
        engine.arm(key, check.fleet.next_deadline());
        if turn.counts {
            self.count(engine, key);
            engine.status_due(key);
        }
        let items = turn.machines.iter().map(|machine| Item::new(key, machine));
        if turn.machines.len() <= AT_ONCE && !turn.unhealthy {
            for item in items {
                self.reconsider(engine, &item);
            }
            return;
        }
        // Whatever happens until then, no earlier live read counts for them (F10).
        if turn.unhealthy || turn.machines.len() > WITHDRAWN_ALONE {
            engine.members.withdraw_all(key);
        } else {
            for item in items {
                engine.members.withdraw(&item);
            }
        }
        if turn.unhealthy {
            self.backlog.visit(Visit::ReconsiderUnhealthy, key.clone());
        }
        self.backlog.reconsider(key, turn.machines);
    }

    pub(super) fn count(&self, engine: &Parts<M>, key: &Key) {
        let check = self.checks.get(key).filter(|c| c.fleet.is_whole());
        if let Some(check) = check {
            let fleet = &check.fleet;
            let metrics = &engine.context.metrics;
            let counts = CheckCounts {
                targets: fleet.tally().expected,
                healthy: fleet.tally().healthy,
                counted: fleet.tally().not_healthy,
                allowed: fleet.gate().remediations_allowed,
                open: fleet.is_open(),
            };
            metrics.set_check(key, counts, fleet.causes());
            if M::OWNER == Owner::OpenShift {
                metrics
                    .openshift
                    .set_check(key, counts.targets, counts.open);
            }
        }
    }

    /// Enqueues a member if there may be an action for it.
    pub(super) fn reconsider(&self, engine: &mut Parts<M>, item: &Item) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            engine.members.withdraw(item);
            return;
        };
        let (context, key) = (&engine.context, item.key());
        let effect = M::effect(context, &check.spec, &key, &wanted);
        if !check.spec.dry_run {
            let acts = !self.overlaps.yields(&item.check, &key);
            M::announce(context, &item.check, &check.spec, &key, &wanted, acts);
        }
        // A recovered Machine no longer waits for remediation.
        let stale = || {
            *wanted.verdict == Verdict::Healthy
                && !check.fleet.paused()
                && M::WRITES_MACHINES
                && context.index.machine_mentions(&key, EXTERNALLY_REMEDIATED)
        };
        let shows = wanted.condition.is_some() || stale();
        let is_creation = effect.as_ref().is_some_and(Effect::is_creation);
        let due = Wanted {
            hands_over: effect.as_ref().is_some_and(Effect::hands_over),
            effect,
        };
        engine.members.reconsider(item, &due, shows);
        if !is_creation {
            complain(engine, item, None);
        }
    }

    /// Processes a member. The fleet is queried now, not when the member was enqueued (F10).
    pub(super) fn process(&mut self, engine: &mut Parts<M>, item: Item) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            return;
        };
        let effect = M::effect(&engine.context, &check.spec, &item.key(), &wanted);
        let status = MachineStatus {
            uid: wanted.uid.to_owned(),
            health: wanted.condition,
            outcome: None,
            healthy: *wanted.verdict == Verdict::Healthy && !check.fleet.paused(),
        };
        let cause = cause(wanted.verdict);
        let role = Role {
            yields: self.overlaps.yields(&item.check, &item.key()),
            dry_run: check.spec.dry_run,
        };
        let due = Wanted {
            hands_over: effect.as_ref().is_some_and(Effect::hands_over),
            effect,
        };
        let now = engine.now();
        let effect = match engine.members.turn(&item, due, role, now) {
            Turn::Yield => return complain(engine, &item, None),
            Turn::DryRun(effect) => {
                if let Some(effect) = effect {
                    tracing::info!(check = %item.check, machine = &*item.member, ?effect, "dry run: not done");
                }
                return;
            }
            Turn::Show | Turn::AwaitRead => return show(engine, item, status),
            Turn::Begin(effect) => effect,
        };
        match effect {
            Effect::CreateRemediation { uid } => self.create(engine, item, uid, cause),
            Effect::DeleteRemediation => self.delete(engine, item),
            Effect::Report(outcome) => {
                let outcome = Some(outcome);
                show(engine, item, MachineStatus { outcome, ..status });
            }
            Effect::ReportForeignRemediation { owner } => {
                let unusable = Unusable::foreign(&owner);
                complain(engine, &item, Some(&unusable));
                let outcome = Some(EffectOutcome::RemediationNotCreated(unusable));
                show(engine, item, MachineStatus { outcome, ..status });
            }
            Effect::Extra {
                action, creates, ..
            } => self.perform(engine, item, action, creates),
        }
    }

    fn create(
        &mut self,
        engine: &mut Parts<M>,
        item: Item,
        machine: String,
        cause: Option<String>,
    ) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(reference) = check.spec.template.clone() else {
            return;
        };
        let Some(template) = check.template.fresh(Instant::now()).cloned() else {
            engine.members.await_template(&item);
            if !std::mem::replace(&mut check.template.reading, true) {
                act::read_template(engine, &item.check, reference);
            }
            return;
        };
        let creation = Creation {
            template,
            maker: check.spec.meta.uid.clone(),
            machine,
            cause,
        };
        self.begin(engine, &item, true);
        act::create(engine, item, creation);
    }

    fn delete(&self, engine: &mut Parts<M>, item: Item) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let Some(template) = check.spec.template.clone() else {
            return;
        };
        let (source, external) = (&check.spec.source, self.remediations.known());
        let uid = source.uid(&engine.context, external, &item.key());
        engine.members.begin(&item, false);
        act::delete(engine, item, template, uid);
    }

    fn perform(&mut self, engine: &mut Parts<M>, item: Item, action: M::Extra, creates: bool) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let job = Job {
            context: engine.context.clone(),
            check: item.check.clone(),
            maker: check.spec.meta.uid.clone(),
            machine: item.key(),
            rules: check.spec.rules.clone(),
            action,
        };
        self.begin(engine, &item, creates);
        act::perform(engine, item, job);
    }

    /// Begins an effect. `creates`: the remediation of the member may exist from now on, so that the member counts
    /// as remediated.
    fn begin(&mut self, engine: &mut Parts<M>, item: &Item, creates: bool) {
        engine.members.begin(item, creates);
        if !creates {
            return;
        }
        if let Some(check) = self.checks.get_mut(&item.check) {
            let (fleet, now) = (&mut check.fleet, Timestamp::now());
            fleet.set_remediation(&item.member, MachineRemediation::Open, now);
        }
        self.settle(engine, &item.check);
    }

    /// Updates the acting check of a Machine after these checks have selected or deselected it, or its
    /// remediation was created or deleted.
    pub(super) fn overlap(&mut self, engine: &mut Parts<M>, machine: &Key, checks: &[Key]) {
        let siblings = checks
            .iter()
            .flat_map(|check| self.clusters.siblings(check));
        let among = siblings.collect();
        self.overlap_among(engine, machine, &among);
    }

    /// Updates the overlaps of a check when its evaluation begins.
    pub(super) fn overlap_all(&mut self, check: &Key) {
        let has_others = self.clusters.siblings(check).len() > 1;
        if has_others && self.checks.contains_key(check) {
            self.backlog.visit(Visit::ChooseActing, check.clone());
        }
    }

    /// Updates the overlaps of a check that starts or stops to act, or is deleted.
    pub(super) fn overlap_again(&mut self, engine: &mut Parts<M>, check: &Key) {
        if self.overlaps.count(check) > AT_ONCE {
            return self.backlog.visit(Visit::ChooseActingAgain, check.clone());
        }
        let among = self.clusters.siblings(check);
        for machine in self.overlaps.machines(check) {
            self.overlap_among(engine, &machine, &among);
        }
    }

    pub(super) fn overlap_among(
        &mut self,
        engine: &mut Parts<M>,
        machine: &Key,
        among: &BTreeSet<Key>,
    ) {
        let checks = &self.checks;
        let claim = |key: &Key| {
            let check = checks.get(key)?;
            let selects = key.namespace == machine.namespace && check.fleet.contains(&machine.name);
            let (able, created) = check.precedence();
            selects.then(|| Claim {
                created,
                name: key.name.clone(),
                able,
                has_remediation: check.fleet.has_remediation(&machine.name),
            })
        };
        for check in self.overlaps.update(machine, among, claim) {
            engine.status_due(&check);
            self.reconsider(engine, &Item::new(&check, &machine.name.as_str().into()));
        }
    }
}

/// Writes the conditions of a Machine, with the outcome of its last effect.
fn show<M: MachineDialect>(engine: &mut Parts<M>, item: Item, mut status: MachineStatus) {
    if !M::WRITES_MACHINES {
        return;
    }
    // An outcome that is an effect of its own, as for the owner of a Machine, does not wait for other conditions.
    if status.outcome.is_none() && !engine.members.may_show(&item) {
        return;
    }
    let earlier = engine.members.take_unreported(&item);
    // The outcome of an earlier action is not written to a Machine that has recovered meanwhile.
    let earlier = earlier.filter(|_| !status.healthy);
    status.outcome = earlier.or(status.outcome);
    engine.members.begin(&item, false);
    act::write_conditions(engine, item, status);
}

/// Shows on the check why a due remediation was not created, until it is created.
pub(super) fn complain<M: MachineDialect>(
    engine: &mut Parts<M>,
    item: &Item,
    why: Option<&Unusable>,
) {
    if engine.members.set_not_created(item, why) {
        engine.status_due(&item.check);
    }
}

/// Why a Machine is unhealthy.
fn cause(verdict: &Verdict) -> Option<String> {
    let Verdict::Unhealthy { causes } = verdict else {
        return None;
    };
    let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
    Some(causes.join("; "))
}
