//! Whether the check that wrote a Machine's `HealthCheckSucceeded` condition, or made its remediation
//! remediation, still exists and would do so again.
//!
//! Must never treat a remediation as orphaned while the state of its check is unknown.

use std::fmt;

/// What one Machine needs to know of a check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckState {
    /// `metadata.uid` of the check.
    pub uid: String,
    /// Whether the check has a deletionTimestamp.
    pub deleting: bool,
    /// Whether the check is paused by its own annotation.
    pub paused: bool,
    /// Whether the Cluster of the check exists and is not paused.
    pub cluster_active: bool,
    /// Whether the check only evaluates.
    pub dry_run: bool,
    /// Whether the check selects the Machine, and `cluster.x-k8s.io/skip-remediation` is not set on it.
    pub selects: bool,
    /// Whether the check makes remediations of the kind in question.
    pub makes: bool,
}

/// Why a remediation has lost the check that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Orphan {
    /// The check is deleted.
    CheckDeleted,
    /// The check is paused.
    CheckPaused,
    /// The check no longer selects the Machine.
    NotSelected,
    /// The check makes remediations of another kind now, or none.
    OtherTemplate,
}

/// Why a remediation of a Machine is withdrawn; `None`: it is not. The check with UID `maker` made it, and
/// `check` is the check of that name now. `covered`: another live check would make the same remediation.
///
/// Nothing is withdrawn while the Cluster or the Machine is paused.
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

// === impl CheckState ===

impl CheckState {
    /// Whether the check evaluates the Machine now, and removes what it wrote when that is outdated.
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
            Self::NotSelected => "no longer selects its Machine",
            Self::OtherTemplate => "no longer makes remediations of this kind",
        })
    }
}
