//! Credentials that a BMC or a PDU rejects.
//!
//! Owns: the time of the next attempt. Each attempt counts towards locking the account, so attempts become rare
//! until the credentials are changed in the configuration. Must never: print a secret.

use std::{collections::HashMap, fmt, time::Duration};

use parking_lot::Mutex;
use rackhand_bmc::BmcError;
use tokio::time::Instant;

/// Appended to every rejection, by the device or by this agent. The text never changes, because
/// watchers report changed messages.
const RESTS: &str = "; so as not to lock the account it is tried again only now and then, or when \
                     it is changed";

/// How long credentials are not tried after this many rejections. The second attempt follows within
/// minutes, because a starting BMC rejects every log-in. After that there are at most two in any half
/// hour: accounts are locked after three at the earliest, counted over half an hour at most.
fn patience(times: u32) -> Duration {
    Duration::from_secs(match times {
        0 | 1 => 60,
        _ => 1800,
    })
}

struct Rejected<C> {
    credentials: C,
    times: u32,
    again: Instant,
    /// The error of the device.
    error: BmcError,
}

/// The rejected credentials of each device, by its key.
pub(in crate::engine) struct RejectedCredentials<C>(Mutex<HashMap<String, Rejected<C>>>);

impl<C> Default for RejectedCredentials<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> RejectedCredentials<C> {
    /// Fails while the same credentials were rejected recently, with the time to wait.
    pub(in crate::engine) fn check(
        &self,
        key: &str,
        is_same: impl Fn(&C) -> bool,
    ) -> Result<(), BmcError> {
        let rejected = self.0.lock();
        let now = Instant::now();
        match rejected.get(key) {
            Some(known) if now < known.again && is_same(&known.credentials) => Err(BmcError {
                retry_after: Some(known.again.duration_since(now)),
                maybe_sent: false,
                not_sent: true,
                ..known.error.clone()
            }),
            _ => Ok(()),
        }
    }

    /// Records a rejection. `is_same`: whether the credentials that were rejected before are these.
    pub(in crate::engine) fn add(
        &self,
        key: &str,
        credentials: C,
        is_same: impl Fn(&C, &C) -> bool,
        error: &BmcError,
    ) {
        let mut rejected = self.0.lock();
        let before = rejected.get(key);
        let before = before.filter(|known| is_same(&known.credentials, &credentials));
        let times = before.map_or(0, |known| known.times).saturating_add(1);
        let known = Rejected {
            credentials,
            times,
            again: Instant::now() + patience(times),
            error: error.clone(),
        };
        rejected.insert(key.to_owned(), known);
    }

    /// Records that the device has accepted credentials.
    pub(in crate::engine) fn remove(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

impl<C> fmt::Debug for RejectedCredentials<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedCredentials")
            .finish_non_exhaustive()
    }
}

/// The error of a rejection, which states that the credentials are not tried again at once.
pub(in crate::engine) fn rejection(error: BmcError) -> BmcError {
    BmcError {
        message: format!("{}{RESTS}", error.message),
        retry_after: None,
        ..error
    }
}
