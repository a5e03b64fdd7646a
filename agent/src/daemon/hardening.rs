//! Process hardening before a secret is read.
//!
//! Must never: prevent the start; a rejected setting is reported.

use nix::sys::{
    prctl,
    resource::{Resource, getrlimit, setrlimit},
};

/// Number of file descriptors: more than the limits of the listeners and one connection for each
/// BMC of a rack need.
const DESCRIPTORS: u64 = 65_536;

/// Disables core dumps and access to the memory by other processes of the same user, because it may
/// contain passwords.
///
/// # Errors
///
/// The error of the system call.
pub(crate) fn memory() -> nix::Result<()> {
    prctl::set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
}

/// The same, and raises the limit of file descriptors to the maximum, for an agent with many BMCs. Returns the
/// failed steps.
pub(crate) fn confine() -> Vec<(&'static str, nix::Error)> {
    let done = memory().map_err(|error| ("core dumps cannot be switched off", error));
    let more = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(soft, hard)| {
            let wanted = hard.min(DESCRIPTORS).max(soft);
            setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)
        })
        .map_err(|error| ("the limit of file descriptors cannot be raised", error));
    [done, more].into_iter().filter_map(Result::err).collect()
}
