//! Servers for people and monitoring: the admin endpoints, the metrics, `explain` and the status page; the
//! preflight and the rehearsal.

pub(crate) mod admin;
pub(crate) mod authenticated;
mod connections;
pub(crate) mod controller_client;
pub(crate) mod explain;
pub(crate) mod https;
pub(crate) mod page;
pub(crate) mod preflight;
pub(crate) mod rehearse;
