//! The changes with an id that run, and the latest results.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;

use super::{Change, ChangeResult, changer::other_operation};
use crate::engine::Target;

/// Number of results that are kept for callers who lost the answer; the journal has the rest.
const REMEMBERED: usize = 256;

/// The changes with an id that run, and the latest results.
#[derive(Debug, Default)]
pub(super) struct KnownChanges {
    changes: Mutex<VecDeque<KnownChange>>,
}

#[derive(Debug)]
struct KnownChange {
    id: String,
    action: &'static str,
    key: String,
    host: String,
    result: watch::Receiver<Option<ChangeResult>>,
}

/// Sender for the result of a new change, or receiver for the result of a known one.
pub(super) enum Asked {
    First(watch::Sender<Option<ChangeResult>>),
    Again(watch::Receiver<Option<ChangeResult>>),
}

impl KnownChanges {
    /// # Errors
    ///
    /// The id belongs to another change.
    pub(super) fn ask(&self, id: &str, target: &Target, change: &Change) -> Result<Asked, Status> {
        let mut changes = self.changes.lock();
        if let Some(known) = changes.iter().find(|known| known.id == id) {
            if known.action == change.action && known.key == target.key {
                return Ok(Asked::Again(known.result.clone()));
            }
            return Err(other_operation(id, known.action, &known.host));
        }
        let (sender, result) = watch::channel(None);
        changes.push_back(KnownChange {
            id: id.to_owned(),
            action: change.action,
            key: target.key.clone(),
            host: target.host.clone(),
            result,
        });
        if changes.len() > REMEMBERED {
            let oldest = changes
                .iter()
                .position(|known| known.result.borrow().is_some());
            oldest.and_then(|oldest| changes.remove(oldest));
        }
        Ok(Asked::First(sender))
    }

    /// Forgets a change that was not made, so that it may be requested again.
    pub(super) fn forget(&self, id: &str) {
        self.changes.lock().retain(|known| known.id != id);
    }
}
