//! The Kubernetes kinds that Rackhand reads and writes.
//!
//! This crate owns three things: the names that are agreed with other
//! projects ([`names`]), the types of our own kinds with the CRDs that we ship
//! ([`kinds`], [`crds`]), and lenient read-only views of other projects' kinds
//! ([`views`]).
//!
//! It must never talk to an API server, read a clock or decide anything: what
//! a value *means* for a host is decided in `rackhand-core`, whose types the
//! fields have where both mean the same. A view holds
//! only what is in an object, whichever served version it was read in.

pub mod crds;
pub mod kinds;
pub mod names;
pub mod policies;
mod validation;
pub mod views;

pub use rackhand_core::{values::duration::GoDuration, values::int_or_percent::IntOrPercent};
