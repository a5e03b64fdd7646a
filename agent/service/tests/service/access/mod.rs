//! Who may do what.

mod audit;
pub(crate) mod authority;
mod callers;
mod endpoints;
mod holds;
mod listeners;
