//! Ownership of a check: whether Rackhand acts on it, by its CRD, its annotations and `--health-checks`.
//!
//! Uses the functions of the evaluation.

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{DRY_RUN_ANNOTATION, EVALUATE_ANNOTATION},
    views::Meta,
};

use crate::{
    checks::{carries_our_label, evaluates},
    config::HealthChecks,
};

/// Who installed the CRD of a kind of checks.
pub(super) struct CrdOwnership {
    /// Whether Rackhand has installed the CRD; `None` if the CRD is not known.
    pub(super) ours: Option<bool>,
    crd: &'static str,
}

impl CrdOwnership {
    /// Finds the CRD of this name among objects.
    pub(super) fn find<'a>(
        crd: &'static str,
        mut objects: impl Iterator<Item = &'a DynamicObject>,
    ) -> Self {
        let is_crd = |object: &&DynamicObject| {
            let types = object.types.as_ref();
            types.is_some_and(|t| t.kind == "CustomResourceDefinition") && object.name_any() == crd
        };
        let found = objects.find(is_crd);
        Self {
            ours: found.map(|crd| carries_our_label(&crd.metadata)),
            crd,
        }
    }

    /// Whether Rackhand has installed the CRD, which is assumed if the CRD is not known.
    pub(super) fn is_ours(&self) -> bool {
        self.ours.unwrap_or(true)
    }

    /// The note that the owner of the CRD was assumed, if the result depends on it.
    pub(super) fn assumed(&self, mode: HealthChecks, check: &Meta) -> Option<String> {
        let decides = mode == HealthChecks::Auto && !check.is_annotated_true(EVALUATE_ANNOTATION);
        (self.ours.is_none() && decides).then(|| {
            format!(
                "it is not known who installed the CRD {}; it is taken for Rackhand's",
                self.crd
            )
        })
    }

    /// Why Rackhand does not evaluate the check.
    pub(super) fn not_evaluated(&self, mode: HealthChecks, check: &Meta) -> Option<String> {
        if evaluates(mode, self.is_ours(), check) {
            return None;
        }
        let lacks = format!("the check does not carry {EVALUATE_ANNOTATION}=\"true\"");
        Some(match mode {
            HealthChecks::None => "Rackhand evaluates no check (--health-checks=none)".into(),
            HealthChecks::Annotated => format!("{lacks} (--health-checks=annotated)"),
            HealthChecks::Auto | HealthChecks::All => {
                format!("its CRD was not installed by Rackhand, and {lacks} (--health-checks=auto)")
            }
        })
    }
}

/// The message that the check is being deleted, if it is.
pub(super) fn deleted(check: &Meta) -> Option<String> {
    let deleted = || "the check is being deleted".to_owned();
    check.is_deleting().then(deleted)
}

/// The message that the check is a dry run, if it is.
pub(super) fn dry_run(check: &Meta) -> Option<String> {
    let dry = || format!("dry run: the check carries {DRY_RUN_ANNOTATION}=\"true\"");
    check.is_annotated_true(DRY_RUN_ANNOTATION).then(dry)
}
