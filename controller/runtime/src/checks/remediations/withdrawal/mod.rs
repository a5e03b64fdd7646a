//! Withdrawal of orphaned remediations, which their check no longer requires.
//!
//! `rackhand_core::checks::machines::orphaned` decides whether a remediation is orphaned, and decides again by live
//! reads before anything is deleted (F12). The deletion is only the signal: the remediator decides whether
//! the remediation is aborted or finished first (F11).

mod checks;
mod creator;
mod reason;

use std::fmt;

use kube::api::DynamicObject;
use rackhand_api::{
    names::{
        MADE_BY_ANNOTATION, OPENSHIFT_EXTERNAL_BAREMETAL,
        OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION, groups,
    },
    views::{Meta, group_of},
};
use rackhand_core::checks::machines::Orphan;

pub(crate) use checks::{checked_conditions, given_up_at, is_judged};
use creator::Creator;
pub(in crate::checks) use creator::made_by;

use super::lifecycle;
use crate::{
    checks::{Context, dialects::unmark},
    store::{
        api::{ApiError, call, optional},
        object::{Key, Kind, api, list},
    },
};

/// The project that the MachineHealthChecks and Machines belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) enum Owner {
    ClusterApi,
    OpenShift,
}

/// A remediation that a check has created.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) struct CreatedRemediation {
    owner: Owner,
    pub(in crate::checks) api_version: String,
    pub(in crate::checks) kind: String,
    pub(in crate::checks) key: Key,
    pub(in crate::checks) uid: String,
    /// The check that created it.
    maker: Creator,
    /// The UIDs of the owners.
    owners: Vec<String>,
    /// Whether it carries out the external remediation of its Machine.
    for_mark: bool,
}

/// Why a remediation is withdrawn: the check that created it, and why that check no longer requires it.
struct WithdrawalReason(Key, Orphan);

// === impl WithdrawalReason ===

impl fmt::Display for WithdrawalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(check, why) = self;
        write!(f, "MachineHealthCheck {check}, which made it, {why}")
    }
}

// === impl Owner ===

impl Owner {
    /// The project of the Machine that owns a remediation.
    pub(in crate::checks) fn of(meta: &Meta) -> Self {
        let is_openshift = |group: &str| group == groups::OPENSHIFT_MACHINE;
        let mut owners = meta.owners.iter();
        if owners.any(|owner| is_openshift(group_of(&owner.api_version))) {
            Self::OpenShift
        } else {
            Self::ClusterApi
        }
    }

    fn check(self) -> Kind {
        match self {
            Self::ClusterApi => Kind::MachineHealthCheck,
            Self::OpenShift => Kind::OpenShiftCheck,
        }
    }

    fn machine(self) -> Kind {
        match self {
            Self::ClusterApi => Kind::Machine,
            Self::OpenShift => Kind::OpenShiftMachine,
        }
    }
}

// === impl CreatedRemediation ===

impl CreatedRemediation {
    /// Parses a remediation; `None` if no check of this project created it, or it is being deleted.
    pub(in crate::checks) fn read(object: &DynamicObject, owner: Owner) -> Option<Self> {
        let meta = Meta::of(object);
        let maker = Creator::read(meta.annotations.get(MADE_BY_ANNOTATION)?)?;
        let types = object.types.as_ref()?;
        if meta.is_deleting() || Owner::of(&meta) != owner {
            return None;
        }
        let strategy = meta
            .annotations
            .get(OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION);
        Some(Self {
            owner,
            api_version: types.api_version.clone(),
            kind: types.kind.clone(),
            key: Key::of(object),
            uid: meta.uid.clone(),
            maker,
            owners: meta.owners.iter().map(|owner| owner.uid.clone()).collect(),
            for_mark: owner == Owner::OpenShift
                && strategy.is_some_and(|strategy| strategy == OPENSHIFT_EXTERNAL_BAREMETAL),
        })
    }

    /// Parses a remediation with the value of its annotation.
    pub(in crate::checks) fn of(
        owner: Owner,
        (api_version, kind): (&str, &str),
        key: Key,
        uid: &str,
        owners: Vec<String>,
        made_by: &str,
    ) -> Option<Self> {
        Some(Self {
            owner,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            key,
            uid: uid.to_owned(),
            maker: Creator::read(made_by)?,
            owners,
            for_mark: false,
        })
    }

