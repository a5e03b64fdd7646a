//! Before anything is switched: what a remediation waits for, and what keeps it from beginning.

mod came_back;
pub(super) mod concurrency;
mod eviction;
mod host_evidence;
mod moved;
mod policies;
pub(super) mod waiting;

use super::{
    simulated::{driver, faults},
    *,
};
