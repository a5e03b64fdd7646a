//! Whole runs in a simulated world with faults, and the driver in place of the engine.

mod agents;
mod bmc;
mod crash;
pub(super) mod driver;
pub(super) mod faults;
mod interleavings;
mod invariants;
mod observe;
mod random_runs;
mod slow_records;
pub(super) mod world;

use super::*;
