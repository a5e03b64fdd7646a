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
        OPENSHIFT_EXTERNAL_BAREMETAL, OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION,
        SKIP_REMEDIATION_ANNOTATION, groups, kinds,
    },
    views::{
        MachineHealthCheckView, MachineView, Meta, OpenShiftHealthCheckView, TemplateRef, group_of,
    },
};
use rackhand_core::health::{CheckState, Orphan, orphaned};

use super::{Context, actions, mine::paused, openshift};
use crate::{
    api::{ApiError, call, optional},
    index::Index,
    object::{Key, Kind, api},
};

/// What [`MADE_BY_ANNOTATION`] of a request says.
pub(super) fn made_by(check: &str, uid: &str) -> String {
    format!("{}/{check}/{uid}", kinds::MACHINE_HEALTH_CHECK)
}

/// Whose MachineHealthChecks and Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dialect {
    ClusterApi,
    OpenShift,
}

/// A request that a check made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Made {
    dialect: Dialect,
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) uid: String,
    /// Name and UID of the check.
    check: String,
    maker: String,
    /// The UIDs of its owners.
    owners: Vec<String>,
    /// It carries out the mark of `external-baremetal` on its Machine.
    for_mark: bool,
}

// === impl Dialect ===

impl Dialect {
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

// === impl Made ===

impl Made {
    /// `None`: no check of this dialect made it, or it is being deleted already.
    pub(super) fn read(object: &DynamicObject, dialect: Dialect) -> Option<Self> {
        let types = object.types.as_ref()?;
        let meta = Meta::of(object);
        let owners = meta.owners.iter();
        let of_openshift = owners
            .clone()
            .any(|owner| group_of(&owner.api_version) == groups::OPENSHIFT_MACHINE);
        if meta.is_deleting() || of_openshift != (dialect == Dialect::OpenShift) {
            return None;
        }
        let maker = meta.annotations.get(MADE_BY_ANNOTATION)?;
        let strategy = meta
            .annotations
            .get(OPENSHIFT_REMEDIATION_STRATEGY_ANNOTATION);
        let made = Self::of(
            dialect,
            (&types.api_version, &types.kind),
            Key::of(object),
            &meta.uid,
            owners.map(|owner| owner.uid.clone()).collect(),
            maker,
        )?;
        Some(Self {
            for_mark: of_openshift
                && strategy.is_some_and(|strategy| strategy == OPENSHIFT_EXTERNAL_BAREMETAL),
            ..made
        })
    }

