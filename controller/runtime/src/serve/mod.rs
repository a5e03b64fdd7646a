//! What people and monitoring read: the admin endpoints, the metrics and `explain`.

pub(crate) mod admin;
pub(crate) mod authenticated;
pub(crate) mod explain;
pub(crate) mod https;
