//! Ends all work before Rackhand is uninstalled, and removes what its manifests do not.
//!
//! Must never: remove a finalizer, a taint, or a hold of an existing remediation. The controller ends
//! remediations; this module deletes their objects and waits.

mod leftovers;
mod plan;
mod taints;

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Write},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Preconditions},
};
use rackhand_api::names::{
    BLOCKED_ANNOTATION, MAINTENANCE_FINALIZER, PAUSED_ANNOTATION, SETTINGS_ANNOTATION,
    STATE_ANNOTATION,
};
use tokio::time::{Instant, sleep};

use self::plan::{FoundRemediation, Installation, NextStep, next_step};
use super::{
    LeaseName,
    objects::{self, Found, KindName},
    status,
};

/// Time between two reads of ending remediations.
const POLL: Duration = Duration::from_millis(500);
/// Added to the duration of a Lease before its holder counts as gone, because clocks differ.
const CLOCK_SKEW: i64 = 30;
/// Value of the annotation that pauses a check for an uninstallation.
const PAUSED_BY_US: &str = "uninstall";

/// What makes remediations: it is paused first.
const CHECKS: [KindName; 4] = [
    objects::CLUSTER_API_CHECK,
    objects::OPENSHIFT_CHECK,
    objects::NODE_CHECK,
    objects::REMEDIATION_TRIGGER,
];

/// How Rackhand is uninstalled.
#[derive(Debug, Clone, Args)]
pub(crate) struct Uninstall {
    /// Do it without asking.
    #[arg(long)]
    yes: bool,

    /// How long remediations may take to end.
    #[arg(long, default_value = "30m", value_parser = crate::args::seconds)]
    timeout: Duration,

    #[command(flatten)]
    clusters: taints::Clusters,
}

/// Takes one step after the other, until nothing is left or somebody has to act.
///
/// # Errors
/// Something prevents the next step; the message says what.
pub(super) async fn run(
    uninstall: Uninstall,
    client: &Client,
    lease: &LeaseName,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + uninstall.timeout;
    let mut told = BTreeSet::new();
    let mut confirmed = uninstall.yes;
    loop {
        let found = read(client, &lease.namespace, Timestamp::now()).await?;
        let step = next_step(&found);
        if !confirmed {
            confirm(&step)?;
            confirmed = true;
        }
        match step {
            NextStep::Pause(checks) => {
                pause(client).await?;
                outln!("paused: {}", checks.join(", "));
            }
            NextStep::Withdraw(remediations) => {
                withdraw(client).await?;
                outln!("withdrawn: {}", remediations.join(", "));
            }
            NextStep::Wait(left) => {
                if Instant::now() > deadline {
                    bail!(
                        "these remediations have not ended within {:?}; nothing was removed. Run this \
                         again, or end what they wait for:\n{}",
                        uninstall.timeout,
                        lines(&left)
                    );
                }
                for one in left {
                    let line = one.to_string();
                    if told.insert(line.clone()) {
                        outln!("waiting: {line}");
                    }
                }
                sleep(POLL).await;
            }
            NextStep::NoController(left) => bail!(
                "no controller leads, and only a controller can end these remediations safely; nothing \
                 was removed. Start it again, then run this again:\n{}",
                lines(&left)
            ),
            NextStep::RemovePrograms(leaders) => {
                outln!(
                    "No remediation is left. Remove the controller ({}) now, as it was installed:\n  \
                     helm uninstall rackhand --namespace {namespace}\n  \
                     kubectl delete --ignore-not-found -k OVERLAY\n\
                     Then run this again: it removes what these leave.",
                    leaders.join(", "),
                    namespace = lease.namespace,
                );
                return Ok(());
            }
            NextStep::RemoveRest => {
                return leftovers::remove(client, &lease.namespace, &uninstall.clusters).await;
            }
        }
    }
}

fn lines(left: &[FoundRemediation]) -> String {
    let lines: Vec<String> = left.iter().map(|one| format!("  {one}")).collect();
    lines.join("\n")
}

fn confirm(step: &NextStep) -> anyhow::Result<()> {
    match step {
        NextStep::NoController(_) | NextStep::RemovePrograms(_) => return Ok(()),
        NextStep::RemoveRest => out!(
            "This removes Rackhand's CRDs with every RackAgent and PowerRemediationTemplate, its Leases, \
             admission policies, and what was left of its hold keys and annotations, and of its \
             out-of-service taints here and in every workload cluster."
        ),
        NextStep::Pause(_) | NextStep::Withdraw(_) | NextStep::Wait(_) => out!(
            "This pauses every health check, ends all planned work and withdraws every remediation: hosts that were not switched \
             off are let go, others are switched on again once they are drained."
        ),
    }
    out!(" Type yes to go on: ");
    io::stdout().flush()?;
    let mut typed = String::new();
    io::stdin().lock().read_line(&mut typed)?;
    if typed.trim() != "yes" {
        bail!("nothing was changed");
    }
    Ok(())
}

async fn read(client: &Client, namespace: &str, now: Timestamp) -> anyhow::Result<Installation> {
    let mut found = Installation {
        leaders: leaders(&leases(client, namespace).await?, now),
        ..Installation::default()
    };
    for kind in CHECKS {
        let checks = objects::list(client, kind).await?;
        let active = checks
            .iter()
            .filter(|check| !check.annotations().contains_key(PAUSED_ANNOTATION));
        found
            .active_checks
            .extend(active.map(|check| name(kind, check)));
    }
    for (kind, object) in remediations(client).await? {
        let shown = status::remediation(&object, kind.kind);
        found.remediations.push(FoundRemediation {
            what: name(kind, &object),
            is_withdrawn: object.metadata.deletion_timestamp.is_some(),
            step: phase(&object)
                .filter(|_| kind.kind == objects::HOST_MAINTENANCE.kind)
                .unwrap_or(shown.step),
            message: shown.message,
        });
    }
    Ok(found)
}

