//! From the drain to the end: boots, failed attempts, withdrawals and what is removed.

mod aborting;
mod booting;
mod exits;
pub(super) mod failures;
mod handover;
mod orphan;
mod outdated;
mod pods;
mod strategies;
mod withdrawn;

use super::{
    beginning::waiting,
    simulated::{driver, faults, world},
    *,
};
