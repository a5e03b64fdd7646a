//! The remediations that this controller carries out, CAPM3's Metal3Remediation and Rackhand's
//! PowerRemediation, in one form.

use std::fmt;

use kube::api::DynamicObject;
use rackhand_api::{
    names::{MEDIK8S_NODE_NAME_ANNOTATION, groups, kinds},
    views::{Meta, Metal3RemediationView, OwnerRef, PowerRemediationView, ViewError},
};

use super::object::{Key, Kind};

/// Identifies a remediation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RemediationId {
    /// One of [`Kind::REMEDIATIONS`].
    pub(crate) kind: Kind,
    pub(crate) key: Key,
}

impl RemediationId {
    pub(crate) fn new(kind: Kind, key: Key) -> Self {
        Self { kind, key }
    }
}

impl fmt::Display for RemediationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.kind(), self.key)
    }
}

/// The parsed contents of a remediation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RemediationObject {
    Metal3(Metal3RemediationView),
    Power(PowerRemediationView),
}

impl RemediationObject {
    pub(crate) fn read(kind: Kind, object: &DynamicObject) -> Result<Self, ViewError> {
        if kind == Kind::PowerRemediation {
            PowerRemediationView::from_dynamic(object).map(Self::Power)
        } else {
            Metal3RemediationView::from_dynamic(object).map(Self::Metal3)
        }
    }

    /// The view from the metadata alone, for a remediation with a spec that cannot be read.
    ///
    /// # Errors
    /// The metadata cannot be read either.
    pub(crate) fn without_spec(kind: Kind, object: &DynamicObject) -> Result<Self, ViewError> {
        let mut bare = object.clone();
        bare.data = serde_json::json!({});
        Self::read(kind, &bare)
    }

    pub(crate) fn meta(&self) -> &Meta {
        match self {
            Self::Metal3(view) => &view.meta,
            Self::Power(view) => &view.meta,
        }
    }

    /// The Machine of Cluster API that the remediation is for.
    pub(crate) fn machine(&self) -> Option<&OwnerRef> {
        match self {
            Self::Metal3(view) => view.machine(),
            Self::Power(view) => view.machine(),
        }
    }

    /// The Machine of OpenShift that the remediation is for. A Node that the remediation names takes precedence,
    /// because medik8s' health check names both.
    pub(crate) fn openshift_machine(&self) -> Option<&OwnerRef> {
        let Self::Power(view) = self else {
            return None;
        };
        let named = view.meta.annotations.get(MEDIK8S_NODE_NAME_ANNOTATION);
        if view.machine().is_some() || named.is_some_and(|name| !name.is_empty()) {
            return None;
        }
        view.meta.owner(groups::OPENSHIFT_MACHINE, kinds::MACHINE)
    }

    /// The Node of the management cluster that the remediation is for, unless it is for a Machine of Cluster API.
    /// Only the Machine itself names the Node of a Machine of OpenShift ([`Self::openshift_machine`]).
    pub(crate) fn node(&self) -> Option<&str> {
        match self {
            Self::Metal3(_) => None,
            Self::Power(view) => view.node(),
        }
    }
}
