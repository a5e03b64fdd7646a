//! Requests whose check does not stand behind them any more.
//!
//! Owns who made a request, and the withdrawal of one that is orphaned. Whether it is,
//! `rackhand_core::health::orphaned` decides; before anything is deleted, it decides by what the API
//! server says now (F12). The deletion is only the signal: whether the remediation is aborted or finished
//! first is for the remediator to decide (F11).

use kube::api::DynamicObject;
use rackhand_api::{
    names::{
        CAPI_PAUSED_ANNOTATION, CLUSTER_NAME_LABEL, DRY_RUN_ANNOTATION, MADE_BY_ANNOTATION,
        SKIP_REMEDIATION_ANNOTATION, groups, kinds,
    },
    views::{MachineHealthCheckView, MachineView, Meta, group_of},
};
use rackhand_core::health::{CheckState, Orphan, orphaned};

use super::{Context, actions, mine::paused};
use crate::{
    api::{ApiError, call, optional},
    index::Index,
    object::{Key, Kind, api},
};

/// What [`MADE_BY_ANNOTATION`] of a request says, for a check of Cluster API.
pub(super) fn made_by(check: &str, uid: &str) -> String {
    format!("{}/{check}/{uid}", kinds::MACHINE_HEALTH_CHECK)
}

/// A request that a check of Cluster API made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Made {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) uid: String,
    /// Name and UID of the check.
    check: String,
    maker: String,
}

// === impl Made ===

impl Made {
    /// `None`: no check made it, or it is being deleted already.
    pub(super) fn read(object: &DynamicObject) -> Option<Self> {
        let types = object.types.as_ref()?;
        let meta = Meta::of(object);
        let owners = meta.owners.iter();
        let of_openshift = |api_version: &str| group_of(api_version) == groups::OPENSHIFT_MACHINE;
        if meta.is_deleting() || owners.clone().any(|o| of_openshift(&o.api_version)) {
            return None;
        }
        let maker = meta.annotations.get(MADE_BY_ANNOTATION)?;
        Self::of(
            &types.api_version,
            &types.kind,
            Key::of(object),
            &meta.uid,
            maker,
        )
    }

    /// The same by what the annotation says.
    pub(super) fn of(
        api_version: &str,
        kind: &str,
        key: Key,
        uid: &str,
        made_by: &str,
    ) -> Option<Self> {
        let mut parts = made_by.splitn(3, '/');
        let of_check = parts.next() == Some(kinds::MACHINE_HEALTH_CHECK);
        let (check, maker) = (parts.next()?, parts.next()?);
        (of_check && !check.is_empty() && !maker.is_empty()).then(|| Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            key,
            uid: uid.to_owned(),
            check: check.to_owned(),
            maker: maker.to_owned(),
        })
    }

    /// The check that made it.
    pub(super) fn check(&self) -> Key {
        Key::new(&self.key.namespace, &self.check)
    }

    /// Why it is orphaned by what is known, if it is. A check or a Machine that does not read is no
    /// reason.
    fn orphan(
        &self,
        index: &Index,
        check: Option<&DynamicObject>,
        machine: Option<&DynamicObject>,
    ) -> Option<Orphan> {
        // With its Machine it is deleted by the garbage collector.
        let machine = MachineView::from_dynamic(machine?).ok()?;
        let makes = |view: &MachineHealthCheckView| {
            view.remediation_template.as_ref().is_some_and(|t| {
                t.request_kind() == self.kind
                    && group_of(&t.api_version) == group_of(&self.api_version)
            })
        };
        let state = match check {
            None => None,
            Some(check) if Meta::of(check).uid != self.maker => None,
            Some(check) => {
                let view = MachineHealthCheckView::from_dynamic(check).ok()?;
                let makes = makes(&view);
                Some(state(index, &view, &machine, makes))
            }
        };
        let covered = live_checks(index, &machine, |view| makes(view)).any(|uid| uid != self.maker);
        let machine_paused = machine.meta.has_annotation(CAPI_PAUSED_ANNOTATION);
        orphaned(&self.maker, state.as_ref(), covered, machine_paused)
    }

    /// The same, by the index.
    pub(super) fn orphan_by_index(&self, index: &Index) -> Option<Orphan> {
        let check = index.check(&self.check()).map(|e| e.object);
        let machine = index.machine(&self.key).map(|e| e.object);
        self.orphan(index, check.as_deref(), machine.as_deref())
    }

    /// Deletes it if it is orphaned by what the API server says now. Returns whether it was.
    pub(super) async fn withdraw(&self, context: &Context) -> Result<bool, ApiError> {
        let check = live(context, Kind::MachineHealthCheck, &self.check()).await?;
        let machine = live(context, Kind::Machine, &self.key).await?;
        let Some(why) = self.orphan(&context.index, check.as_ref(), machine.as_ref()) else {
            return Ok(false);
        };
        let Self {
            api_version,
            kind,
            key,
            ..
        } = self;
        let check = self.check();
        tracing::info!(%kind, request = %key, %check, "the request is withdrawn: its check {why}");
        actions::delete_of(context, api_version, kind, key, self.uid.clone()).await?;
        if let Some(machine) = machine {
            let message = format!(
                "{kind} {key} is withdrawn: MachineHealthCheck {check}, which made it, {why}"
            );
            let events = &context.events;
            events.send(&machine, false, "RemediationWithdrawn", &message);
        }
        Ok(true)
    }
}

