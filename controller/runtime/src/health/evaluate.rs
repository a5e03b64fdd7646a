//! One evaluation of one check: gather, plan, carry out.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use rackhand_api::{
    names::{CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION},
    views::{MachineHealthCheckView, MachineView},
};
use rackhand_core::health::{Plan, RequestView, Target, plan};

use super::{
    Context,
    actions::{Acted, act, carried_out, other_requests},
    conditions::{check_conditions, machine_conditions, report_invalid},
    facts,
};
use crate::{api::ApiError, index::Entry, object::Key, remediation::RequestId};

/// When to try again what could not be requested.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A target with the objects behind it.
pub(super) struct Fleet {
    pub(super) entries: Vec<(Entry<MachineView>, Arc<MachineView>)>,
    pub(super) targets: Vec<Target>,
}

/// Evaluates a check; returns when to do so again although nothing has changed.
pub(super) async fn evaluate(context: &Context, key: &Key) -> Result<Option<Timestamp>, ApiError> {
    let Some(entry) = context.index.check(key) else {
        context.metrics.check(&key.namespace, &key.name, None);
        return Ok(None);
    };
    let meta = rackhand_api::views::Meta::of(&entry.object);
    if !context.mine.evaluates(&meta) || meta.is_deleting() {
        return Ok(None);
    }
    let view = match &entry.view {
        Ok(view) => view.clone(),
        Err(error) => {
            report_invalid(context, &entry.object, "InvalidSpec", &error.to_string()).await?;
            return Ok(None);
        }
    };
    let cluster_key = Key::new(
        &key.namespace,
        view.cluster_name.clone().unwrap_or_default(),
    );
    let Some(cluster) = context.index.cluster(&cluster_key) else {
        let message = format!("Cluster {cluster_key} does not exist");
        report_invalid(context, &entry.object, "ClusterNotFound", &message).await?;
        return Ok(None);
    };
    let cluster = match &cluster.view {
        Ok(cluster) => cluster.clone(),
        Err(error) => {
            report_invalid(context, &entry.object, "InvalidCluster", &error.to_string()).await?;
            return Ok(None);
        }
    };
    let paused = context.mine.paused(&meta) || cluster.is_paused();
    let rules = facts::check(&view, paused);
    let fleet = gather(context, key, &view, &cluster_key).await?;
    let now = Timestamp::now();
    let planned = plan(&rules, &facts::cluster(&cluster), &fleet.targets, now);
    context.metrics.check(
        &key.namespace,
        &key.name,
        Some((
            planned.status.expected,
            planned.status.unhealthy,
            planned.gate.open,
        )),
    );
    if meta.is_annotated_true(DRY_RUN_ANNOTATION) {
        for action in &planned.actions {
            tracing::info!(check = %key, action = action.label(), machine = action.machine(), "dry run: not done");
        }
        return Ok(planned.wake_at);
    }
    let failed = carry_out(context, key, &view, &fleet, &planned).await?;
    let (object, whole) = (&entry.object, failed.is_none());
    let failed = failed.as_ref().map(|(reason, why)| (*reason, why.as_str()));
    check_conditions(context, object, &view, &cluster, &planned, paused, failed).await?;
    // A missing template sends no event when it comes: it is looked for.
    let again = (!whole).then(|| now.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX));
    Ok(planned.wake_at.into_iter().chain(again).min())
}

/// The selected Machines with Node and request.
async fn gather(
    context: &Context,
    key: &Key,
    view: &MachineHealthCheckView,
    cluster: &Key,
) -> Result<Fleet, ApiError> {
    let mut fleet = Fleet {
        entries: Vec::new(),
        targets: Vec::new(),
    };
    let asked = view.remediation_template.as_ref();
    let watched = asked.and_then(|t| carried_out(t.request_kind(), &t.api_version));
    let elsewhere = match asked {
        Some(t) if watched.is_none() => Some(other_requests(context, t, &key.namespace).await?),
        _ => None,
    };
    for entry in context.index.machines_in(&key.namespace) {
        // A Machine that does not read is left alone; the log says so once per change.
        let machine = match &entry.view {
            Ok(machine) => machine.clone(),
            Err(error) => {
                tracing::warn!(%error, "a Machine cannot be read and is left out");
                continue;
            }
        };
        let labelled = machine.meta.labels.get(CLUSTER_NAME_LABEL);
        if labelled != Some(&cluster.name) || !view.selector.matches(&machine.meta.labels) {
            continue;
        }
        let request = match (&view.remediation_template, &elsewhere) {
            (None, _) => RequestView::None,
            (Some(_), Some(requests)) => requests
                .get(&machine.meta.name)
                .map_or(RequestView::None, |(owners, deleting)| {
                    facts::request(&machine, owners, *deleting)
                }),
            (Some(_), None) => {
                let name = Key::new(&key.namespace, &machine.meta.name);
                let found =
                    watched.and_then(|kind| context.index.request(&RequestId::new(kind, name)));
                found.map_or(RequestView::None, |found| {
                    let meta = rackhand_api::views::Meta::of(&found.object);
                    let owners: Vec<_> = meta
                        .owners
                        .iter()
                        .map(|o| (o.kind.clone(), o.name.clone(), o.uid.clone()))
                        .collect();
                    facts::request(&machine, &owners, meta.is_deleting())
                })
            }
        };
        fleet.targets.push(Target {
            node: facts::node(&context.index, cluster, machine.node_name.as_deref()),
            machine: facts::machine(&machine),
            request,
        });
        fleet.entries.push((entry, machine));
    }
    Ok(fleet)
}

/// Actions first: a remediation does not wait for a condition to be written. A failure with one
/// Machine does not stop the others. How many writes are on their way at one time is the writer's.
/// Returns why a request that is due was not made: the reason, and in words.
async fn carry_out(
    context: &Context,
    key: &Key,
    view: &MachineHealthCheckView,
    fleet: &Fleet,
    planned: &Plan,
) -> Result<Option<(&'static str, String)>, ApiError> {
    let machine = |name: &str| fleet.entries.iter().find(|(_, m)| m.meta.name == name);
    let mut acting = Vec::new();
    for action in &planned.actions {
        acting.push(act(context, key, view, action, machine(action.machine())));
    }
    let acted: Vec<Result<Acted, ApiError>> = join_all(acting).await;
    let mut failure = None;
    let mut done = std::collections::BTreeMap::new();
    for (action, result) in planned.actions.iter().zip(acted) {
        match result {
            Ok(acted) => {
                done.insert(action.machine().to_owned(), acted);
            }
            Err(error) => {
                tracing::warn!(check = %key, machine = action.machine(), %error, "action failed");
                failure = Some(error);
            }
        }
    }
    let mut writing = Vec::new();
    for (entry, machine) in &fleet.entries {
        let name = &machine.meta.name;
        writing.push(machine_conditions(
            context,
            key,
            entry,
            machine,
            planned.conditions.get(name),
            done.get(name),
            planned.verdicts.get(name),
        ));
    }
    let written: Vec<Result<(), ApiError>> = join_all(writing).await;
    for error in written.into_iter().filter_map(Result::err) {
        // Somebody else wrote to the same Machine: the watch brings it back here.
        if !error.is_conflict() && !error.is_not_found() {
            failure = Some(error);
        }
    }
    let failed = done.into_values().find_map(|acted| match acted {
        Acted::NotRequested { reason, why } => Some((reason, why)),
        _ => None,
    });
    failure.map_or(Ok(failed), Err)
}
