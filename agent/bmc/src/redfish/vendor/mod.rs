//! Vendor-specific behaviour: tables of facts, one file per subject.
//!
//! Owns: message identifiers, names and deviations that no specification defines. Must never: do
//! I/O or decide; no other module of the client contains a vendor's name.

mod chassis;
mod events;
mod logs;
mod messages;
mod sensors;
mod settings;
mod systems;
mod updates;

pub(super) use chassis::{is_board_chassis, is_constant_chassis};
pub(super) use events::{EventFacts, event_meaning};
pub(super) use logs::{LogRank, log_rank};
pub(super) use messages::{
    Meaning, NOT_READY_WAIT, SETTLING_WAIT, is_already, is_bare_denial, meaning,
};
pub(super) use sensors::{Source, role};
pub(super) use settings::{
    boot_words, led_words, refuses_sessions, repeats_boot_mode, wants_any_etag,
};
pub(super) use systems::{is_board, restart_hangs};
pub(super) use updates::{
    folded, is_openbmc, is_scheduled, is_service_at_work, is_update_job, is_update_message,
    job_kind, job_phase, job_queue, queued_phase, service_state, update_queue,
};
