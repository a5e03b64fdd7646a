//! What is taken and what is refused of a MachineHealthCheck, by three judges on a real API server: the
//! CRD that we ship, our own webhook, and Cluster API's. All of them must say the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

#[path = "webhook/cases.rs"]
mod cases;
#[path = "webhook/judges.rs"]
mod judges;
#[path = "webhook/kept_up.rs"]
mod kept_up;
#[path = "webhook/ours.rs"]
mod ours;
#[path = "webhook/theirs.rs"]
mod theirs;
#[path = "webhook/world.rs"]
mod world;
