//! Several things that must hold, shown at the same time on one stage.
//!
//! A control plane is dear, and what one host does must not touch another: so scenarios share a
//! stage, each with hosts of its own. Must never let one that failed hide another.

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
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; its name is a sentence.
    pub fn add(&mut self, name: &'static str, run: impl Future<Output = Result<()>> + 'a) {
        self.all.push((name, Box::pin(run)));
    }

    /// Runs all of them together and prints how each went.
    ///
    /// # Errors
    /// Names every one that failed, and why.
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
