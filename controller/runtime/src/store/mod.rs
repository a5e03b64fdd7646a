//! Observed objects of the clusters, and the access to Kubernetes APIs that all other parts use.
//!
//! Contains the index of objects, the watches that fill it, calls to a Kubernetes API and the clock. It does
//! not depend on the purpose of the objects.

pub(crate) mod api;
pub(crate) mod clock;
pub(crate) mod conditions;
#[cfg(test)]
mod fixture;
pub(crate) mod host_evidence;
pub(crate) mod index;
pub(crate) mod live_reader;
pub(crate) mod live_remediations;
pub(crate) mod maintenance;
pub(crate) mod metrics;
pub(crate) mod object;
pub(crate) mod power_policy;
pub(crate) mod remediation;
pub(crate) mod shared_reads;
pub(crate) mod time_slice;
pub(crate) mod watch;

#[cfg(test)]
pub(crate) use fixture::{fake_api, large_fleet, log_capture, stall_meter};
