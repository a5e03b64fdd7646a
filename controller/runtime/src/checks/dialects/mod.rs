//! The dialects of health checks: Cluster API, OpenShift and medik8s.

pub(super) mod cluster_api;
pub(crate) mod node_health_check;
pub(super) mod openshift;

pub(super) use cluster_api::facts as cluster_api_facts;
pub(super) use openshift::unmark;
