//! Rackhand with real hosts: kernel, containerd and kubelet in QEMU, behind BMCs of other projects.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

mod alone;
mod habits;
mod hung;
mod power_lost;
mod refused;
mod scene;