fn name(kind: KindName, object: &DynamicObject) -> String {
    match object.namespace() {
        Some(namespace) => format!("{} {namespace}/{}", kind.kind, object.name_any()),
        None => format!("{} {}", kind.kind, object.name_any()),
    }
}

/// The remediations that Rackhand works on, and planned work, for which it makes them. CAPM3's controller has a finalizer of the same name on a
/// Metal3Remediation, but no state of ours.
async fn remediations(client: &Client) -> anyhow::Result<Vec<(KindName, DynamicObject)>> {
    let mut found = Vec::new();
    for kind in [objects::POWER_REMEDIATION, objects::METAL3_REMEDIATION] {
        let listed = objects::list(client, kind).await?.into_iter();
        let ours = listed.filter(|object| {
            kind.kind == objects::POWER_REMEDIATION.kind
                || [STATE_ANNOTATION, BLOCKED_ANNOTATION]
                    .iter()
                    .any(|key| object.annotations().contains_key(*key))
        });
        found.extend(ours.map(|object| (kind, object)));
    }
    let kind = objects::HOST_MAINTENANCE;
    let planned = objects::list(client, kind).await?.into_iter();
    let unfinished = planned.filter(is_unfinished);
    found.extend(unfinished.map(|object| (kind, object)));
    Ok(found)
}

/// The phase of planned work.
fn phase(object: &DynamicObject) -> Option<String> {
    let phase = object.data.get("status")?.get("phase")?;
    phase.as_str().map(str::to_owned)
}

/// Whether planned work may have set something, or may still begin.
fn is_unfinished(object: &DynamicObject) -> bool {
    let over = phase(object).is_some_and(|phase| ["Ended", "Failed"].contains(&phase.as_str()));
    !over
        || object
            .finalizers()
            .iter()
            .any(|held| held == MAINTENANCE_FINALIZER)
}

/// The Leases of controllers in a namespace: of several shards, each has one.
async fn leases(client: &Client, namespace: &str) -> anyhow::Result<Vec<Lease>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let listed = leases.list(&ListParams::default()).await;
    let mut leases = listed
        .with_context(|| format!("Leases in {namespace}"))?
        .items;
    leases.retain(|lease| lease.annotations().contains_key(SETTINGS_ANNOTATION));
    Ok(leases)
}

fn leaders(leases: &[Lease], now: Timestamp) -> Vec<String> {
    let leads = |lease: &Lease| {
        let spec = lease.spec.as_ref()?;
        let holder = spec.holder_identity.clone().filter(|h| !h.is_empty())?;
        let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default()) + CLOCK_SKEW;
        let renewed = spec.renew_time.as_ref()?.0;
        (now.duration_since(renewed).as_secs() <= lasts).then_some(holder)
    };
    leases.iter().filter_map(leads).collect()
}

async fn pause(client: &Client) -> anyhow::Result<()> {
    for kind in CHECKS {
        for object in objects::list(client, kind).await? {
            if !object.annotations().contains_key(PAUSED_ANNOTATION) {
                let mut found = Found::of(client, kind, object).await?;
                found
                    .annotate(PAUSED_ANNOTATION, Some(PAUSED_BY_US))
                    .await?;
            }
        }
    }
    Ok(())
}

async fn withdraw(client: &Client) -> anyhow::Result<()> {
    for (kind, object) in remediations(client).await? {
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let shown = name(kind, &object);
        let found = Found::of(client, kind, object).await?;
        match found
            .objects
            .delete(&found.object.name_any(), &params)
            .await
        {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).with_context(|| format!("withdrawing {shown}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn f9_planned_work_is_ended_unless_nothing_of_it_is_left() {
        let object = |phase: &str, finalizers: &[&str]| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": { "name": "m", "namespace": "ns", "finalizers": finalizers },
                "status": { "phase": phase },
            }))
            .unwrap()
        };
        for (phase, finalizers, unfinished) in [
            ("Pending", &[][..], true),
            ("Parked", &[MAINTENANCE_FINALIZER], true),
            ("Ended", &[MAINTENANCE_FINALIZER], true),
            ("Ended", &["other.dev/finalizer"], false),
            ("Failed", &[], false),
        ] {
            assert_eq!(
                is_unfinished(&object(phase, finalizers)),
                unfinished,
                "{phase}"
            );
        }
    }

    #[test]
    fn a_lease_that_is_released_or_has_run_out_has_no_leader() {
        let lease = |holder: &str, renewed: i64| -> Lease {
            let renewed = Timestamp::from_second(renewed).unwrap();
            serde_json::from_value(json!({ "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15,
                "renewTime": format!("{renewed:.6}"),
            }}))
            .unwrap()
        };
        let now = Timestamp::from_second(1_000).unwrap();
        for (holder, renewed, leads) in [
            ("c-0", 990, true),
            ("c-0", 960, true),
            ("c-0", 1_020, true),
            ("c-0", 950, false),
            ("", 999, false),
        ] {
            let found = leaders(&[lease(holder, renewed)], now);
            assert_eq!(!found.is_empty(), leads, "{holder:?} {renewed}");
        }
        assert!(leaders(&[Lease::default()], now).is_empty());
    }
}
