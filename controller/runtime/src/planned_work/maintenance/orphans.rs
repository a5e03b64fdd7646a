//! What maintenances have left that are gone: deleted without their finalizer, or not restored with the rest.
//!
//! Their remediation says what was begun, and the annotation on a Machine who has set it. A Lease expires and a LED goes
//! out by themselves; both are ended here at once where the remediation or the Machine still leads to the Node and host.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rackhand_api::names::{MAINTENANCE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION};
use rackhand_core::maintenance::{
    LED_LIT_FOR, LeaseMark, LedMark, Leftovers, MaintenanceFacts, MaintenanceRecord, Wanted, decide,
};

use super::{
    Maintenances, Stored, act, lease,
    memory::Memory,
    observe::{Seen, machine_mark, remediation},
    resolve::{Subject, complete},
};
use crate::{
    checks::passes,
    hosts::find_machine,
    store::{
        api::ApiError,
        maintenance::{lease_holder, maker, remediation_key},
        object::{Key, Kind, list},
        remediation::RemediationObject,
    },
};

/// Interval of the search among all Machines.
const MACHINES: SignedDuration = SignedDuration::from_secs(60);

/// What is left of a maintenance that is gone.
struct Orphan {
    /// The maintenance.
    key: Key,
    subject: Subject,
    record: MaintenanceRecord,
    led: LedMark,
    memory: Memory,
}

/// What is left, by the UID of the maintenance.
#[derive(Default)]
pub(super) struct Orphans {
    left: BTreeMap<String, Orphan>,
    searched: Option<Timestamp>,
}

impl Orphans {
    /// Looks for what is left, and takes it back. What fails of one maintenance is tried again, and keeps nothing of
    /// the others.
    pub(super) async fn turn(&mut self, context: &Maintenances, existing: &[Stored]) {
        let now = Timestamp::now();
        let known = existing
            .iter()
            .map(|(_, _, stored)| stored.meta.uid.as_str());
        let known: BTreeSet<&str> = known.collect();
        let mut found = of_remediations(context);
        if self
            .searched
            .is_none_or(|at| now.duration_since(at) >= MACHINES)
        {
            self.searched = Some(now);
            found.extend(of_machines(context));
        }
        for (uid, key, subject) in found {
            if known.contains(uid.as_str()) || self.left.contains_key(&uid) {
                continue;
            }
            match is_gone(context, &key, &uid).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(maintenance = %key, %error, "whether it is gone is read again");
                    continue;
                }
            }
            tracing::warn!(maintenance = %key, uid, "a maintenance is gone, and what it has set is taken back");
            let led = LedMark {
                until: now.checked_add(LED_LIT_FOR).ok(),
                ..LedMark::default()
            };
            let orphan = Orphan {
                key,
                subject,
                record: MaintenanceRecord {
                    begun: true,
                    // Its status is gone. No other maintenance is the holder of its Lease.
                    leased: context.served.known(Kind::NodeHealthCheck).is_some(),
                    ..MaintenanceRecord::default()
                },
                led,
                memory: Memory::default(),
            };
            self.left.insert(uid, orphan);
        }
        let mut ended = Vec::new();
        for (uid, orphan) in &mut self.left {
            if orphan.turn(context, uid, now).await {
                ended.push(uid.clone());
            }
        }
        for uid in ended {
            self.left.remove(&uid);
        }
    }
}

impl Orphan {
    /// Takes back what can be taken back now. Returns whether nothing is left.
    async fn turn(&mut self, context: &Maintenances, uid: &str, now: Timestamp) -> bool {
        if self.subject.node_uid.is_none() || self.subject.host_ref.is_none() {
            let racks = context.agents.racks();
            self.subject = complete(&context.index, &racks, &self.subject);
        }
        let name = remediation_key(&self.key.namespace, uid);
        let (seen, of) = remediation(context, &mut self.memory, &name, true).await;
        let lease = self.lease(context, uid, now).await;
        self.led.out = self.memory.out;
        let facts = MaintenanceFacts {
            deleting: true,
            finalizer: false,
            wanted: Wanted::default(),
            record: self.record.clone(),
            target: Ok(()),
            refused: None,
            remediation_name: name.to_string(),
            remediation: seen,
            machine: machine_mark(context, &self.subject, &self.key, uid),
            lease,
            led: self.led,
            earlier: None,
            failed_marks: self.memory.failed_marks(now),
            leftovers: Leftovers::default(),
        };
        let decision = decide(&facts, now);
        let leased = self.record.leased;
        self.record = MaintenanceRecord {
            leased,
            ..decision.record.clone()
        };
        let seen = Seen {
            facts,
            subject: self.subject.clone(),
            remediation: of,
            evicted: None,
        };
        for action in decision.actions {
            let whose = (&self.key, uid);
            let done = act::take_back_or_set(context, &mut self.memory, whose, &seen, action, now);
            if let Err(error) = done.await {
                tracing::warn!(maintenance = %self.key, %error, "trying again");
            }
        }
        self.record.over
    }

