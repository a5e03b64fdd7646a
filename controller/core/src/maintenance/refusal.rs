//! Checks that would act on a host under maintenance although nothing on it says so.

/// A health check that selects the host, and that another controller evaluates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ForeignCheck {
    /// `Kind namespace/name`, for messages.
    pub name: String,
    /// Whether it is paused as a whole.
    pub paused: bool,
    /// Whether it creates remediations that Rackhand carries out, which wait for each other (F6).
    pub uses_our_template: bool,
    /// Whether Rackhand evaluates it, so that a maintenance counts.
    pub evaluated_by_us: bool,
}

/// The first check that would act on the host. OpenShift's own controller has no mark for one Machine: it deletes the
/// Machine, or has its host cycled, while somebody works on it.
pub fn refused_by_check(checks: &[ForeignCheck]) -> Option<&ForeignCheck> {
    checks
        .iter()
        .find(|check| !(check.paused || check.uses_our_template || check.evaluated_by_us))
}
