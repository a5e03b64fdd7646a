//! The facts about one maintenance.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rackhand_api::names::{
    CAPI_PAUSED_ANNOTATION, MAINTENANCE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, groups, kinds,
};
use rackhand_core::{
    maintenance::{
        ForeignCheck, LedMark, MachineMark, MaintenanceFacts, MaintenanceRecord, MaintenanceTarget,
        Mark, RemediationSeen, Wanted, refused_by_check, stage,
    },
    remediation::Taint,
};

use super::{
    Maintenances,
    act::is_outdated,
    lease,
    memory::Memory,
    resolve::{Subject, resolve},
};
use crate::{
    clusters::{node_facts, node_label},
    remediation::recorded_state,
    store::{
        api::{ApiError, call, optional},
        index::Entry,
        maintenance::{StoredMaintenance, remediation_key},
        object::{Key, Kind, api},
        remediation::{RemediationId, RemediationObject},
    },
};

/// How long the host stands that a spec was resolved to.
const RESOLVE_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// The facts, and what they are about.
pub(super) struct Seen {
    pub(super) facts: MaintenanceFacts,
    pub(super) subject: Subject,
    /// UID of the remediation, if there is one.
    pub(super) remediation: Option<String>,
    /// Pods that the remediation has evicted, where it is known.
    pub(super) evicted: Option<u32>,
}

/// What the annotation `skip-remediation` says when this maintenance has set it.
pub(super) fn skip_value(key: &Key) -> String {
    format!("HostMaintenance {key}")
}

/// Collects the facts about a maintenance.
pub(super) async fn observe(
    context: &Maintenances,
    memory: &mut Memory,
    key: &Key,
    stored: &StoredMaintenance,
    now: Timestamp,
) -> Result<Seen, ApiError> {
    let (uid, status) = (&stored.meta.uid, &stored.status);
    let was_made = status.begun || status.in_place.contains(&Mark::Remediation);
    let (subject, target) = match &stored.spec {
        // What was begun stays with the host that it was begun on.
        _ if was_made => (recorded(context, stored), Ok(())),
        Err(why) => (Subject::default(), Err(why.clone())),
        Ok((_, target)) => match resolved(context, memory, &key.namespace, target, now) {
            Ok(subject) => (subject, Ok(())),
            Err(why) => (Subject::default(), Err(why)),
        },
    };
    let name = remediation_key(&key.namespace, uid);
    let (mut remediation, remediation_uid) = remediation(context, memory, &name, was_made).await;
    if let RemediationSeen::Present { outdated, .. } = &mut remediation {
        let id = RemediationId::new(Kind::PowerRemediation, name.clone());
        let entry = context.index.remediation(&id);
        *outdated = entry.is_some_and(|entry| is_outdated(stored, &entry.object));
    }
    let me = lease::holder(&key.name, uid);
    let lease = lease::read(context, memory, &subject, &me, now).await;
    let spec = stored.spec.as_ref().ok().map(|(spec, _)| spec);
    let wanted = spec.map_or_else(Wanted::default, |spec| Wanted {
        locator_led: spec.locator_led,
        until: spec.until,
        duration: spec
            .duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    });
    let facts = MaintenanceFacts {
        deleting: stored.meta.deleted.is_some(),
        finalizer: stored.has_finalizer(),
        wanted,
        record: MaintenanceRecord {
            begun: status.begun,
            marked: status.marked,
            parked_since: status.parked_since,
            ending: status.ending,
            ending_message: status.ending_message.clone().unwrap_or_default(),
            over: status.phase.is_over(),
        },
        target,
        refused: refused(context, &subject),
        remediation_name: name.to_string(),
        remediation,
        machine: machine_mark(context, &subject, key, uid),
        lease,
        led: LedMark {
            lit: memory.lit,
            until: status.locator_lit_until,
            out: memory.out,
        },
        mark_refused: memory.mark_refused(),
        left_on_node: left_on_node(context, &subject),
    };
    Ok(Seen {
        facts,
        subject,
        remediation: remediation_uid,
        evicted: memory.evicted,
    })
}

