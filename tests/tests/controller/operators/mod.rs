//! What operators read and run: pages, commands, the status page, metrics, messages about invalid input.

mod alerts;
mod demo;
mod docs;
mod input;
mod observability;
mod page;
pub(crate) mod preflight;
mod rehearse;
