//! Admission webhooks for MachineHealthChecks and NodeHealthChecks, for clusters in which no webhook of
//! Cluster API or medik8s runs.
//!
//! Owns what is refused, what is filled in, and the server that a Kubernetes API server calls. Every
//! verdict is a pure function of the request. Must never read anything but the request: an answer must
//! not depend on what this replica has seen so far.

mod check;
mod defaults;
mod labels;
mod nodes;
mod refusal;
mod review;
mod selector;
mod server;

pub(crate) use server::bind;

#[cfg(test)]
mod tests;
