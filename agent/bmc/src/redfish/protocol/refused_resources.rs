//! Resources whose reading has failed, and when.
//!
//! A 401 means that the session has ended, or that the BMC refuses this resource whatever the session is; another failure
//! over a connection that was used before means that connection, or the resource. Must never: grow without bound, or keep a
//! resource from being read.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// For how long no further login is made for one resource while the session works for others, and a failure is not tried
/// again over a new connection.
const RECENT: Duration = Duration::from_secs(60);
/// Resources that are remembered; a BMC refuses few.
const MOST: usize = 32;

/// The resources for which the client has logged in again, or has asked over a new connection in vain, each with the time.
#[derive(Debug, Default)]
pub(super) struct RefusedResources(Mutex<Vec<(String, Instant)>>);

impl RefusedResources {
    /// Whether the client has done so for this path within a minute.
    pub(super) fn is_recent(&self, path: &str) -> bool {
        let now = Instant::now();
        let refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_path = refused.iter().filter(|(known, _)| known == path);
        of_path.any(|(_, at)| now.saturating_duration_since(*at) < RECENT)
    }

    /// Records that the client does so for this path.
    pub(super) fn add(&self, path: &str) {
        let now = Instant::now();
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|(known, at)| known != path && now.saturating_duration_since(*at) < RECENT);
        if refused.len() >= MOST {
            refused.remove(0);
        }
        refused.push((path.to_owned(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_path_is_recent_for_a_minute_and_the_list_is_bounded() {
        let refused = RefusedResources::default();
        refused.add("/a");
        assert!(refused.is_recent("/a") && !refused.is_recent("/b"));
        for number in 0..200 {
            refused.add(&format!("/{number}"));
        }
        assert!(!refused.is_recent("/a"), "the oldest is dropped");
        assert_eq!(refused.0.lock().unwrap().len(), MOST);
        tokio::time::advance(RECENT).await;
        assert!(!refused.is_recent("/199"));
    }
}
