//! Power operations.

mod actions;
mod evidence;
mod firmware_updates;
mod interruptions;
mod lifecycle;
mod off_proof;
mod power_button;
mod power_on_stagger;
mod systems;
