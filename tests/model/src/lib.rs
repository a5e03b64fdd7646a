//! A model checker of remediation.
//!
//! Explores every interleaving of a small world around the real, unmodified
//! [`rackhand_core::remediation::step`] and [`Shell`](rackhand_core::remediation::Shell), and the agent's own
//! ledger and queue: one controller, one host with its BMC, one agent, one Node and one pod with a volume;
//! with a budget of faults. Nothing of the decisions is copied here: the model only observes, carries out,
//! and lets things fail. The world [`rack`] has two agents, and their journals on disks that fail.

pub mod checks;
pub mod copy_on_write;
pub mod deep;
pub mod election;
pub mod explore;
pub mod rack;
pub mod remediation;
pub mod replay;
pub mod small;
pub mod time;
