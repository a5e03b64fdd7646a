//! What was observed of the clusters, and what every part above reads and writes it with.
//!
//! Owns the index of objects, the watches that fill it, calls to a Kubernetes API and the clock. Must
//! never know what the objects are read for.

pub(crate) mod api;
pub(crate) mod clock;
pub(crate) mod conditions;
#[cfg(test)]
pub(crate) mod fake_api;
pub(crate) mod index;
pub(crate) mod metrics;
pub(crate) mod object;
pub(crate) mod power_policy;
pub(crate) mod request;
pub(crate) mod watch;
