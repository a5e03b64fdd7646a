//! Handling of the results of tasks.

use std::time::{Duration, Instant};

use rackhand_core::checks::dispatch::{Phase, TRY_AGAIN};

use super::{CheckEngine, Machines, dialect::MachineDialect};
use crate::{
    checks::{
        engine::{
            Timer,
            queue::{Item, MemberKey},
        },
        remediations::{requests::EffectOutcome, template::Read, withdrawal::CreatedRemediation},
    },
    store::{api::ApiError, object::Key},
};

/// Pause before a remediation that was not withdrawn is examined again, because the API server did not answer
/// or has newer objects than the index.
const WITHDRAW_AGAIN: Duration = Duration::from_secs(5);

/// The result of a task.
pub(in crate::checks) enum Done {
    Acted(Item, Result<EffectOutcome, ApiError>),
    Shown(Item, Option<EffectOutcome>, Result<(), ApiError>),
    Template(Key, Result<Read, ApiError>),
    Report(Key, Result<(), ApiError>),
    Withdrawn(CreatedRemediation, Result<bool, ApiError>),
}

impl<M: MachineDialect> CheckEngine<Machines<M>> {
    /// A task has ended.
    pub(super) fn handle_result(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Acted(item, result) => self.acted(&item, result, now),
            Done::Shown(item, outcome, result) => self.shown(&item, outcome, result, now),
            Done::Template(check, result) => self.template_read(&check, result, now),
            Done::Withdrawn(made, result) => self.withdrawn(made, &result, now),
            Done::Report(check, result) => {
                let again = self.dialect.reporting.remove(&check) == Some(true);
                if let Err(error) = result {
                    tracing::warn!(%check, %error, "cannot report on a health check why it is not evaluated; trying again");
                    self.resync_at(&check, now + TRY_AGAIN);
                } else if again {
                    self.refresh(&check);
                }
            }
        }
    }

    fn acted(&mut self, item: &Item, result: Result<EffectOutcome, ApiError>, now: Instant) {
        self.end_turn(item, &result);
        let took_effect = matches!(result, Ok(EffectOutcome::Done));
        match result {
            Ok(outcome) => {
                self.queue.succeeded(item);
                let check = self.checks.get(&item.check);
                let is_seen = check.is_some_and(|check| {
                    let source = &check.spec.source;
                    source
                        .uid(&self.context, &self.dialect.external, &item.key())
                        .is_some()
                });
                let why = match &outcome {
                    EffectOutcome::RequestNotCreated(why) => Some(why),
                    _ => None,
                };
                self.complain(item, why);
                let shown = M::WRITES_MACHINES;
                if let Some(again) = self.items.effect_ended(item, outcome, is_seen, shown) {
                    self.queue.later(item, now + again);
                }
            }
            Err(error) => {
                // After a conflict the watch delivers the newer object.
                if !error.is_conflict() {
                    tracing::warn!(check = %item.check, machine = &*item.member, %error, "action failed; trying again");
                }
                self.back_off(item);
            }
        }
        if !self.checks.contains_key(&item.check) {
            self.items.change(item, |state| *state = Default::default());
            return;
        }
        if took_effect {
            // Otherwise the fleet would request the action again until the index is updated.
            self.machine_changed(&item.key());
        }
        self.request_changed(item);
        self.reconsider(item);
    }

    fn shown(
        &mut self,
        item: &Item,
        outcome: Option<EffectOutcome>,
        result: Result<(), ApiError>,
        now: Instant,
    ) {
        let changed = self.end_turn(item, &result);
        match result {
            Ok(()) => self.queue.succeeded(item),
            Err(error) => {
                // The outcome for the owner follows from the next verdict.
                let kept = |outcome: &EffectOutcome| {
                    !matches!(
                        outcome,
                        EffectOutcome::OwnerMarked | EffectOutcome::OwnerUnmarked
                    )
                };
                if let Some(outcome) = outcome.filter(kept)
                    && self.checks.contains_key(&item.check)
                {
                    self.items
                        .change(item, |state| state.unreported = Some(outcome));
                }
                // Another client has changed the Machine: the watch delivers the newer object.
                if !error.is_conflict() && !error.is_not_found() {
                    tracing::warn!(check = %item.check, machine = &*item.member, %error, "cannot write the conditions of a Machine; trying again");
                    self.queue.failed(item, now);
                }
            }
        }
        if changed {
            self.reconsider(item);
        }
    }

    fn template_read(&mut self, key: &Key, result: Result<Read, ApiError>, now: Instant) {
        let awaiting = self.awaiting_template(key);
        let failed = result.is_err();
        let read = result.inspect_err(
            |error| tracing::warn!(check = %key, %error, "cannot read the template; trying again"),
        );
        if let Some(check) = self.checks.get_mut(key) {
            check.template.put(read.ok(), now);
        }
        for item in awaiting {
            self.items.set_phase(&item, Phase::Ready);
            if failed {
                self.back_off(&item);
            }
            self.reconsider(&item);
        }
    }

    fn withdrawn(
        &mut self,
        made: CreatedRemediation,
        result: &Result<bool, ApiError>,
        now: Instant,
    ) {
        if let Err(error) = result {
            let (kind, request) = (&made.kind, &made.key);
            tracing::warn!(%kind, %request, %error, "cannot withdraw an orphaned request; trying again");
        }
        if let Ok(true) = result {
            self.dialect.withdrawing.remove(&made.uid);
        } else {
            let again = now + WITHDRAW_AGAIN;
            self.schedule.set(again, Timer::Dialect(made));
        }
    }
}
