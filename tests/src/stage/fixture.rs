//! One stage for several tests of a program.
//!
//! A control plane is expensive, and hosts must not affect each other: so tests share a stage, each with its
//! own hosts. The first test starts it, and the last running test stops it; they should run in parallel (as
//! in `hack/test`).

use std::{
    path::Path,
    sync::{Arc, Weak},
};

use anyhow::{Result, bail, ensure};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::Stage;

/// A stage with further state that the tests of a module share.
pub trait Fixture: Send + Sync + Sized + 'static {
    /// Starts the fixture in its own directory.
    ///
    /// # Errors
    /// A part does not start.
    fn start(dir: &Path) -> impl Future<Output = Result<Self>>;

    /// The stage of the fixture.
    fn stage(&self) -> &Stage;
}

/// A fixture that several tests share.
pub struct SharedFixture<F: Fixture>(Mutex<State<F>>);

enum State<F: Fixture> {
    /// The fixture runs as long as a test uses it.
    Used(Weak<Running<F>>),
    /// The fixture did not start, with the cause, so that further tests fail at once.
    Failed(String),
}

impl<F: Fixture> SharedFixture<F> {
    /// A fixture that has not started.
    #[must_use]
    #[allow(clippy::new_without_default)] // It is for statics.
    pub const fn new() -> Self {
        Self(Mutex::new(State::Used(Weak::new())))
    }

    /// Runs one test, and checks that no pod has run twice.
    ///
    /// # Errors
    /// The fixture does not start, or the test fails; the error contains a report of the stage.
    pub fn test(&self, scenario: impl AsyncFnOnce(&F) -> Result<()>) -> Result<()> {
        let running = self.running()?;
        running.runtime.block_on(running.run(scenario))
    }

    fn running(&self) -> Result<Arc<Running<F>>> {
        let mut state = self.0.lock();
        match &*state {
            State::Used(running) => {
                if let Some(running) = running.upgrade() {
                    return Ok(running);
                }
            }
            State::Failed(why) => bail!("the fixture did not start: {why}"),
        }
        match Running::start() {
            Ok(running) => {
                let running = Arc::new(running);
                *state = State::Used(Arc::downgrade(&running));
                Ok(running)
            }
            Err(error) => {
                *state = State::Failed(format!("{error:#}"));
                Err(error)
            }
        }
    }
}

/// Declares tests that share a fixture, each with its name and scenario.
#[macro_export]
macro_rules! fixture_tests {
    ($fixture:ident; $($name:ident => $scenario:path,)+) => {
        $(
            #[test]
            fn $name() {
                if let Err(error) = $fixture.test($scenario) {
                    panic!("{error:#}");
                }
            }
        )+
    };
}

struct Running<F: Fixture> {
    // Dropped in this order, because the tasks of the fixture end with the runtime.
    fixture: F,
    runtime: Runtime,
    _dir: TempDir,
}

impl<F: Fixture> Running<F> {
    fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let fixture = runtime.block_on(F::start(dir.path()))?;
        Ok(Self {
            fixture,
            runtime,
            _dir: dir,
        })
    }

    async fn run(&self, scenario: impl AsyncFnOnce(&F) -> Result<()>) -> Result<()> {
        let stage = self.fixture.stage();
        let outcome = scenario(&self.fixture).await.and_then(|()| {
            let twice = stage.ran_twice();
            ensure!(twice.is_empty(), "ran twice: {twice:?}");
            Ok(())
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => bail!("{error:#}\n{}", stage.report().await),
        }
    }
}