/// What the spec names. A host is looked for among the whole fleet, and so only now and then.
fn resolved(
    context: &Maintenances,
    memory: &mut Memory,
    namespace: &str,
    target: &MaintenanceTarget,
    now: Timestamp,
) -> Result<Subject, String> {
    if let (MaintenanceTarget::Host { .. }, Some((at, found))) = (target, &memory.resolved)
        && now.duration_since(*at) < RESOLVE_AGAIN
    {
        return found.clone();
    }
    let found = resolve(context, namespace, target);
    memory.resolved = Some((now, found.clone()));
    found
}

/// What the status says that it was begun on.
fn recorded(context: &Maintenances, stored: &StoredMaintenance) -> Subject {
    let status = &stored.status;
    let cluster = status
        .cluster
        .as_deref()
        .map_or_else(Key::local, Key::parse);
    let node = status.node_name.clone();
    let found = node
        .as_ref()
        .and_then(|name| context.index.node(&cluster, name));
    let machine = status.machine.as_deref().map(Key::parse).map(|key| {
        let kind = match context.index.openshift_machine(&key) {
            Some(_) if context.index.machine(&key).is_none() => Kind::OpenShiftMachine,
            _ => Kind::Machine,
        };
        (kind, key)
    });
    Subject {
        cluster: Some(cluster),
        node_uid: found.as_deref().and_then(ResourceExt::uid),
        node,
        machine,
        host: status.host.clone(),
        host_ref: None,
    }
}

/// The remediation with its UID. One that should be there is absent only by a live read (F12).
pub(super) async fn remediation(
    context: &Maintenances,
    memory: &mut Memory,
    name: &Key,
    was_made: bool,
) -> (RemediationSeen, Option<String>) {
    let id = RemediationId::new(Kind::PowerRemediation, name.clone());
    let Some(entry) = context.index.remediation(&id) else {
        let seen = match was_made {
            false => RemediationSeen::Absent,
            true => match is_absent(context, name).await {
                Ok(true) => RemediationSeen::Absent,
                Ok(false) => RemediationSeen::Unknown {
                    why: "the watch has not delivered it yet".into(),
                },
                Err(error) => RemediationSeen::Unknown {
                    why: error.to_string(),
                },
            },
        };
        return (seen, None);
    };
    let uid = entry.object.uid();
    (present(context, memory, &entry), uid)
}

async fn is_absent(context: &Maintenances, name: &Key) -> Result<bool, ApiError> {
    let what = format!("PowerRemediation {name}");
    let resource = context
        .served
        .known(Kind::PowerRemediation)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let objects = api(&context.client, &resource, &name.namespace);
    Ok(optional(call(what, objects.get(&name.name)).await)?.is_none())
}

fn present(
    context: &Maintenances,
    memory: &mut Memory,
    entry: &Entry<RemediationObject>,
) -> RemediationSeen {
    let uid = entry.object.uid().unwrap_or_default();
    let state = match recorded_state(&context.index, &uid) {
        Ok(state) => state,
        Err(why) => return RemediationSeen::Unknown { why },
    };
    if let Some(host) = state.as_ref().and_then(|state| state.host.clone()) {
        memory.host = Some(host);
    }
    let text = |field: &str| {
        let shown = entry.object.data.get("status").and_then(|s| s.get(field));
        shown.and_then(|v| v.as_str()).map(str::to_owned)
    };
    if let Some(eviction) = state.as_ref().and_then(|s| s.attempt.eviction.as_ref()) {
        memory.evicted = Some(eviction.evicted);
    }
    let reason = text("reason").unwrap_or_else(|| "Started".into());
    RemediationSeen::Present {
        deleting: entry.object.metadata.deletion_timestamp.is_some(),
        stage: stage(state.as_ref(), &reason),
        outdated: false,
        reason,
        message: text("message").unwrap_or_else(|| "it has just been created".into()),
    }
}

