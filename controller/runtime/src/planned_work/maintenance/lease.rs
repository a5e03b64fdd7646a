//! medik8s' maintenance Lease of a Node: while somebody holds it, medik8s' NodeHealthCheck and its operators leave the
//! Node alone. It is used only where medik8s' kinds are served, and expires by itself.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{Api, ResourceExt, api::PostParams};
use rackhand_api::names::{MEDIK8S_LEASE_NAMESPACE, kinds};
use rackhand_core::{
    checks::nodes::{LeaseStep, lease_step},
    maintenance::{LEASE_LASTS, LeaseMark},
};

use super::{Maintenances, memory::Memory, resolve::Subject};
use crate::{
    checks::nodes::{held, lease_name, lease_of, release_lease},
    store::{
        api::{ApiError, call, optional},
        object::{Key, Kind},
    },
};

/// How long a reading of a Lease stands that this maintenance does not hold.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// How long it stands that the namespace of such Leases is missing, so that nobody uses them.
const UNUSED: SignedDuration = SignedDuration::from_secs(300);

/// The identity of a maintenance as the holder of a Lease.
pub(super) fn holder(name: &str, uid: &str) -> String {
    format!("{}-{name}-{uid}", kinds::HOST_MAINTENANCE)
}

/// The name of the maintenance with this UID, if it is the holder. The mark on a Machine does not always have the name.
pub(super) fn name_in(holder: &str, uid: &str) -> Option<String> {
    let of_maintenance = holder.strip_prefix(kinds::HOST_MAINTENANCE)?;
    let name = of_maintenance.strip_suffix(uid)?;
    let name = name.strip_prefix('-')?.strip_suffix('-')?;
    (!uid.is_empty() && !name.is_empty()).then(|| name.to_owned())
}

/// How long it stands that this maintenance holds the Lease: somebody may delete it, or take it.
const HELD: SignedDuration = SignedDuration::from_secs(30);

/// The Node whose Lease counts; medik8s' operators run in the cluster of their Nodes. A Cluster may be the one in which
/// the controller runs.
fn node_of<'a>(context: &Maintenances, subject: &'a Subject) -> Option<&'a str> {
    context.served.known(Kind::NodeHealthCheck)?;
    let node = subject.node.as_deref()?;
    let is_same = || {
        let local = context.index.node(&Key::local(), node)?.uid()?;
        (subject.node_uid.as_ref() == Some(&local)).then_some(())
    };
    let is_local = subject.cluster == Some(Key::local()) || is_same().is_some();
    is_local.then_some(node)
}

/// The Lease as last read or written.
pub(super) async fn read(
    context: &Maintenances,
    memory: &mut Memory,
    subject: &Subject,
    me: &str,
    now: Timestamp,
) -> LeaseMark {
    let Some(node) = node_of(context, subject) else {
        return LeaseMark::NotUsed;
    };
    if let Some((read, mark)) = &memory.lease
        && match mark {
            LeaseMark::Ours { .. } => now.duration_since(*read) < HELD,
            LeaseMark::NotUsed => now.duration_since(*read) < UNUSED,
            _ => now.duration_since(*read) < READ_AGAIN,
        }
    {
        return mark.clone();
    }
    let leases: Api<Lease> = Api::namespaced(context.client.clone(), MEDIK8S_LEASE_NAMESPACE);
    let found = optional(call(lease_of(node), leases.get(&lease_name(node))).await);
    let mark = match found {
        Err(error) => LeaseMark::Unread {
            why: error.to_string(),
        },
        Ok(lease) => {
            let known = lease.as_ref().map(held);
            match lease_step(known.as_ref(), me, now) {
                LeaseStep::Create | LeaseStep::Take { .. } => LeaseMark::Free,
                LeaseStep::Renew => LeaseMark::Ours {
                    renewed: known
                        .and_then(|lease| lease.renewed)
                        .unwrap_or(Timestamp::MIN),
                },
                LeaseStep::Taken { holder, until } => LeaseMark::Theirs { holder, until },
            }
        }
    };
    memory.lease = Some((now, mark.clone()));
    mark
}

/// Takes or renews the Lease. Where its namespace is missing, nobody uses such Leases.
pub(super) async fn take(
    context: &Maintenances,
    memory: &mut Memory,
    subject: &Subject,
    me: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    let Some(node) = node_of(context, subject) else {
        return Ok(());
    };
    memory.lease = None;
    let leases: Api<Lease> = Api::namespaced(context.client.clone(), MEDIK8S_LEASE_NAMESPACE);
    let name = lease_name(node);
    let found = optional(call(lease_of(node), leases.get(&name)).await)?;
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
                owner_references: subject.node_uid.as_ref().map(|uid| {
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
            true => leases.create(&params, &lease).await,
            false => leases.replace(&name, &params, &lease).await,
        }
    };
    let written = context
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
    context: &Maintenances,
    memory: &mut Memory,
    subject: &Subject,
    me: &str,
) -> Result<(), ApiError> {
    memory.lease = None;
    let Some(node) = node_of(context, subject) else {
        return Ok(());
    };
    let (client, writer) = (&context.client, &context.writer);
    release_lease(client, writer, "maintenance_lease", node, me).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_holder_of_a_lease_names_the_maintenance_with_this_uid_alone() {
        assert_eq!(
            name_in(&holder("dimm-a3", "u-1"), "u-1").unwrap(),
            "dimm-a3"
        );
        for (other, uid) in [
            (holder("dimm", "u-2"), "u-1"),
            (holder("dimm", "u-1"), ""),
            (holder("", "u-1"), "u-1"),
            ("HostMaintenance-u-1".to_owned(), "u-1"),
            ("HostMaintenance-dimmu-1".to_owned(), "u-1"),
            ("node-maintenance-u-1".to_owned(), "u-1"),
            (String::new(), "u-1"),
        ] {
            assert_eq!(name_in(&other, uid), None, "{other} {uid}");
        }
    }
}
