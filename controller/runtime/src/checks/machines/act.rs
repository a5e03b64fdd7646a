//! Starts the tasks that carry out the effects of checks; decides nothing.

use rackhand_api::views::TemplateRef;

use super::{
    Parts,
    dialect::{Job, MachineDialect, MachineStatus},
    lookup,
    results::Done,
};
use crate::{
    checks::{
        engine::{
            panicked,
            queue::{Item, MemberKey},
        },
        remediations::{
            lifecycle::{self, EffectOutcome, Maker},
            template,
            withdrawal::CreatedRemediation,
        },
    },
    store::object::Key,
};

/// Writes the conditions of a Machine.
pub(super) fn write_conditions<M: MachineDialect>(
    engine: &mut Parts<M>,
    item: Item,
    status: MachineStatus,
) {
    let context = engine.context.clone();
    engine.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
        let written = M::write_machine(&context, &item.check, &item.key(), &status).await;
        Done::Shown(item, status.outcome, written)
    });
}

/// Reads the template of a check.
pub(super) fn read_template<M: MachineDialect>(
    engine: &mut Parts<M>,
    check: &Key,
    reference: TemplateRef,
) {
    let (context, key) = (engine.context.clone(), check.clone());
    engine.spawn(Done::Template(key.clone(), Err(panicked())), async move {
        let read = template::read(&context, &key.namespace, reference).await;
        Done::Template(key, read)
    });
}

/// What a remediation is created from.
pub(super) struct Creation {
    pub(super) template: template::Read,
    /// The UID of the check.
    pub(super) maker: String,
    /// The UID of the Machine.
    pub(super) machine: String,
    /// Why the Machine is unhealthy.
    pub(super) cause: Option<String>,
}

/// Creates the remediation of a Machine.
pub(super) fn create<M: MachineDialect>(engine: &mut Parts<M>, item: Item, creation: Creation) {
    let context = engine.context.clone();
    engine.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
        let machine = item.key();
        let known = lookup::machine(&context.index, M::MACHINE, &machine);
        let Creation {
            template,
            maker,
            machine: uid,
            cause,
        } = creation;
        let maker = Maker {
            check: &item.check,
            uid: &maker,
            cause: cause.as_deref(),
        };
        let created = lifecycle::create(&context, &maker, &machine, known, &uid, template).await;
        Done::Acted(item, created)
    });
}

/// Deletes the remediation of a Machine with this UID, if there is one.
pub(super) fn delete<M: MachineDialect>(
    engine: &mut Parts<M>,
    item: Item,
    template: TemplateRef,
    uid: Option<String>,
) {
    let context = engine.context.clone();
    engine.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
        let deleted = match uid {
            Some(uid) => {
                let (version, kind) = (&template.api_version, template.remediation_kind());
                lifecycle::delete_of_machine(&context, version, kind, &item.key(), uid).await
            }
            None => Ok(EffectOutcome::RemediationDeleted),
        };
        Done::Acted(item, deleted)
    });
}

/// Carries out an effect that only this dialect has.
pub(super) fn perform<M: MachineDialect>(engine: &mut Parts<M>, item: Item, job: Job<M>) {
    engine.spawn(Done::Acted(item.clone(), Err(panicked())), async move {
        let performed = M::perform(job).await;
        Done::Acted(item, performed)
    });
}

/// Reports on a check why it is not evaluated.
pub(super) fn report_invalid<M: MachineDialect>(
    engine: &mut Parts<M>,
    check: &Key,
    reason: &'static str,
    message: String,
) {
    let (context, key) = (engine.context.clone(), check.clone());
    engine.spawn(Done::Report(key.clone(), Err(panicked())), async move {
        let reported = M::report_invalid(&context, &key, reason, &message).await;
        Done::Report(key, reported)
    });
}

/// Withdraws a remediation that is orphaned.
pub(super) fn withdraw<M: MachineDialect>(engine: &mut Parts<M>, made: CreatedRemediation) {
    let context = engine.context.clone();
    engine.spawn(Done::Withdrawn(made.clone(), Err(panicked())), async move {
        let withdrawn = made.withdraw(&context).await;
        Done::Withdrawn(made, withdrawn)
    });
}
