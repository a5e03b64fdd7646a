//! The dialects of MachineHealthCheck: what differs between Cluster API's and OpenShift's.

pub(super) mod cluster_api;
pub(super) mod openshift;

pub(super) use cluster_api::facts as cluster_api_facts;
pub(super) use openshift::unmark;
