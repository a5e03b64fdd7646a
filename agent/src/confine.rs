//! What the daemon forbids itself before it reads a secret.
//!
//! Must never: keep the daemon from starting; where the system says no it is told.

use nix::sys::{
    prctl,
    resource::{Resource, getrlimit, setrlimit},
};
use tracing::warn;

/// More than the limits of the listeners and one connection for each BMC of a rack need.
const DESCRIPTORS: u64 = 65_536;

/// No core dump and no look into our memory by other processes of the same user, because secrets
/// are in it; and as many file descriptors as there may be.
pub(crate) fn confine() {
    let done = prctl::set_dumpable(false)
        .and_then(|()| setrlimit(Resource::RLIMIT_CORE, 0, 0))
        .map_err(|error| ("core dumps cannot be switched off", error));
    let more = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| {
            let wanted = hard.min(DESCRIPTORS).max(soft);
            setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
        })
        .map_err(|error| ("the limit of file descriptors cannot be raised", error));
    for (what, error) in [done, more].into_iter().filter_map(Result::err) {
        warn!(%error, "{what}");
    }
}
