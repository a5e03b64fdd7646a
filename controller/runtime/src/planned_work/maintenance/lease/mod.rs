//! medik8s' maintenance Lease of a Node: while somebody holds it, medik8s' NodeHealthCheck and its operators leave the
//! Node alone. It is used only where medik8s' kinds are served, and expires by itself.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use rackhand_api::names::{MEDIK8S_LEASE_NAMESPACE, kinds};
use rackhand_core::{
    checks::nodes::{LeaseStep, lease_step},
    maintenance::{LEASE_LASTS, LeaseMark, MaintenancePhase, NodePlace, NodeSight, node_place},
};

use super::{memory::Memory, resolve::Subject};
use crate::{
    checks::nodes::{held, lease_name, lease_of, maintenance_mark, release_lease},
    leader::writer::Writer,
    store::{
        api::{ApiError, call, optional},
        index::{Connection, Index},
        object::{Key, Kind, Served},
    },
};

/// How long a reading of a Lease stands that this maintenance does not hold.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// How long it stands that the namespace of such Leases is missing, so that nobody uses them.
const UNUSED: SignedDuration = SignedDuration::from_secs(300);

/// The name of the maintenance with this UID, if it is the holder. The mark on a Machine does not always have the name.
pub(super) fn name_in(holder: &str, uid: &str) -> Option<String> {
    let of_maintenance = holder.strip_prefix(kinds::HOST_MAINTENANCE)?;
    let name = of_maintenance.strip_suffix(uid)?;
    let name = name.strip_prefix('-')?.strip_suffix('-')?;
    (!uid.is_empty() && !name.is_empty()).then(|| name.to_owned())
}

/// How long it stands that this maintenance holds the Lease: somebody may delete it, or take it.
pub(super) const HELD: SignedDuration = SignedDuration::from_secs(30);

/// The same while a host that works may still be emptied and switched off.
const HELD_BEFORE_OFF: SignedDuration = SignedDuration::from_secs(5);

/// How long it stands in this phase that this maintenance holds the Lease.
pub(super) fn stands(phase: MaintenancePhase) -> SignedDuration {
    match phase {
        MaintenancePhase::Pending | MaintenancePhase::Evicting | MaintenancePhase::PoweringOff => {
            HELD_BEFORE_OFF
        }
        MaintenancePhase::Parked
        | MaintenancePhase::Ending
        | MaintenancePhase::Ended
        | MaintenancePhase::Failed => HELD,
    }
}

/// What reads and writes of Leases need.
#[derive(Clone, Copy)]
pub(super) struct Leases<'a> {
    pub(super) client: &'a Client,
    pub(super) served: &'a Served,
    pub(super) index: &'a Index,
    pub(super) writer: &'a Writer,
}

/// A maintenance's Node, and whether its status lists the Lease. One that is listed was taken of a Node of this cluster,
/// and is renewed and released also where that is not known any more.
pub(super) type About<'a> = (&'a Subject, bool);

/// Whether a Lease of the Node counts; medik8s' operators run in the cluster of their Nodes.
fn place_of(leases: &Leases<'_>, (subject, listed): About<'_>, node: &str) -> NodePlace {
    if listed {
        return NodePlace::Own;
    }
    if leases.served.known(Kind::NodeHealthCheck).is_none() {
        return NodePlace::Other;
    }
    let local = Key::local();
    if subject.cluster.as_ref() == Some(&local) {
        return NodePlace::Own;
    }
    let unwatched = |cluster: &Key| match leases.index.connection(cluster) {
        Connection::Up => None,
        Connection::Down(why) => Some(why),
    };
    let of_cluster = match &subject.cluster {
        Some(cluster) => unwatched(cluster),
        None => Some("it is not known which one that is".to_owned()),
    };
    let own = unwatched(&local);
    let own_uid = leases
        .index
        .seen_node(&local, node)
        .and_then(|node| node.uid());
    let of_cluster = NodeSight {
        uid: subject.node_uid.as_deref(),
        unwatched: of_cluster.as_deref(),
    };
    let own = NodeSight {
        uid: own_uid.as_deref(),
        unwatched: own.as_deref(),
    };
    node_place(of_cluster, own)
}

/// Whether the Nodes of the controller's own cluster are asked for. Of a Machine it is not known before whether its Node
/// is one of them, so they are while any maintenance is unfinished where medik8s' kinds are served.
pub(super) fn asks_for_own_nodes(
    served: &Served,
    mut phases: impl Iterator<Item = MaintenancePhase>,
) -> bool {
    served.known(Kind::NodeHealthCheck).is_some() && phases.any(|phase| !phase.is_over())
}

/// The Node, if its Lease counts.
fn node_of<'a>(leases: &Leases<'_>, about: About<'a>) -> Option<&'a str> {
    let node = about.0.node.as_deref()?;
    (place_of(leases, about, node) == NodePlace::Own).then_some(node)
}

