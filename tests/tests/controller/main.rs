//! The controller on real control planes, with agents and simulated racks around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod campaign;
mod checks;
mod clusters;
mod coexistence;
mod hosts;
mod install;
mod operators;
mod planned_work;
mod remediation;

use anyhow::Result;
use rackhand_tests::stage::{Stage, StageConfig};
use tempfile::TempDir;

/// Starts a stage in a directory of its own and prepares it for a test.
async fn prepared<T>(
    config: StageConfig,
    prepare: impl AsyncFnOnce(&Stage) -> Result<T>,
) -> (TempDir, Stage, T) {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    match prepare(&stage).await {
        Ok(done) => (dir, stage, done),
        Err(error) => panic!("{error:#}\n{}", stage.report().await),
    }
}
