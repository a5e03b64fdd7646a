//! Whether one watch feeds its view, by the clock of this process.

use kube::runtime::watcher;
use rackhand_core::watches::watch_health::{WatchFailure, WatchHealth};
use tokio::time::Instant;

use crate::store::api::{is_not_served, words};

/// Whether the API server no longer serves the version of the watch.
pub(super) fn is_path_gone(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => is_not_served(error),
        _ => false,
    }
}

/// What the API server, or the connection to it, said as a watch failed.
pub(crate) fn watch_words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        watcher::Error::WatchError(status) if !status.message.is_empty() => status.message.clone(),
        watcher::Error::WatchError(status) => format!("{} {}", status.code, status.reason),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// Whether a right is missing.
pub(crate) fn is_forbidden(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return false;
    };
    status.code == 403
}

/// Classifies the failure of a watch.
fn watch_failure(error: &watcher::Error) -> WatchFailure {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    };
    let is_cut = matches!(
        error,
        watcher::Error::WatchFailed(kube::Error::ReadEvents(_) | kube::Error::HyperError(_))
    );
    if is_cut {
        return WatchFailure::Cut;
    }
    let is_denied = status.is_some_and(|status| matches!(status.code, 401 | 403));
    match is_denied || is_path_gone(error) {
        true => WatchFailure::Refused,
        false => WatchFailure::Interrupted,
    }
}

/// Monitor of one watch: whether it feeds its view, by the clock of this process.
pub(crate) struct WatchMonitor {
    began: Instant,
    health: WatchHealth,
}

impl Default for WatchMonitor {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            health: WatchHealth::default(),
        }
    }
}

impl WatchMonitor {
    pub(crate) fn listed(&mut self) {
        self.health.listed(self.began.elapsed());
    }

    pub(crate) fn progressed(&mut self) {
        self.health.progressed();
    }

    /// Records a failure. Returns whether the watch is lost and must be restarted.
    pub(crate) fn failed(&mut self, error: &watcher::Error) -> bool {
        let failure = watch_failure(error);
        self.health.failed(failure, self.began.elapsed())
    }

    /// Records a failed discovery. Returns whether the watch is lost.
    pub(crate) fn interrupted(&mut self) -> bool {
        let failure = WatchFailure::Interrupted;
        self.health.failed(failure, self.began.elapsed())
    }

    /// Returns whether the view is fed, so that [`Self::settled`] has nothing left to report.
    pub(crate) fn settle(&mut self) -> bool {
        self.health.settle(self.began.elapsed())
    }

    /// Completes once [`Self::settle`] succeeds without an event.
    pub(crate) async fn settled(&self) {
        match self.health.wait(self.began.elapsed()) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }
}
