//! The world `rack`: two agents of one rack with the agent's own ledger and queue, one host with its BMC,
//! controllers that take over from each other, and an operator at the command line.
//!
//! Nothing of the agent's decisions is copied here: the model delivers calls, writes the changes of the
//! decisions, and lets things fail.

pub mod actions;
pub mod agent;
pub mod breakage;
mod calls;
pub mod check;
mod fingerprint;
pub mod leader;
mod operations;
pub mod operator;
mod restart;
pub mod story;
pub mod world;