    /// The same by what the annotation says.
    pub(super) fn of(
        dialect: Dialect,
        (api_version, kind): (&str, &str),
        key: Key,
        uid: &str,
        owners: Vec<String>,
        made_by: &str,
    ) -> Option<Self> {
        let mut parts = made_by.splitn(3, '/');
        let of_check = parts.next() == Some(kinds::MACHINE_HEALTH_CHECK);
        let (check, maker) = (parts.next()?, parts.next()?);
        (of_check && !check.is_empty() && !maker.is_empty()).then(|| Self {
            dialect,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            key,
            uid: uid.to_owned(),
            check: check.to_owned(),
            maker: maker.to_owned(),
            owners,
            for_mark: false,
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
        if !self.owners.contains(&machine.meta.uid) {
            return None;
        }
        match self.dialect {
            Dialect::ClusterApi => self.orphan_of_cluster_api(index, check, &machine),
            Dialect::OpenShift => self.orphan_of_openshift(index, check, &machine),
        }
    }

    /// Whether a check with this template makes such requests.
    fn is_from(&self, template: Option<&TemplateRef>) -> bool {
        template.is_some_and(|t| {
            t.request_kind() == self.kind && group_of(&t.api_version) == group_of(&self.api_version)
        })
    }

    fn orphan_of_cluster_api(
        &self,
        index: &Index,
        check: Option<&DynamicObject>,
        machine: &MachineView,
    ) -> Option<Orphan> {
        let makes =
            |view: &MachineHealthCheckView| self.is_from(view.remediation_template.as_ref());
        let state = match check {
            None => None,
            Some(check) if Meta::of(check).uid != self.maker => None,
            Some(check) => {
                let view = MachineHealthCheckView::from_dynamic(check).ok()?;
                let makes = makes(&view);
                Some(state(index, &view, machine, makes))
            }
        };
        let covered = live_checks(index, machine, makes).any(|uid| uid != self.maker);
        let machine_paused = machine.meta.has_annotation(CAPI_PAUSED_ANNOTATION);
        orphaned(&self.maker, state.as_ref(), covered, machine_paused)
    }

    fn orphan_of_openshift(
        &self,
        index: &Index,
        check: Option<&DynamicObject>,
        machine: &MachineView,
    ) -> Option<Orphan> {
        let state = |view: &OpenShiftHealthCheckView| {
            let template = view.remediation_template.as_ref();
            let makes = if self.for_mark {
                template.is_none() && view.external_baremetal
            } else {
                self.is_from(template)
            };
            state_of_openshift(view, machine, makes)
        };
        let check = match check {
            None => None,
            Some(check) if Meta::of(check).uid != self.maker => None,
            Some(check) => Some(state(&OpenShiftHealthCheckView::from_dynamic(check).ok()?)),
        };
        let covered = index
            .openshift_checks()
            .into_iter()
            .filter(|(key, _)| key.namespace == self.key.namespace)
            .filter_map(|(_, entry)| entry.view.ok())
            .map(|view| state(&view))
            .any(|state| state.is_live() && state.makes && state.uid != self.maker);
        // Nothing pauses a Machine of OpenShift by itself.
        orphaned(&self.maker, check.as_ref(), covered, false)
    }

    /// The same, by the index.
    pub(super) fn orphan_by_index(&self, index: &Index) -> Option<Orphan> {
        let (check, machine) = match self.dialect {
            Dialect::ClusterApi => (
                index.check(&self.check()).map(|e| e.object),
                index.machine(&self.key).map(|e| e.object),
            ),
            Dialect::OpenShift => (
                index.openshift_check(&self.check()).map(|e| e.object),
                index.openshift_machine(&self.key).map(|e| e.object),
            ),
        };
        self.orphan(index, check.as_deref(), machine.as_deref())
    }

    /// Deletes it if it is orphaned by what the API server says now. Returns whether it was. The mark
    /// that it carries out goes first: while the mark stands, the request would be made anew.
    pub(super) async fn withdraw(&self, context: &Context) -> Result<bool, ApiError> {
        let check = live(context, self.dialect.check(), &self.check()).await?;
        let machine = live(context, self.dialect.machine(), &self.key).await?;
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
        if let Some(machine) = machine.as_ref().filter(|_| self.for_mark) {
            openshift::unmark(context, machine).await?;
        }
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

/// The same of a check of OpenShift, which names no Cluster.
fn state_of_openshift(
    view: &OpenShiftHealthCheckView,
    machine: &MachineView,
    makes: bool,
) -> CheckState {
    CheckState {
        uid: view.meta.uid.clone(),
        deleting: view.meta.is_deleting(),
        paused: paused(&view.meta),
        cluster_active: true,
        dry_run: view.meta.is_annotated_true(DRY_RUN_ANNOTATION),
        selects: view.selector.matches(&machine.meta.labels),
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
            Made::read(
                &serde_json::from_value(object).unwrap(),
                Dialect::ClusterApi,
            )
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
        assert_eq!(read(of_openshift.clone()), None);
        let object = json!({ "apiVersion": "x.y/v1", "kind": "X", "metadata": of_openshift });
        let object = serde_json::from_value(object).unwrap();
        let made = Made::read(&object, Dialect::OpenShift).unwrap();
        assert_eq!(made.owners, ["u"]);
    }
}
