//! What follows from the results of tasks.

use std::time::Instant;

use rackhand_core::checks::dispatch::{TRY_AGAIN, Unwritten};

use super::{Machines, Parts, dialect::MachineDialect, dispatch::complain};
use crate::{
    checks::{
        engine::queue::{Item, MemberKey},
        remediations::{lifecycle::EffectOutcome, template::Read, withdrawal::CreatedRemediation},
    },
    store::{api::ApiError, object::Key},
};

/// The result of a task.
pub(in crate::checks) enum Done {
    Acted(Item, Result<EffectOutcome, ApiError>),
    Shown(Item, Option<EffectOutcome>, Result<(), ApiError>),
    Template(Key, Result<Read, ApiError>),
    Report(Key, Result<(), ApiError>),
    Withdrawn(CreatedRemediation, Result<bool, ApiError>),
}

impl<M: MachineDialect> Machines<M> {
    /// The withdrawal of an orphaned remediation has ended.
    pub(super) fn withdrawn(
        &mut self,
        engine: &mut Parts<M>,
        made: CreatedRemediation,
        result: &Result<bool, ApiError>,
    ) {
        if let Err(error) = result {
            let (kind, remediation) = (&made.kind, &made.key);
            tracing::warn!(%kind, %remediation, %error, "cannot withdraw an orphaned remediation; trying again");
        }
        let done = matches!(result, Ok(true));
        self.orphans.withdrawn(engine, made, done);
    }

    /// The report why a check is not evaluated has ended.
    pub(super) fn reported(
        &mut self,
        engine: &mut Parts<M>,
        check: &Key,
        result: Result<(), ApiError>,
    ) {
        let again = self.reports.end(check);
        if let Err(error) = result {
            tracing::warn!(%check, %error, "cannot report on a health check why it is not evaluated; trying again");
            engine.resync_in(TRY_AGAIN, check);
        } else if again {
            self.refresh(engine, check);
        }
    }

    /// An effect on a member has ended.
    pub(super) fn acted(
        &mut self,
        engine: &mut Parts<M>,
        item: &Item,
        result: Result<EffectOutcome, ApiError>,
    ) {
        engine.call_ended(&result);
        let took_effect = matches!(result, Ok(EffectOutcome::Done));
        match &result {
            Ok(EffectOutcome::RemediationNotCreated(why)) => complain(engine, item, Some(why)),
            Ok(_) => complain(engine, item, None),
            // After a conflict the watch delivers the newer object.
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                tracing::warn!(check = %item.check, machine = &*item.member, %error, "action failed; trying again");
            }
        }
        let is_seen = self.checks.get(&item.check).is_some_and(|check| {
            let (source, external) = (&check.spec.source, self.remediations.known());
            let uid = source.uid(&engine.context, external, &item.key());
            uid.is_some()
        });
        let (result, shown) = (result.map_err(drop), M::WRITES_MACHINES);
        let now = engine.now();
        let is_evaluated = engine
            .members
            .effect_ended(item, result, is_seen, shown, now);
        if !is_evaluated {
            return;
        }
        if took_effect {
            // Otherwise the fleet would request the action again until the index is updated.
            self.machine_changed(engine, &item.key());
        }
        self.remediation_changed(engine, item);
        self.reconsider(engine, item);
    }

    /// A write of the conditions of a Machine has ended.
    pub(super) fn shown(
        &mut self,
        engine: &mut Parts<M>,
        item: &Item,
        outcome: Option<EffectOutcome>,
        result: &Result<(), ApiError>,
    ) {
        engine.call_ended(result);
        let unwritten = result.as_ref().err().map(|error| {
            // Another client has changed the Machine: the watch delivers the newer object.
            let retries = !error.is_conflict() && !error.is_not_found();
            if retries {
                tracing::warn!(check = %item.check, machine = &*item.member, %error, "cannot write the conditions of a Machine; trying again");
            }
            Unwritten { outcome, retries }
        });
        let now = engine.now();
        if engine.members.conditions_ended(item, unwritten, now) {
            self.reconsider(engine, item);
        }
    }

    /// A read of the template of a check has ended.
    pub(super) fn template_read(
        &mut self,
        engine: &mut Parts<M>,
        key: &Key,
        result: Result<Read, ApiError>,
    ) {
        let read = result.inspect_err(
            |error| tracing::warn!(check = %key, %error, "cannot read the template; trying again"),
        );
        let (is_read, now) = (read.is_ok(), engine.now());
        if let Some(check) = self.checks.get_mut(key) {
            check.template.put(read.ok(), Instant::now());
        }
        for item in engine.members.template_read(key, is_read, now) {
            self.reconsider(engine, &item);
        }
    }
}
