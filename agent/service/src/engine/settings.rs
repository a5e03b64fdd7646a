//! The configuration in force, and the time since the start of the agent.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::time::Instant;

use crate::config::Config;

/// The configuration in force. Clones share it.
#[derive(Clone)]
pub(crate) struct Settings(Arc<ArcSwap<Config>>);

impl Settings {
    pub(super) fn new(config: Config) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(config)))
    }

    pub(crate) fn load(&self) -> Arc<Config> {
        self.0.load_full()
    }

    pub(super) fn store(&self, config: Arc<Config>) {
        self.0.store(config);
    }
}

/// A clock that is 0 at the start of the agent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start of this agent.
    pub(crate) fn since_start(self) -> Duration {
        self.0.elapsed()
    }
}
