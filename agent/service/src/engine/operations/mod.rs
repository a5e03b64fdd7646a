//! Operations: start, run, recovery after a restart, and what a power command waits for.

mod begin;
pub(super) mod handle;
pub(super) mod power_on_stagger;
mod recover;
mod runner;
pub(super) mod shared_outlets;
