//! Dispatch of members from the queue: starts their actions.

use std::time::Instant;

use jiff::Timestamp;
use rackhand_core::{
    checks::dispatch::{Phase, Turn, Wanted},
    checks::machines::{MachineRemediation, Verdict},
};

use super::{
    CheckEngine, Machines,
    dialect::{Effect, Job, MachineDialect, MachineStatus},
    results::Done,
};
use crate::{
    checks::{
        engine::{
            panicked,
            queue::{Item, MemberKey},
        },
        remediations::{
            requests::{self, EffectOutcome, Maker},
            template::{self, Unusable},
        },
    },
    store::object::Key,
};

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// Processes a member. The fleet is queried now, not when the member was enqueued (F10).
    pub(super) fn turn(&mut self, item: Item) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(wanted) = check.fleet.wanted(&item.member) else {
            return;
        };
        let effect = M::effect(&self.context, &check.spec, &item.key(), &wanted);
        let status = MachineStatus {
            uid: wanted.uid.to_owned(),
            health: wanted.condition,
            outcome: None,
            healthy: *wanted.verdict == Verdict::Healthy && !check.fleet.paused(),
        };
        let cause = cause(wanted.verdict);
        let (yields, dry_run) = (
            self.dialect.overlaps.yields(&item.check, &item.key()),
            check.progress.dry_run,
        );
        let state = self.items.get(&item).cloned();
        let wanted = Wanted {
            hands_over: effect.as_ref().is_some_and(Effect::hands_over::<M>),
            effect,
            state: state.as_ref(),
        };
        let effect = match wanted.turn(yields, dry_run, || self.is_cleared(&item)) {
            Turn::Yield => {
                // Another check acts for the Machine and writes its conditions.
                self.items.change(&item, |state| state.unreported = None);
                self.complain(&item, None);
                return;
            }
            Turn::DryRun(effect) => {
                if let Some(effect) = effect {
                    tracing::info!(check = %item.check, machine = &*item.member, ?effect, "dry run: not done");
                }
                return;
            }
            Turn::Show => None,
            Turn::Begin(effect) => Some(effect),
        };
        match effect {
            None => self.show(item, status),
            Some(Effect::CreateRequest { uid }) => self.create(item, uid, cause),
            Some(Effect::DeleteRequest) => self.delete(item),
            Some(Effect::Report(outcome)) => {
                let outcome = Some(outcome);
                self.show(item, MachineStatus { outcome, ..status });
            }
            Some(Effect::ReportForeignRequest { owner }) => {
                let unusable = Unusable::foreign(&owner);
                self.complain(&item, Some(&unusable));
                let outcome = Some(EffectOutcome::RequestNotCreated(unusable));
                self.show(item, MachineStatus { outcome, ..status });
            }
            Some(Effect::Extra(extra)) => self.perform(item, extra),
        }
    }

    fn show(&mut self, item: Item, mut status: MachineStatus) {
        if !M::WRITES_MACHINES {
            return;
        }
        let earlier = self
            .items
            .change(&item, |state| state.unreported.take())
            // The outcome of an earlier action is not written to a Machine that has recovered meanwhile.
            .filter(|_| !status.healthy);
        status.outcome = earlier.or(status.outcome);
        let context = self.context.clone();
        self.queue.begin(item.clone());
        self.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
            let written = M::write_machine(&context, &item.check, &item.key(), &status).await;
            Done::Shown(item, status.outcome, written)
        });
    }

    fn create(&mut self, item: Item, uid: String, cause: Option<String>) {
        let Some(check) = self.checks.get_mut(&item.check) else {
            return;
        };
        let Some(reference) = M::template(&check.spec.view).cloned() else {
            return;
        };
        let context = self.context.clone();
        let Some(read) = check.template.fresh(Instant::now()).cloned() else {
            let key = item.check.clone();
            self.items.set_phase(&item, Phase::AwaitingTemplate);
            if !check.template.reading {
                check.template.reading = true;
                self.spawn(Done::Template(key.clone(), Err(panicked())), async move {
                    let read = template::read(&context, &key.namespace, reference).await;
                    Done::Template(key, read)
                });
            }
            return;
        };
        let maker = check.spec.meta.uid.clone();
        self.queue.begin(item.clone());
        self.may_exist(&item);
        self.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
            let (machine, check) = (item.key(), &item.check);
            let known = M::machine(&context.index, &machine);
            let maker = Maker {
                check,
                uid: &maker,
                cause: cause.as_deref(),
            };
            let created = requests::create(&context, &maker, &machine, known, &uid, read).await;
            Done::Acted(item, created)
        });
    }

    /// Records that the remediation of a member may exist, so that the member counts as remediated.
    fn may_exist(&mut self, item: &Item) {
        self.items.set_phase(item, Phase::Creating);
        if let Some(check) = self.checks.get_mut(&item.check) {
            let now = Timestamp::now();
            check
                .fleet
                .set_request(&item.member, MachineRemediation::Open, now);
        }
        self.settle(&item.check);
    }

    fn delete(&mut self, item: Item) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let Some(template) = M::template(&check.spec.view).cloned() else {
            return;
        };
        let context = self.context.clone();
        let uid = check
            .spec
            .source
            .uid(&context, &self.dialect.external, &item.key());
        self.queue.begin(item.clone());
        self.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
            let deleted = match uid {
                Some(uid) => {
                    let (version, kind) = (&template.api_version, template.request_kind());
                    requests::delete_of_machine(&context, version, kind, &item.key(), uid).await
                }
                None => Ok(EffectOutcome::RequestDeleted),
            };
            Done::Acted(item, deleted)
        });
    }

    fn perform(&mut self, item: Item, extra: M::Extra) {
        let Some(check) = self.checks.get(&item.check) else {
            return;
        };
        let creates = M::creates(&extra);
        let job = Job {
            context: self.context.clone(),
            check: item.check.clone(),
            machine: item.key(),
            view: check.spec.view.clone(),
            rules: check.spec.rules.clone(),
            extra,
        };
        self.queue.begin(item.clone());
        if creates {
            self.may_exist(&item);
        }
        self.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
            let performed = M::perform(job).await;
            Done::Acted(item, performed)
        });
    }

    /// Reports on a check why it is not evaluated; one report at a time.
    pub(super) fn report(&mut self, key: &Key, reason: &'static str, message: String) {
        if let Some(again) = self.dialect.reporting.get_mut(key) {
            *again = true;
            return;
        }
        self.dialect.reporting.insert(key.clone(), false);
        let (context, key) = (self.context.clone(), key.clone());
        self.spawn(Done::Report(key.clone(), Err(panicked())), async move {
            let reported = M::report_invalid(&context, &key, reason, &message).await;
            Done::Report(key, reported)
        });
    }

    /// Shows on the check why a due remediation was not created, until it is created.
    pub(super) fn complain(&mut self, item: &Item, why: Option<&Unusable>) {
        if why.is_none() && self.items.get(item).is_none() {
            return;
        }
        let changed = self.items.change(item, |state| {
            let changed = state.not_created.as_ref() != why;
            state.not_created = why.cloned();
            changed
        });
        if changed {
            self.status_due(&item.check);
        }
    }

    /// The members of a check that wait for its template.
    pub(super) fn awaiting_template(&self, key: &Key) -> Vec<Item> {
        self.items
            .in_phase(key, |phase| phase == Phase::AwaitingTemplate)
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
