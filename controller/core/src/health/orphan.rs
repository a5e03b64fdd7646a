//! Whether a live check stands behind what was written about one Machine: its `HealthCheckSucceeded`
//! condition, and its remediation request.
//!
//! Owns that question. Must never call a request orphaned while nothing can be known about its check.

use std::fmt;

/// A check, as far as it concerns one Machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckState {
    /// `metadata.uid` of the check.
    pub uid: String,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It is paused by its own annotation.
    pub paused: bool,
    /// Its Cluster exists and is not paused.
    pub cluster_active: bool,
    /// It evaluates and changes nothing.
    pub dry_run: bool,
    /// It selects the Machine, which is not excluded by `cluster.x-k8s.io/skip-remediation`.
    pub selects: bool,
    /// It makes requests of the kind in question.
    pub makes: bool,
}

/// Why a request has lost the check that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Orphan {
    /// The check is deleted.
    CheckDeleted,
    /// The check is paused.
    CheckPaused,
    /// The check does not select the Machine any more.
    NotSelected,
    /// The check makes other requests now, or none.
    OtherTemplate,
}

/// Why a request of a Machine is withdrawn: the check with UID `maker` made it, and `check` is the check
/// of that name now. `covered`: another live check would make the same request. `None`: it is not
/// withdrawn.
///
/// A paused Cluster or Machine freezes everything, so nothing is withdrawn there.
pub fn orphaned(
    maker: &str,
    check: Option<&CheckState>,
    covered: bool,
    machine_paused: bool,
) -> Option<Orphan> {
    if covered || machine_paused {
        return None;
    }
    let Some(check) = check.filter(|check| check.uid == maker && !check.deleting) else {
        return Some(Orphan::CheckDeleted);
    };
    if !check.cluster_active || check.dry_run {
        None
    } else if check.paused {
        Some(Orphan::CheckPaused)
    } else if !check.selects {
        Some(Orphan::NotSelected)
    } else if !check.makes {
        Some(Orphan::OtherTemplate)
    } else {
        None
    }
}

/// Whether a request that does not name the check that made it is withdrawn: none of `checks`, which are
/// all of its namespace, would make it. A check that is paused counts, because it may have made it.
///
/// `frozen`: the Machine or its Cluster is paused, or the Cluster is missing.
pub fn unclaimed(checks: &[CheckState], frozen: bool) -> bool {
    let claims = |check: &CheckState| check.makes && check.selects && !check.deleting;
    !frozen && !checks.iter().any(claims)
}

// === impl CheckState ===

impl CheckState {
    /// It judges the Machine now, and takes back what it wrote.
    pub fn is_live(&self) -> bool {
        !self.deleting && !self.paused && self.cluster_active && !self.dry_run && self.selects
    }
}

// === impl Orphan ===

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CheckDeleted => "is deleted",
            Self::CheckPaused => "is paused",
            Self::NotSelected => "does not select its Machine any more",
            Self::OtherTemplate => "does not make requests of this kind any more",
        })
    }
}