    /// The check that created it.
    pub(in crate::checks) fn check(&self) -> Key {
        Key::new(&self.key.namespace, &self.maker.check)
    }

    /// Deletes the remediation if live reads show that it is orphaned. Returns whether it was. The annotation of
    /// an external remediation is removed first, because otherwise the remediation would be created again.
    pub(in crate::checks) async fn withdraw(&self, context: &Context) -> Result<bool, ApiError> {
        // Another check that would create it may not be in the index yet.
        read_checks(context, self.owner.check(), &self.key.namespace).await?;
        let check = live(context, self.owner.check(), &self.check()).await?;
        let machine = live(context, self.owner.machine(), &self.key).await?;
        let why = self.live_reason(&context.index, check.as_ref(), machine.as_ref());
        let Some(why) = why else {
            return Ok(false);
        };
        let Self {
            api_version,
            kind,
            key,
            ..
        } = self;
        tracing::info!(%kind, remediation = %key, "the remediation is withdrawn: {why}");
        if let Some(machine) = machine.as_ref().filter(|_| self.for_mark) {
            unmark(context, machine).await?;
        }
        lifecycle::delete_of_machine(context, api_version, kind, key, self.uid.clone()).await?;
        if let Some(machine) = machine {
            let message = format!("{kind} {key} is withdrawn: {why}");
            let events = &context.events;
            events.send(&machine, false, "RemediationWithdrawn", &message);
        }
        Ok(true)
    }
}

/// Reads all checks of a namespace live into the index.
async fn read_checks(context: &Context, kind: Kind, namespace: &str) -> Result<(), ApiError> {
    let what = format!("{}s of namespace {namespace}", kind.kind());
    let resource = context.served.known(kind);
    let resource = resource.ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    for check in list(&context.client, &resource, namespace, &what).await? {
        context.index.apply(kind, check);
    }
    Ok(())
}

/// Reads an object live.
async fn live(context: &Context, kind: Kind, key: &Key) -> Result<Option<DynamicObject>, ApiError> {
    let what = format!("{} {key}", kind.kind());
    let resource = context
        .served
        .known(kind)
        .ok_or_else(|| ApiError::other(&what, "the kind is not served"))?;
    let objects = api(&context.client, &resource, &key.namespace);
    optional(call(what, objects.get(&key.name)).await)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_undeleted_remediations_with_valid_maker_or_owner_can_be_orphaned() {
        let read = |metadata: serde_json::Value| {
            let object = json!({ "apiVersion": "x.y/v1", "kind": "X", "metadata": metadata });
            CreatedRemediation::read(&serde_json::from_value(object).unwrap(), Owner::ClusterApi)
        };
        let by = |maker: &str| json!({ "name": "m", "namespace": "ns", "uid": "r", "annotations": { MADE_BY_ANNOTATION: maker } });
        let made = read(by(&made_by("check", "cu"))).unwrap();
        assert_eq!(
            (made.check(), made.maker.uid.as_str()),
            (Key::new("ns", "check"), "cu")
        );
        for odd in [
            "",
            "x",
            "MachineHealthCheck/check",
            "MachineHealthCheck//cu",
            "Other/check/cu",
        ] {
            assert_eq!(read(by(odd)), None, "{odd:?}");
        }
        assert_eq!(
            read(json!({ "name": "m", "namespace": "ns", "uid": "r" })),
            None
        );
        let mut deleting = by(&made_by("check", "cu"));
        deleting["deletionTimestamp"] = "2026-08-01T00:00:00Z".into();
        assert_eq!(read(deleting), None);
        let mut of_openshift = by(&made_by("check", "cu"));
        of_openshift["ownerReferences"] = json!([
            { "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "name": "m", "uid": "u" },
        ]);
        assert_eq!(read(of_openshift.clone()), None);
        let object = json!({ "apiVersion": "x.y/v1", "kind": "X", "metadata": of_openshift });
        let object = serde_json::from_value(object).unwrap();
        let made = CreatedRemediation::read(&object, Owner::OpenShift).unwrap();
        assert_eq!(made.owners, ["u"]);
    }
}
