//! Every decision of the controller, as pure functions of plain data and an explicit `now`.
//!
//! Owns: which machine is unhealthy and what a check does about it ([`health`]; of Nodes alone
//! [`nodes`]), the next step of a
//! remediation ([`remediation`]), the explanation of both ([`explanation`]), the overview of all
//! ([`overview`]), which host a machine is ([`hosts`]), whether two names are one machine
//! ([`identity`]), who leads ([`lease`]), whether a watch is behind ([`freshness`]) and when unhealthy
//! machines are handed over ([`handover`]), whose turn it is and what is under way ([`dispatch`]). Must never: read a clock, do I/O, or know
//! a client; no function here is `async`.

pub mod dispatch;
pub mod explanation;
pub mod freshness;
pub mod handover;
pub mod health;
pub mod hosts;
pub mod identity;
pub mod lease;
pub mod nodes;
pub mod overview;
pub mod remediation;