    /// The Lease of the Node. Its holder has the name of the maintenance, which a Machine of OpenShift, or one with an
    /// annotation of somebody else, does not have.
    async fn lease(&mut self, context: &Maintenances, uid: &str, now: Timestamp) -> LeaseMark {
        let me = lease_holder(&self.key.name, uid);
        let (leases, listed) = (context.leases(), self.record.leased);
        let about = (&self.subject, listed);
        let age = (now, lease::HELD);
        let found = lease::read(&leases, &mut self.memory, about, &me, age).await;
        let LeaseMark::Theirs { holder, .. } = &found else {
            return found;
        };
        let Some(name) = lease::name_in(holder, uid) else {
            return found;
        };
        self.key.name = name;
        self.memory.lease = None;
        lease::read(&leases, &mut self.memory, about, holder, age).await
    }
}

/// The maintenances that have made a remediation, by UID, with what each is about.
fn of_remediations(context: &Maintenances) -> Vec<(String, Key, Subject)> {
    let mut found = Vec::new();
    for (id, entry) in context.index.remediations() {
        let Some((key, uid)) = maker(&entry.object) else {
            continue;
        };
        let Ok(view) = &entry.view else { continue };
        if id.key != remediation_key(&key.namespace, &uid)
            || !passes(context.watch_filter.as_deref(), view.meta())
        {
            continue;
        }
        found.push((uid, key, subject(context, &id.key, view)));
    }
    found
}

fn subject(context: &Maintenances, key: &Key, view: &RemediationObject) -> Subject {
    let mut target = crate::hosts::target(&context.index, key, view, None);
    find_machine(&context.index, &mut target);
    let node = target.node.clone();
    Subject {
        machine: target.machine_key().map(|key| match target.openshift {
            Some(_) => (Kind::OpenShiftMachine, key),
            None => (Kind::Machine, key),
        }),
        cluster: target.cluster,
        node,
        ..Subject::default()
    }
}

/// The maintenances that have marked a Machine, which names their Node and host.
fn of_machines(context: &Maintenances) -> Vec<(String, Key, Subject)> {
    let mut found = Vec::new();
    let index = &context.index;
    let of_cluster_api = index
        .keys_in_pages(Kind::Machine)
        .filter(|machine| index.machine_mentions(machine, MAINTENANCE_ANNOTATION))
        .map(|machine| (Kind::Machine, machine));
    let of_openshift = index.keys_in_pages(Kind::OpenShiftMachine);
    let of_openshift = of_openshift.map(|machine| (Kind::OpenShiftMachine, machine));
    for (kind, machine) in of_cluster_api.chain(of_openshift) {
        let entry = match kind {
            Kind::OpenShiftMachine => index.openshift_machine(&machine),
            _ => index.machine(&machine),
        };
        let Some(entry) = entry else { continue };
        let annotations = entry.object.annotations();
        let Some(uid) = annotations.get(MAINTENANCE_ANNOTATION) else {
            continue;
        };
        let skip = annotations.get(SKIP_REMEDIATION_ANNOTATION);
        let by = skip.and_then(|value| value.strip_prefix("HostMaintenance "));
        let key = by.map_or_else(|| Key::new(&*machine.namespace, ""), Key::parse);
        let subject = Subject {
            machine: Some((kind, machine)),
            ..Subject::default()
        };
        found.push((uid.clone(), key, subject));
    }
    found
}

/// Whether no maintenance has this UID, by a live list (F12): the controller has no right to read one by its name.
async fn is_gone(context: &Maintenances, key: &Key, uid: &str) -> Result<bool, ApiError> {
    let what = format!("HostMaintenances in {}", key.namespace);
    let resource = context
        .served
        .known(Kind::HostMaintenance)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let all = list(&context.client, &resource, &key.namespace, &what).await?;
    Ok(!all
        .iter()
        .any(|object| object.uid().as_deref() == Some(uid)))
}
