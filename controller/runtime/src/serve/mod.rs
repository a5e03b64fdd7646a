//! What the controller serves to people and monitoring: the admin endpoints, the metrics, `explain` and the status page.

pub(crate) mod admin;
pub(crate) mod authenticated;
mod connections;
pub(crate) mod explain;
pub(crate) mod https;
pub(crate) mod page;
