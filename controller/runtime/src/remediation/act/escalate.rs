//! Hands a Machine over to its owner after the last attempt.

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use rackhand_api::names::{
    REMEDIATE_MACHINE_ANNOTATION, UNHEALTHY_ANNOTATION, UNHEALTHY_V1BETA1_ANNOTATION,
    UNHEALTHY_VALUE, conditions::OWNER_REMEDIATED,
};
use rackhand_core::remediation::{Observation, Reason};
use serde_json::json;

use crate::{
    remediation::{
        act::{Scope, host},
        engine::ReconcileError,
        observe::snapshot::only_if_unchanged,
        scope::Memory,
    },
    store::{
        api::ApiError,
        conditions::{NewCondition, both_lists},
        object::{Key, Kind, api},
    },
};

/// Removes the annotation by which a person requested the remediation of the Machine, if the Machine has not
/// changed since it was observed.
pub(super) async fn end_machine_request(
    scope: &Scope,
    memory: &mut Memory,
) -> Result<(), ReconcileError> {
    let Some(entry) = memory.snapshot.machine.clone() else {
        return Ok(());
    };
    let key = Key::of(&entry.object);
    let what = format!("Machine {key}");
    let resource = scope
        .context
        .served
        .known(Kind::Machine)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let machines = api(&scope.context.client, &resource, &key.namespace);
    let body = json!({ "metadata": { "annotations": { REMEDIATE_MACHINE_ANNOTATION: null } } });
    let body = only_if_unchanged(body, &entry.object);
    let name = key.name.clone();
    let patched = scope
        .context
        .writer
        .write("end_machine_request", what, move || async move {
            let patch = Patch::Merge(body);
            machines.patch(&name, &PatchParams::default(), &patch).await
        })
        .await;
    let patched = match patched {
        // Whether the Machine is healthy decides, also where the annotation stays.
        Err(error) if error.is_client_error() && !error.is_conflict() => {
            let message = format!(
                "cannot remove the annotation {REMEDIATE_MACHINE_ANNOTATION} from Machine {key}, whose host was \
                 power-cycled; remove it, or its host is power-cycled again: {error}"
            );
            scope.emit_event(true, "MachineRequestRemains", &message);
            return Ok(());
        }
        patched => patched?,
    };
    scope.context.index.apply(Kind::Machine, patched);
    let message = format!(
        "removed the annotation {REMEDIATE_MACHINE_ANNOTATION} from Machine {key}: it requests one power cycle, \
         and its node is back"
    );
    scope.emit_event(false, "MachineRequestEnded", &message);
    Ok(())
}

/// Sets the condition in both lists in one patch, and both unhealthy annotations on the host
/// `mark`.
pub(super) async fn escalate_machine(
    scope: &Scope,
    memory: &Memory,
    o: &Observation,
    mark: Option<String>,
) -> Result<(), ReconcileError> {
    let machine = memory
        .snapshot
        .machine
        .clone()
        .filter(|_| o.machine.is_some());
    if let Some((entry, view)) =
        machine.and_then(|entry| entry.view.clone().ok().map(|view| (entry, view)))
    {
        let state = memory.shell.state.as_ref();
        let message = match state.and_then(|s| s.failed()) {
            Some(reason) => reason.to_string(),
            None => Reason::Exhausted(state.map_or(0, |s| s.attempt.number)).to_string(),
        };
        let key = Key::of(&entry.object);
        let condition = |severity| NewCondition {
            type_: OWNER_REMEDIATED,
            status: "False",
            reason: "WaitingForRemediation",
            message: &message,
            severity,
        };
        let body = both_lists(
            &entry.object,
            view.shape,
            &[condition(Some("Warning"))],
            &[condition(None)],
            &[],
            Timestamp::now(),
        );
        if let Some(body) = body {
            let what = format!("Machine {key}");
            let resource = scope
                .context
                .served
                .known(Kind::Machine)
                .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
            let machines = api(&scope.context.client, &resource, &key.namespace);
            let name = view.meta.name.clone();
            let object = scope
                .context
                .writer
                .write("escalate", what, move || async move {
                    machines
                        .patch_status(&name, &PatchParams::default(), &Patch::Merge(body))
                        .await
                })
                .await?;
            scope.context.index.apply(Kind::Machine, object);
        }
    }
    if let Some(bmh) = mark {
        let body = json!({ "metadata": { "annotations": {
            UNHEALTHY_ANNOTATION: UNHEALTHY_VALUE,
            UNHEALTHY_V1BETA1_ANNOTATION: UNHEALTHY_VALUE,
        }}});
        host::patch_host(scope, memory, &Key::parse(&bmh), "unhealthy_mark", body).await?;
    }
    Ok(())
}
