//! Every decision of the controller, as pure functions of plain data and an explicit `now`.
//!
//! Must never read a clock, do I/O, or use a client; no function here is `async`. docs/decisions/core-layers.md has the
//! table of its layers.

pub mod checks;
pub mod explanation;
pub mod fleet;
pub mod hosts;
pub mod lease;
pub mod limits;
pub mod maintenance;
pub mod overview;
pub mod preflight;
pub mod rehearsal;
pub mod remediation;
pub mod signals;
pub mod triggers;
pub mod values;
pub mod watches;
