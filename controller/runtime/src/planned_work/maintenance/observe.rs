//! The facts about one maintenance.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rackhand_api::names::{
    CAPI_PAUSED_ANNOTATION, MAINTENANCE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION,
    conditions::BLOCKED, groups, kinds,
};
use rackhand_core::{
    maintenance::{
        self, Earlier, ForeignCheck, LedMark, Leftovers, MachineMark, MaintenanceFacts,
        MaintenanceRecord, MaintenanceTarget, Mark, RemediationSeen, Wanted, openshift_mark,
        refused_by_check, stage,
    },
    remediation::{Cordon, NodeFacts, Taint},
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
    hosts::traces,
    remediation::recorded_state,
    store::{
        api::{ApiError, call, optional},
        index::Entry,
        maintenance::{StoredMaintenance, lease_holder, remediation_key},
        object::{Key, Kind, api},
        remediation::{RemediationId, RemediationObject},
        time_slice::beside_all,
    },
};

/// How long the host stands that a spec was resolved to.
const RESOLVE_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Pause before it is read again whether a Machine is gone that the index does not have.
const MACHINE_READ_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// The facts, and what they are about.
pub(super) struct Seen {
    pub(super) facts: MaintenanceFacts,
    pub(super) subject: Subject,
    /// UID of the remediation, if there is one.
    pub(super) remediation: Option<String>,
    /// Pods that the remediation has evicted, where it is known.
    pub(super) evicted: Option<u32>,
}

/// What a maintenance is about, and why that is not known.
pub(super) fn subject_of(
    context: &Maintenances,
    memory: &mut Memory,
    key: &Key,
    stored: &StoredMaintenance,
    now: Timestamp,
) -> (Subject, Result<(), String>) {
    match &stored.spec {
        // What was begun, or set, stays with the host that it was begun on.
        _ if was_made(stored) || !stored.status.in_place.is_empty() => {
            (recorded(context, stored), Ok(()))
        }
        Err(why) => (Subject::default(), Err(why.clone())),
        Ok((_, target)) => match resolved(context, memory, &key.namespace, target, now) {
            Ok(subject) => (subject, Ok(())),
            Err(why) => (Subject::default(), Err(why)),
        },
    }
}

fn was_made(stored: &StoredMaintenance) -> bool {
    stored.status.begun || stored.status.in_place.contains(&Mark::Remediation)
}

