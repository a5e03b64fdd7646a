//! The daemon, its configuration check, and the hardening of every process that holds credentials.

pub(crate) mod config_check;
pub(crate) mod hardening;
pub(crate) mod serve;
