//! The world of one remediation: what may happen in it, what the controller does, and the rules that hold.

pub mod actions;
pub mod breakage;
pub(crate) mod controller;
pub(crate) mod fingerprint;
pub mod judge;
pub mod liveness;
pub mod observe;
pub mod setting;
pub mod story;
pub mod world;
