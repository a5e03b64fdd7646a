//! What each maintenance is about, and in which order those of one host go.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use rackhand_core::maintenance::{Claim, Earlier, Ends, MaintenancePhase, Place, earlier};

use super::{Maintenances, memory::Memories, observe::subject_of, resolve::Subject};
use crate::store::{maintenance::StoredMaintenance, object::Key};

/// The maintenances of all shards that are not over.
#[derive(Default)]
pub(super) struct Order {
    claims: Vec<Claim>,
    /// By the UID of the maintenance.
    subjects: BTreeMap<String, (Subject, Result<(), String>)>,
}

impl Order {
    pub(super) fn of<'a>(
        context: &Maintenances,
        memories: &mut Memories,
        all: impl Iterator<Item = (&'a Key, &'a StoredMaintenance)>,
        now: Timestamp,
    ) -> Self {
        let mut order = Self::default();
        for (key, stored) in all.filter(|(_, stored)| !stored.status.phase.is_over()) {
            let uid = &stored.meta.uid;
            let found = subject_of(context, memories.of(uid), key, stored, now);
            order.claims.push(claim(key, stored, place(&found.0)));
            order.subjects.insert(uid.clone(), found);
        }
        order
    }

    /// The maintenance of the same host whose turn comes before.
    pub(super) fn earlier(&self, uid: &str) -> Option<Earlier> {
        earlier(uid, &self.claims)
    }

    /// What the maintenance is about; `None`: it is over.
    pub(super) fn subject(&self, uid: &str) -> Option<(Subject, Result<(), String>)> {
        self.subjects.get(uid).cloned()
    }
}

fn claim(key: &Key, stored: &StoredMaintenance, place: Place) -> Claim {
    let status = &stored.status;
    let spec = stored.spec.as_ref().ok().map(|(spec, _)| spec);
    let is_ending = stored.meta.deleted.is_some()
        || status.ending.is_some()
        || status.phase == MaintenancePhase::Ending;
    let until = status.ends_at.or(spec.and_then(|spec| spec.until));
    let lasts = spec.and_then(|spec| u64::try_from(spec.duration_seconds?).ok());
    let ends = match (until, lasts) {
        _ if is_ending => Ends::Already {
            reason: status.reason.clone().unwrap_or_else(|| "Ending".into()),
        },
        (Some(at), _) => Ends::At(at),
        (None, Some(seconds)) => Ends::After(Duration::from_secs(seconds)),
        (None, None) => Ends::ByDeletion,
    };
    Claim {
        name: key.to_string(),
        uid: stored.meta.uid.clone(),
        created: stored.meta.created.unwrap_or(Timestamp::MAX),
        has_begun: status.begun
            || status.marked
            || status.in_place.iter().any(|mark| mark.is_heeded()),
        ends,
        place,
    }
}

fn place(subject: &Subject) -> Place {
    let cluster = subject.cluster.as_ref().map(ToString::to_string);
    Place {
        host: subject.host.clone(),
        machine: subject.machine.as_ref().map(|(_, key)| key.to_string()),
        node: cluster.zip(subject.node.clone()),
        node_uid: subject.node_uid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim_with(status: &Value) -> Claim {
        let object = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": {
                "name": "m", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-03-01T10:00:00Z",
            },
            "spec": { "node": "n1", "reason": "DIMM", "until": "2026-03-01T12:00:00Z" },
            "status": status,
        }));
        let stored = StoredMaintenance::read(&object.unwrap()).unwrap();
        claim(&Key::new("ns", "m"), &stored, Place::default())
    }

    #[test]
    fn maintenance_has_begun_once_a_mark_may_be_set() {
        let waits = claim_with(&json!({ "phase": "Pending", "inPlace": ["Remediation"] }));
        assert!(!waits.has_begun && waits.name == "ns/m" && waits.uid == "u");
        assert_eq!(waits.created.to_string(), "2026-03-01T10:00:00Z");
        let at = |time: &str| Ends::At(time.parse().unwrap());
        assert_eq!(waits.ends, at("2026-03-01T12:00:00Z"));
        for status in [
            json!({ "inPlace": ["SkipRemediation"] }),
            json!({ "inPlace": ["Lease"] }),
            json!({ "marked": true }),
            json!({ "begun": true }),
        ] {
            assert!(claim_with(&status).has_begun, "{status}");
        }
        let parked = claim_with(&json!({ "endsAt": "2026-03-01T11:00:00Z" }));
        assert_eq!(parked.ends, at("2026-03-01T11:00:00Z"));
        let ending = json!({ "phase": "Ending", "reason": "MarkLeft", "ending": "Deleted" });
        let reason = "MarkLeft".to_owned();
        assert_eq!(claim_with(&ending).ends, Ends::Already { reason });
    }
}
