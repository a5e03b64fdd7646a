//! Resources other than power.

mod boot;
mod cost;
mod discovery;
mod facts;
mod led;
mod log;
mod manager;
mod sensors;
