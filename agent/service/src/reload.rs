//! Reloading the configuration, on request and after a change of a file.
//!
//! Must never: apply half of a configuration, or stop because the files are temporarily invalid.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use rackhand_transport::{ServerTls, TlsError};
use tracing::{error, info, warn};

use crate::{
    admin::AdminState,
    config::{Config, ConfigError, Fingerprint},
    engine::{Changes, Engine, NotTaken},
    metrics::{Metrics, Sampled},
};

/// Polling interval of the files. A change is applied after the files were unchanged for this time:
/// an editor or a configuration manager writes a file in several steps.
const LOOK: Duration = Duration::from_secs(2);

/// Time limit for reading the holds for the metrics: a hanging disk must not hide other metrics.
const READ_HOLDS: Duration = Duration::from_secs(1);

/// Reason why a reload was rejected; the previous configuration stays in force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Errors in the files.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A valid configuration that cannot be applied now.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The reading task panicked.
    #[error("reading the configuration: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// State that a reload concerns.
pub(crate) struct Reloader {
    engine: Engine,
    tls: Option<Arc<ServerTls>>,
    metrics: Arc<Metrics>,
    path: PathBuf,
    /// State of the files at the last reload, applied or rejected.
    known: Mutex<Fingerprint>,
    /// Allows one reload at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Reloader {
    pub(crate) fn new(
        engine: Engine,
        tls: Option<Arc<ServerTls>>,
        metrics: Arc<Metrics>,
        path: PathBuf,
        known: Fingerprint,
    ) -> Self {
        Self {
            engine,
            tls,
            metrics,
            path,
            known: Mutex::new(known),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_deref()
    }

    /// Applies the current files, completely or not at all, and logs and counts the result.
    pub(crate) async fn reload(&self) -> Result<Changes, ReloadError> {
        let _turn = self.turn.lock().await;
        let result = self.take().await;
        self.metrics.reload(result.is_ok());
        match &result {
            Ok(changes) => info!(
                hosts = changes.hosts,
                added = changes.added,
                removed = changes.removed,
                "configuration reloaded"
            ),
            Err(error) => error!("configuration not reloaded, the old one stays in force: {error}"),
        }
        result
    }

    async fn take(&self) -> Result<Changes, ReloadError> {
        let (path, tls) = (self.path.clone(), self.tls.clone());
        let read = move || {
            let config = Config::load(&path)?;
            let warnings = config.warnings();
            let tls = tls.map_or(Ok(false), |tls| tls.reload());
            Ok((config, warnings, tls))
        };
        let read: Result<_, ConfigError> = tokio::task::spawn_blocking(read).await?;
        let sources = match &read {
            Ok((config, ..)) => &config.sources,
            // The error may be corrected in a file that is new.
            Err(error) => &error.sources,
        };
        self.known.lock().clone_from(sources);
        let (config, warnings, tls) = read?;
        tls?;
        let changes = self.engine.reload(config)?;
        for warning in warnings {
            warn!("{warning}");
        }
        Ok(changes)
    }

    /// Reloads whenever the files have changed and are stable; runs forever. A rejected state is
    /// not retried until the files change again.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut before = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let known = self.known.lock().clone();
            let look = move || {
                let now = known.now();
                (now != known).then_some(now)
            };
            let changed = tokio::task::spawn_blocking(look).await.ok().flatten();
            if changed.is_some() && changed == before {
                self.reload().await.ok();
                before = None;
            } else {
                before = changed;
            }
        }
    }
}

impl AdminState for Reloader {
    fn not_ready(&self) -> Option<String> {
        self.engine.not_ready()
    }

    fn metrics(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            let holds = tokio::time::timeout(READ_HOLDS, self.engine.holds.by_host_key()).await;
            let holds = holds.ok().and_then(Result::ok).map(|holds| holds.len());
            self.metrics.render(&self.sample(holds))
        })
    }
}

impl Reloader {
    fn sample(&self, holds: Option<usize>) -> Sampled {
        let (running, waiting) = self.engine.load();
        let mut sampled = Sampled {
            hosts: self.engine.settings.load().inventory.hosts.len(),
            watched_hosts: self.engine.host_watches.count(),
            running,
            waiting,
            holds,
            journal: self.engine.journal_status.state(),
            ..Sampled::default()
        };
        if let Some(tls) = &self.tls {
            sampled.certificate_until = tls.not_after().as_second();
            sampled.connections_accepted = tls.counts().accepted();
            let refused = tls.counts().refused();
            sampled.connections_refused = refused.map(|(why, count)| (why.label(), count)).into();
        }
        sampled
    }
}
