//! The power of the host: off and on, by its BMC or by its outlets, and the operations at the agents.

mod firmware;
pub(super) mod off;
mod on;
pub(super) mod operations;
mod outlets;
mod soft_off;