/// Collects the facts about a maintenance, of which the subject and the order are known.
pub(super) async fn observe(
    context: &Maintenances,
    memory: &mut Memory,
    (key, stored): (&Key, &StoredMaintenance),
    (subject, target): (Subject, Result<(), String>),
    earlier: Option<Earlier>,
    now: Timestamp,
) -> Result<Seen, ApiError> {
    let (uid, status) = (&stored.meta.uid, &stored.status);
    let was_made = was_made(stored);
    let name = remediation_key(&key.namespace, uid);
    let (mut remediation, remediation_uid) = remediation(context, memory, &name, was_made).await;
    if let RemediationSeen::Present { outdated, .. } = &mut remediation {
        let id = RemediationId::new(Kind::PowerRemediation, name.clone());
        let entry = context.index.remediation(&id);
        *outdated = entry.is_some_and(|entry| is_outdated(stored, &entry.object));
    }
    let leftovers = match remediation {
        RemediationSeen::Absent if status.remediation.is_some() => {
            leftovers(context, stored, &subject)
        }
        // It says itself what is there of it.
        _ => Leftovers::default(),
    };
    let me = lease_holder(&key.name, uid);
    let listed = status.in_place.contains(&Mark::Lease);
    let age = (now, lease::stands(status.phase));
    let lease = lease::read(&context.leases(), memory, (&subject, listed), &me, age).await;
    let spec = stored.spec.as_ref().ok().map(|(spec, _)| spec);
    let wanted = spec.map_or_else(Wanted::default, |spec| Wanted {
        locator_led: spec.locator_led,
        until: spec.until,
        duration: spec
            .duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    });
    let machine = match gone_machine(context, memory, &name, now).await {
        Some(machine) => MachineMark::Gone {
            machine: machine.to_string(),
        },
        None => machine_mark(context, &subject, key, uid),
    };
    let facts = MaintenanceFacts {
        deleting: stored.meta.deleted.is_some(),
        finalizer: stored.has_finalizer(),
        wanted,
        record: MaintenanceRecord {
            begun: status.begun,
            marked: status.marked,
            leased: listed,
            parked_since: status.parked_since,
            ending: status.ending,
            ending_message: status.ending_message.clone().unwrap_or_default(),
            over: status.phase.is_over(),
        },
        target,
        earlier,
        refused: refused(context, &subject),
        remediation_name: name.to_string(),
        remediation,
        machine,
        lease,
        led: LedMark {
            lit: memory.lit,
            until: status.locator_lit_until,
            out: memory.out,
        },
        failed_marks: memory.failed_marks(now),
        leftovers,
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

/// The Machine that the remediation was made for, if it is gone by a live read (F12). One of its name with another UID
/// is another Machine.
async fn gone_machine(
    context: &Maintenances,
    memory: &mut Memory,
    remediation: &Key,
    now: Timestamp,
) -> Option<Key> {
    let id = RemediationId::new(Kind::PowerRemediation, remediation.clone());
    let entry = context.index.remediation(&id)?;
    let view = entry.view.as_ref().ok()?;
    let (kind, of) = match view.machine() {
        Some(of) => (Kind::Machine, of),
        None => (Kind::OpenShiftMachine, view.openshift_machine()?),
    };
    let machine = Key::new(&*remediation.namespace, &*of.name);
    let found = match kind {
        Kind::OpenShiftMachine => context.index.openshift_machine(&machine),
        _ => context.index.machine(&machine),
    };
    if found.and_then(|entry| entry.object.uid()).as_ref() == Some(&of.uid) {
        return None;
    }
    // A UID does not come back.
    if memory.gone_machine.as_ref() == Some(&of.uid) {
        return Some(machine);
    }
    let is_recent = |at: &Timestamp| now.duration_since(*at) < MACHINE_READ_AGAIN;
    if memory.machine_read.as_ref().is_some_and(is_recent) {
        return None;
    }
    memory.machine_read = Some(now);
    let what = format!("Machine {machine}");
    let resource = context.served.known(kind)?;
    let objects = api(&context.client, &resource, &machine.namespace);
    match optional(call(what, objects.get(&machine.name)).await) {
        Ok(read) if read.as_ref().and_then(ResourceExt::uid).as_ref() == Some(&of.uid) => None,
        Ok(_) => {
            memory.gone_machine = Some(of.uid.clone());
            Some(machine)
        }
        Err(error) => {
            tracing::debug!(%machine, %error, "whether it is gone is read again");
            None
        }
    }
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
        blocked: is_blocked(&entry.object.data),
        reason,
        message: text("message").unwrap_or_else(|| "it has just been created".into()),
    }
}

/// Whether the status of a remediation says that somebody has to do something.
fn is_blocked(data: &serde_json::Value) -> bool {
    let conditions = data["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|condition| condition["type"] == BLOCKED && condition["status"] == "True")
}

/// What is there of the remediation although it is gone.
fn leftovers(context: &Maintenances, stored: &StoredMaintenance, subject: &Subject) -> Leftovers {
    let status = &stored.status;
    let of = status.remediation_uid.as_deref();
    let place = subject.cluster.as_ref().zip(subject.node.as_ref());
    let node = place.and_then(|(cluster, name)| context.index.node(cluster, name));
    let facts = node.map(|node| node_facts(&node, None));
    let is_tainted = || {
        let remediations = context.index.remediations();
        let of_node = |(_, entry): &(RemediationId, Entry<RemediationObject>)| {
            entry.object.data["status"]["nodeName"].as_str() == subject.node.as_deref()
        };
        !remediations.iter().any(of_node)
    };
    let is_cordoned =
        |facts: &NodeFacts| matches!(&facts.cordon, Cordon::Rackhand { uid } if Some(&**uid) == of);
    let rack = status
        .host
        .as_deref()
        .and_then(|host| host.split('/').next());
    let agents = &context.agents;
    let held_by_agent = || {
        let held = rack.zip(of).map(|(rack, uid)| agents.holding(rack, uid));
        held.is_some_and(|agents| !agents.is_empty())
    };
    let held_by_owner = || {
        of.is_some_and(|uid| {
            let hosts = context.index.hosts();
            let mut views = hosts.filter_map(|(_, entry)| entry.view.ok());
            beside_all(|| views.any(|view| traces(&view).contains(uid)))
        })
    };
    Leftovers {
        node: place.map_or_else(String::new, |(cluster, name)| {
            format!("Node {}", node_label(cluster, name))
        }),
        taint: facts.as_ref().is_some_and(|facts| {
            facts.taint == Taint::Ours && facts.tainted_by_rackhand && is_tainted()
        }),
        cordon: facts.as_ref().is_some_and(is_cordoned),
        hold: held_by_agent() || held_by_owner(),
    }
}

/// Whose mark is on the Machine.
pub(super) fn machine_mark(
    context: &Maintenances,
    subject: &Subject,
    key: &Key,
    uid: &str,
) -> MachineMark {
    let index = &context.index;
    if let Some(machine) = subject.openshift_machine() {
        let Some(entry) = index.openshift_machine(machine) else {
            return MachineMark::NoMachine;
        };
        let owner = entry.object.annotations().get(MAINTENANCE_ANNOTATION);
        let checks = index.openshift_checks().into_iter();
        let mut near = checks.filter(|(key, _)| key.namespace == machine.namespace);
        let is_evaluated = near.any(|(_, entry)| {
            let check = entry.view.as_ref();
            check.is_ok_and(|check| context.of_openshift.evaluates(&check.meta))
        });
        return openshift_mark(owner.map(String::as_str), uid, is_evaluated);
    }
    let machine = subject.capi_machine();
    let Some(entry) = machine.and_then(|machine| index.machine(machine)) else {
        return MachineMark::NoMachine;
    };
    let annotation = |name: &str| entry.object.annotations().get(name).map(String::as_str);
    maintenance::machine_mark(
        annotation(SKIP_REMEDIATION_ANNOTATION),
        annotation(MAINTENANCE_ANNOTATION),
        (&key.to_string(), uid),
    )
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
