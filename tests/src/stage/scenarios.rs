//! Several scenarios that run at the same time on one stage.
//!
//! A control plane is expensive, and hosts must not affect each other: so scenarios share a stage, each with
//! its own hosts. All failures are reported.

use std::{future::Future, pin::Pin, time::Instant};

use anyhow::{Result, bail};
use futures::future::join_all;

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Scenarios by name.
#[derive(Default)]
pub struct Scenarios<'a> {
    all: Vec<(&'static str, Running<'a>)>,
}

impl<'a> Scenarios<'a> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a scenario; its name states what must hold.
    pub fn add(&mut self, name: &'static str, run: impl Future<Output = Result<()>> + 'a) {
        self.all.push((name, Box::pin(run)));
    }

    /// Runs all scenarios concurrently and prints the result of each.
    ///
    /// # Errors
    /// Scenarios have failed; the message names each with its cause.
    pub async fn run(self) -> Result<()> {
        let begun = Instant::now();
        let running = self.all.into_iter().map(|(name, run)| async move {
            let outcome = run.await;
            let word = if outcome.is_ok() { "ok" } else { "FAILED" };
            println!("    {name} ... {word} ({:.1?})", begun.elapsed());
            outcome.map_err(|error| format!("{name}: {error:#}"))
        });
        let outcomes: Vec<Result<(), String>> = join_all(running).await;
        let failed: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
        if !failed.is_empty() {
            bail!("{} failed:\n{}", failed.len(), failed.join("\n"));
        }
        Ok(())
    }
}
