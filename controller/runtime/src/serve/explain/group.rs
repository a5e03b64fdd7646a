//! The API group of a MachineHealthCheck, a kind of two projects.

use rackhand_api::names::groups;
use serde::{Deserialize, Serialize};

use crate::{
    checks::{CLUSTER_API_CRD, OPENSHIFT_CRD},
    store::object::Kind,
};

/// The API group of a MachineHealthCheck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CheckGroup {
    /// `cluster.x-k8s.io`.
    ClusterApi,
    /// `machine.openshift.io`.
    OpenShift,
}

// === impl CheckGroup ===

impl CheckGroup {
    /// All groups.
    pub(super) const ALL: [Self; 2] = [Self::ClusterApi, Self::OpenShift];

    /// The group in `apiVersion`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClusterApi => groups::CLUSTER_API,
            Self::OpenShift => groups::OPENSHIFT_MACHINE,
        }
    }

    /// The project whose controller acts on such checks if Rackhand does not.
    pub(super) fn project(self) -> &'static str {
        match self {
            Self::ClusterApi => "Cluster API",
            Self::OpenShift => "OpenShift",
        }
    }

    /// The CRD whose label decides the ownership of these checks.
    pub(super) fn crd(self) -> &'static str {
        match self {
            Self::ClusterApi => CLUSTER_API_CRD,
            Self::OpenShift => OPENSHIFT_CRD,
        }
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::ClusterApi => Kind::MachineHealthCheck,
            Self::OpenShift => Kind::OpenShiftCheck,
        }
    }
}
