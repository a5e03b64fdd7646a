//! Who may command: terms of leaders, holds on hosts, and leases of calling processes.

pub(super) mod callers;
pub(super) mod holds;
pub(super) mod terms;
