//! The Lease of a Node, by which medik8s' operators exclude each other.
//!
//! `rackhand_core::checks::nodes::lease_step` decides who holds it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams, Preconditions},
};
use rackhand_api::names::MEDIK8S_LEASE_NAMESPACE;
use rackhand_core::{
    checks::nodes::{HeldLease, LeaseStep, lease_holder, lease_step},
    maintenance::LeaseMark,
};

use crate::{
    checks::Context,
    leader::writer::Writer,
    store::api::{ApiError, call, optional},
};

/// The Lease of a Node, on behalf of a check.
pub(super) struct NodeLease<'a> {
    pub(super) context: &'a Context,
    pub(super) node: &'a str,
    pub(super) uid: &'a str,
    pub(super) check: &'a str,
}

/// The result of taking the Lease.
pub(super) enum Taken {
    /// The check holds this Lease.
    Ours(Lease),
    /// Another holder has the Lease: its identity, and the Lease if known.
    Refused(String, Option<Lease>),
}

/// Converts a Lease into a fact of the core.
pub(crate) fn held(lease: &Lease) -> HeldLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds;
    HeldLease {
        holder: spec.holder_identity,
        acquired: spec.acquire_time.map(|t| t.0),
        renewed: spec.renew_time.map(|t| t.0),
        duration: Duration::from_secs(seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0)),
        transitions: spec.lease_transitions.unwrap_or(0),
    }
}

/// What a maintenance with this identity has of the Lease of its Node, as it was read.
pub(crate) fn maintenance_mark(lease: Option<&Lease>, me: &str, now: Timestamp) -> LeaseMark {
    let known = lease.map(held);
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

/// The name of the Lease of a Node.
pub(crate) fn lease_name(node: &str) -> String {
    format!("node-{}", node.to_lowercase())
}

/// The Node of a Lease of this name; `None` if it is of none. Names of Nodes have no capitals.
pub(super) fn node_of_lease(lease: &str) -> Option<&str> {
    lease.strip_prefix("node-")
}

/// The Lease of a Node, for messages.
pub(crate) fn lease_of(node: &str) -> String {
    format!("Lease {MEDIK8S_LEASE_NAMESPACE}/{}", lease_name(node))
}

// === impl NodeLease ===

impl NodeLease<'_> {
    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.context.client.clone(), MEDIK8S_LEASE_NAMESPACE)
    }

    fn name(&self) -> String {
        lease_name(self.node)
    }

    fn holder(&self) -> String {
        lease_holder(self.check)
    }

    fn what(&self) -> String {
        lease_of(self.node)
    }

    /// Takes or renews the Lease. With `anew` its acquireTime is set to now, even if the check holds it
    /// already.
    pub(super) async fn take(&self, lasts: Duration, anew: bool) -> Result<Taken, ApiError> {
        let now = Timestamp::now();
        let (name, me) = (self.name(), self.holder());
        let found = optional(call(self.what(), self.api().get(&name)).await)?;
        let step = lease_step(found.as_ref().map(held).as_ref(), &me, now);
        let mut spec = found
            .as_ref()
            .and_then(|l| l.spec.clone())
            .unwrap_or_default();
        match step {
            LeaseStep::Taken { holder, .. } => return Ok(Taken::Refused(holder, found)),
            LeaseStep::Renew if anew => {
                spec = self.fresh(&me, spec.lease_transitions.unwrap_or(0), now);
            }
            LeaseStep::Renew => {}
            LeaseStep::Create => spec = self.fresh(&me, 0, now),
            LeaseStep::Take { transitions } => spec = self.fresh(&me, transitions, now),
        }
        spec.renew_time = Some(MicroTime(now));
        spec.lease_duration_seconds = Some(i32::try_from(lasts.as_secs()).unwrap_or(i32::MAX));
        let leases = self.api();
        let written = if let Some(mut lease) = found {
            lease.spec = Some(spec);
            let replace = move || async move {
                let params = PostParams::default();
                leases.replace(&name, &params, &lease).await
            };
            let writer = &self.context.writer;
            writer.write("node_lease", self.what(), replace).await
        } else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(name),
                    owner_references: Some(vec![OwnerReference {
                        api_version: "v1".to_owned(),
                        kind: "Node".to_owned(),
                        name: self.node.to_owned(),
                        uid: self.uid.to_owned(),
                        ..OwnerReference::default()
                    }]),
                    ..ObjectMeta::default()
                },
                spec: Some(spec),
            };
            let create = move || async move { leases.create(&PostParams::default(), &lease).await };
            let writer = &self.context.writer;
            writer.write("node_lease", self.what(), create).await
        };
        match written {
            Ok(lease) => Ok(Taken::Ours(lease)),
            Err(error) if error.is_conflict() => {
                let who = "another client".to_owned();
                Ok(Taken::Refused(who, None))
            }
            Err(error) if error.is_not_found() => Err(ApiError::other(
                self.what(),
                "the namespace is missing; apply deploy/kustomize/node-health-checks",
            )),
            Err(error) => Err(error),
        }
    }

    fn fresh(&self, me: &str, transitions: i32, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(me.to_owned()),
            acquire_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Deletes the Lease, if the check holds it.
    pub(super) async fn release(&self) -> Result<(), ApiError> {
        let (client, writer) = (&self.context.client, &self.context.writer);
        release_lease(client, writer, "node_lease", self.node, &self.holder()).await
    }
}

/// Deletes the Lease of a Node, if this holder has it. `operation`: the write, as metrics count it.
///
/// # Errors
/// The API server did not answer, or refuses it. That somebody else has changed the Lease is no error.
pub(crate) async fn release_lease(
    client: &Client,
    writer: &Writer,
    operation: &'static str,
    node: &str,
    holder: &str,
) -> Result<(), ApiError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), MEDIK8S_LEASE_NAMESPACE);
    let (name, what) = (lease_name(node), lease_of(node));
    let Some(lease) = optional(call(&what, leases.get(&name)).await)? else {
        return Ok(());
    };
    if held(&lease).holder.as_deref() != Some(holder) {
        return Ok(());
    }
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: lease.metadata.uid,
            resource_version: lease.metadata.resource_version,
        }),
        ..DeleteParams::default()
    };
    let delete = move || async move { leases.delete(&name, &only).await.map(drop) };
    let deleted = writer.write(operation, what, delete).await;
    match optional(deleted) {
        Err(error) if error.is_conflict() => Ok(()),
        done => done.map(drop),
    }
}