/// The Lease as last read or written. That it is held stands for the time given beside now.
pub(super) async fn read(
    leases: &Leases<'_>,
    memory: &mut Memory,
    about: About<'_>,
    me: &str,
    (now, held_stands): (Timestamp, SignedDuration),
) -> LeaseMark {
    let Some(node) = about.0.node.as_deref() else {
        return LeaseMark::NotUsed;
    };
    match place_of(leases, about, node) {
        NodePlace::Own => {}
        NodePlace::Other => return LeaseMark::NotUsed,
        NodePlace::Unknown { why } => return unread(memory, why, now),
    }
    if let Some((read, mark)) = &memory.lease
        && match mark {
            LeaseMark::Ours { .. } => now.duration_since(*read) < held_stands,
            LeaseMark::NotUsed => now.duration_since(*read) < UNUSED,
            _ => now.duration_since(*read) < READ_AGAIN,
        }
    {
        return mark.clone();
    }
    let api: Api<Lease> = Api::namespaced(leases.client.clone(), MEDIK8S_LEASE_NAMESPACE);
    let found = optional(call(lease_of(node), api.get(&lease_name(node))).await);
    let mark = match found {
        Err(error) => unread(memory, error.to_string(), now),
        Ok(lease) => {
            memory.unread_since = None;
            maintenance_mark(lease.as_ref(), me, now)
        }
    };
    memory.lease = Some((now, mark.clone()));
    mark
}

/// One that was not read, nor renewed, since the first such time.
fn unread(memory: &mut Memory, why: String, now: Timestamp) -> LeaseMark {
    let since = *memory.unread_since.get_or_insert(now);
    LeaseMark::Unread {
        why,
        expires: since.checked_add(LEASE_LASTS).unwrap_or(Timestamp::MAX),
    }
}

/// Takes or renews the Lease. Where its namespace is missing, nobody uses such Leases.
pub(super) async fn take(
    leases: &Leases<'_>,
    memory: &mut Memory,
    about: About<'_>,
    me: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    let Some(node) = node_of(leases, about) else {
        return Ok(());
    };
    memory.lease = None;
    let api: Api<Lease> = Api::namespaced(leases.client.clone(), MEDIK8S_LEASE_NAMESPACE);
    let name = lease_name(node);
    let found = optional(call(lease_of(node), api.get(&name)).await)?;
    let transitions = match lease_step(found.as_ref().map(held).as_ref(), me, now) {
        LeaseStep::Taken { .. } => return Ok(()),
        LeaseStep::Create => 0,
        LeaseStep::Take { transitions } => transitions,
        LeaseStep::Renew => {
            let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
            spec.and_then(|spec| spec.lease_transitions).unwrap_or(0)
        }
    };
    let acquired = found
        .as_ref()
        .and_then(|lease| lease.spec.as_ref())
        .filter(|spec| spec.holder_identity.as_deref() == Some(me))
        .and_then(|spec| spec.acquire_time.clone());
    let spec = LeaseSpec {
        holder_identity: Some(me.to_owned()),
        acquire_time: Some(acquired.unwrap_or(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_duration_seconds: i32::try_from(LEASE_LASTS.as_secs()).ok(),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let lease = match found {
        Some(lease) => Lease {
            spec: Some(spec),
            ..lease
        },
        None => Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                owner_references: about.0.node_uid.as_ref().map(|uid| {
                    vec![OwnerReference {
                        api_version: "v1".to_owned(),
                        kind: "Node".to_owned(),
                        name: node.to_owned(),
                        uid: uid.clone(),
                        ..OwnerReference::default()
                    }]
                }),
                ..ObjectMeta::default()
            },
            spec: Some(spec),
        },
    };
    let is_new = lease.metadata.resource_version.is_none();
    let write = move || async move {
        let params = PostParams::default();
        match is_new {
            true => api.create(&params, &lease).await,
            false => api.replace(&name, &params, &lease).await,
        }
    };
    let written = leases
        .writer
        .write("maintenance_lease", lease_of(node), write)
        .await;
    match written {
        Ok(_) => {
            memory.lease = Some((now, LeaseMark::Ours { renewed: now }));
            Ok(())
        }
        Err(error) if error.is_not_found() => {
            memory.lease = Some((now, LeaseMark::NotUsed));
            Ok(())
        }
        Err(error) if error.is_conflict() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes the Lease, if this maintenance holds it.
pub(super) async fn release(
    leases: &Leases<'_>,
    memory: &mut Memory,
    about: About<'_>,
    me: &str,
) -> Result<(), ApiError> {
    memory.lease = None;
    let Some(node) = node_of(leases, about) else {
        return Ok(());
    };
    release_lease(leases.client, leases.writer, "maintenance_lease", node, me).await
}

#[cfg(test)]
mod tests;
