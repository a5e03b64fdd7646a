//! A model checker of remediation.
//!
//! Explores every interleaving of a small world around the real, unmodified
//! [`rackhand_core::remediation::step`] and [`Shell`](rackhand_core::remediation::Shell), and the agent's own
//! ledger and queue: one controller, one host with its BMC, one agent, one Node and one pod with a volume;
//! with a budget of faults. Nothing of the decisions is copied here: the model only observes, carries out,
//! and lets things fail. The world [`rack`] has two agents, and their journals on disks that fail.

pub mod actions;
pub mod agent;
pub mod breakage;
pub mod causes;
pub mod checks;
mod controller;
pub mod copies;
pub mod copy_on_write;
pub mod deep;
pub mod election;
pub mod evictions;
pub mod explore;
mod fingerprint;
pub mod judge;
pub mod lists;
pub mod liveness;
pub mod maintenance;
pub mod observe;
pub mod operation;
pub mod other_host;
pub mod outlets;
pub mod owner;
pub mod policies;
pub mod rack;
pub mod replay;
pub mod restore;
pub mod setting;
pub mod signals;
pub mod small;
pub mod story;
pub mod time;
pub mod triggers;
pub mod world;
