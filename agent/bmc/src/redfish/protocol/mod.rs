//! The Redfish protocol, whatever it is used for: requests, sessions, trust, documents and errors.
//!
//! Owns: everything between a link and its document or refusal. Must never: know what a document is read for, or
//! send a command twice.

pub(crate) mod auth;
mod basic_use;
pub(crate) mod call_budget;
mod credentials;
pub(crate) mod document;
#[cfg(test)]
pub(super) mod document_tests;
pub(crate) mod errors;
pub(super) mod extended_info;
pub(crate) mod http;
mod refused_resources;
pub(super) mod reporter;
pub(crate) mod response;
mod session;
pub(crate) mod task;
mod tls;
pub(super) mod trust;
