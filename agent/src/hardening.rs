//! What the program forbids itself before it reads a secret.
//!
//! Must never: keep it from starting; where the system says no it is told.

use nix::sys::{
    prctl,
    resource::{Resource, getrlimit, setrlimit},
};
use tracing::warn;

/// More than the limits of the listeners and one connection for each BMC of a rack need.
const DESCRIPTORS: u64 = 65_536;

/// No core dump and no look into our memory by other processes of the same user, because passwords
/// may be in it, whatever the command is.
///
/// # Errors
/// Those of the system.
pub(crate) fn memory() -> nix::Result<()> {
    prctl::set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}

/// The same, and as many file descriptors as there may be: for an agent with many BMCs.
pub(crate) fn confine() {
    let done = memory().map_err(|error| ("core dumps cannot be switched off", error));
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
