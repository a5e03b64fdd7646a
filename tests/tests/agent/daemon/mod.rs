//! The rack agent as a process under adverse conditions: killed during operations, unauthorized
//! connections, a thousand hosts, and a search for secrets in its output.

mod callers;
mod clocks;
mod crashes;
mod crowds;
mod secrets;
pub mod site;
mod users;