/// Whether some live check judges a Machine, whoever evaluates it.
pub(crate) fn is_judged(index: &Index, machine: &MachineView) -> bool {
    live_checks(index, machine, |_| true).next().is_some()
}

/// The UIDs of the live checks of a Machine that make the requests in question.
fn live_checks<'a>(
    index: &'a Index,
    machine: &'a MachineView,
    makes: impl Fn(&MachineHealthCheckView) -> bool + 'a,
) -> impl Iterator<Item = String> + 'a {
    let namespace = machine.meta.namespace.clone().unwrap_or_default();
    let checks = index.checks_in(&namespace).into_iter();
    let states = checks
        .filter_map(|entry| entry.view.ok())
        .map(move |view| state(index, &view, machine, makes(&view)));
    states
        .filter(|state| state.is_live() && state.makes)
        .map(|state| state.uid)
}

/// What matters of a check for one Machine.
fn state(
    index: &Index,
    view: &MachineHealthCheckView,
    machine: &MachineView,
    makes: bool,
) -> CheckState {
    let labels = &machine.meta.labels;
    let cluster = view.cluster_name.as_deref().unwrap_or_default();
    let namespace = view.meta.namespace.clone().unwrap_or_default();
    let found = index.cluster(&Key::new(namespace, cluster));
    let selects = labels.get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
        && view.selector.matches(labels)
        && !machine.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION);
    CheckState {
        uid: view.meta.uid.clone(),
        deleting: view.meta.is_deleting(),
        paused: paused(&view.meta),
        cluster_active: found
            .and_then(|e| e.view.ok())
            .is_some_and(|c| !c.is_paused()),
        dry_run: view.meta.is_annotated_true(DRY_RUN_ANNOTATION),
        selects,
        makes,
    }
}

/// An object as it stands at the API server.
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
    fn only_what_a_check_of_cluster_api_made_and_nobody_deletes_yet_can_be_orphaned() {
        let read = |metadata: serde_json::Value| {
            let object = json!({ "apiVersion": "x.y/v1", "kind": "X", "metadata": metadata });
            Made::read(&serde_json::from_value(object).unwrap())
        };
        let by = |maker: &str| json!({ "name": "m", "namespace": "ns", "uid": "r", "annotations": { MADE_BY_ANNOTATION: maker } });
        let made = read(by(&made_by("check", "cu"))).unwrap();
        assert_eq!(
            (made.check(), made.maker.as_str()),
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
        assert_eq!(read(of_openshift), None);
    }
}
