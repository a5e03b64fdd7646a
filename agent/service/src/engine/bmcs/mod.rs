//! The BMCs: their clients, the queue of each, and everything that reads them outside of an operation.

pub(super) mod bmc_queue;
pub(super) mod clients;
pub(super) mod locate;
mod probe;
pub(super) mod reads;
pub(super) mod report;
