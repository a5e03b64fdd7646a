//! IPMI 2.0 over RMCP+.
//!
//! Owns: sessions with a BMC, and what is asked in them. Must never: believe a packet that does
//! not answer what was asked, send a command twice that is not idempotent, fall below cipher
//! suite 3, or leave a session open.

mod ask;
mod command;
pub mod wire;