/// The taint that is on the Node although no remediation is about it any more.
fn left_on_node(context: &Maintenances, subject: &Subject) -> Option<String> {
    let (cluster, name) = subject.cluster.as_ref().zip(subject.node.as_ref())?;
    let node = context.index.node(cluster, name)?;
    let facts = node_facts(&node, None);
    if facts.taint != Taint::Ours || !facts.tainted_by_rackhand {
        return None;
    }
    let remediations = context.index.remediations();
    let of_node = |(_, entry): &(RemediationId, Entry<RemediationObject>)| {
        entry.object.data["status"]["nodeName"] == name.as_str()
    };
    if remediations.iter().any(of_node) {
        return None;
    }
    Some(format!(
        "Node {} has its out-of-service taint: somebody has removed its finalizer, and its host may be off. Switch the \
         host on, make sure that nothing of its old workload runs, and remove the taint from the Node",
        node_label(cluster, name)
    ))
}

/// Whose annotation `skip-remediation` is on the Machine.
pub(super) fn machine_mark(
    context: &Maintenances,
    subject: &Subject,
    key: &Key,
    uid: &str,
) -> MachineMark {
    if let Some(machine) = subject.openshift_machine() {
        return openshift_mark(context, machine, uid);
    }
    let machine = subject.capi_machine();
    let Some(entry) = machine.and_then(|machine| context.index.machine(machine)) else {
        return MachineMark::NoMachine;
    };
    let annotations = entry.object.annotations();
    let marked = annotations.get(MAINTENANCE_ANNOTATION).map(String::as_str) == Some(uid);
    match annotations.get(SKIP_REMEDIATION_ANNOTATION) {
        _ if marked => MachineMark::Ours,
        Some(value) if *value == skip_value(key) => MachineMark::Ours,
        Some(_) => MachineMark::Theirs,
        None => MachineMark::Absent,
    }
}

/// Whose mark is on a Machine of OpenShift. Only checks that Rackhand evaluates read it.
fn openshift_mark(context: &Maintenances, machine: &Key, uid: &str) -> MachineMark {
    let Some(entry) = context.index.openshift_machine(machine) else {
        return MachineMark::NoMachine;
    };
    let marked = entry.object.annotations().get(MAINTENANCE_ANNOTATION);
    match marked {
        Some(by) if by == uid => MachineMark::Ours,
        Some(_) => MachineMark::Theirs,
        None => {
            let checks = context.index.openshift_checks().into_iter();
            let mut near = checks.filter(|(key, _)| key.namespace == machine.namespace);
            let evaluates = near.any(|(_, entry)| {
                let check = entry.view.as_ref();
                check.is_ok_and(|check| context.of_openshift.evaluates(&check.meta))
            });
            match evaluates {
                true => MachineMark::Absent,
                false => MachineMark::NoMachine,
            }
        }
    }
}

/// Why another controller's check of OpenShift forbids the maintenance.
fn refused(context: &Maintenances, subject: &Subject) -> Option<String> {
    let index = &context.index;
    let mut machines: Vec<Key> = subject.openshift_machine().into_iter().cloned().collect();
    if subject.cluster == Some(Key::local())
        && let Some(node) = &subject.node
    {
        machines.extend(index.openshift_machines_of_node(node));
    }
    let mut checks = Vec::new();
    for machine in machines {
        let Some(view) = index.openshift_machine(&machine).and_then(|e| e.view.ok()) else {
            continue;
        };
        for (key, entry) in index.openshift_checks() {
            let Ok(check) = &entry.view else { continue };
            if key.namespace != machine.namespace || !check.selector.matches(&view.meta.labels) {
                continue;
            }
            let template = check.remediation_template.as_ref();
            let ours = [
                kinds::POWER_REMEDIATION_TEMPLATE,
                kinds::METAL3_REMEDIATION_TEMPLATE,
            ];
            checks.push(ForeignCheck {
                name: format!("MachineHealthCheck {key} of {}", groups::OPENSHIFT_MACHINE),
                // A pause of Rackhand keeps the other controller from nothing.
                paused: check.meta.has_annotation(CAPI_PAUSED_ANNOTATION),
                uses_our_template: template.is_some_and(|t| ours.contains(&t.kind.as_str())),
                evaluated_by_us: context.of_openshift.evaluates(&check.meta),
            });
        }
    }
    let check = refused_by_check(&checks)?;
    Some(format!(
        "{} would act on the host while somebody works on it, and knows no mark for one Machine: give it a template of \
         Rackhand, or pause it with the annotation cluster.x-k8s.io/paused",
        check.name
    ))
}
