//! The Lease of a Node, by which medik8s' operators exclude each other (docs/reference/medik8s.md,
//! Remediation of one Node).
//!
//! Must never take an unexpired Lease from another holder.

use std::time::Duration;

use jiff::Timestamp;

use crate::checks::machines::deadline;

/// The fields of a Lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldLease {
    /// `spec.holderIdentity`.
    pub holder: Option<String>,
    /// `spec.acquireTime`.
    pub acquired: Option<Timestamp>,
    /// `spec.renewTime`.
    pub renewed: Option<Timestamp>,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
    /// `spec.leaseTransitions`.
    pub transitions: i32,
}

/// How to acquire or renew a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseStep {
    /// Create the Lease.
    Create,
    /// Renew the Lease, which this check holds.
    Renew,
    /// Take the Lease over.
    Take {
        /// The new `spec.leaseTransitions`.
        transitions: i32,
    },
    /// Another holder works on the Node.
    Taken {
        /// Identity of the holder.
        holder: String,
        /// When the Lease expires, if the holder does not renew it.
        until: Timestamp,
    },
}

/// The holder identity of a check.
pub fn lease_holder(check: &str) -> String {
    format!("NodeHealthCheck-{check}")
}

// === impl HeldLease ===

impl HeldLease {
    pub(super) fn is_held_by(&self, who: &str) -> bool {
        self.holder.as_deref() == Some(who)
    }

    /// When the Lease has to be renewed, if `me` holds it for `lasts`, or expires, if another holder has
    /// it. `None`: now. A renewal in the future is ignored.
    pub(super) fn due(&self, me: &str, lasts: Duration, now: Timestamp) -> Option<Timestamp> {
        let renewed = self.renewed.filter(|at| *at <= now)?;
        let due = if self.is_held_by(me) {
            deadline(renewed, self.duration.min(lasts) / 2)
        } else if let LeaseStep::Taken { .. } = lease_step(Some(self), me, now) {
            // The Lease is still held in its last moment.
            deadline(renewed, self.duration + Duration::from_millis(1))
        } else {
            return None;
        };
        (now < due).then_some(due)
    }
}

/// Decides how to acquire or renew a Lease. A renewal in the future is ignored.
pub fn lease_step(lease: Option<&HeldLease>, me: &str, now: Timestamp) -> LeaseStep {
    let Some(lease) = lease else {
        return LeaseStep::Create;
    };
    let Some(holder) = lease.holder.as_deref().filter(|holder| !holder.is_empty()) else {
        return LeaseStep::Take {
            transitions: lease.transitions,
        };
    };
    if holder == me {
        return LeaseStep::Renew;
    }
    let renewed = lease.renewed.filter(|renewed| *renewed <= now);
    if let Some(until) = renewed
        .map(|renewed| deadline(renewed, lease.duration))
        .filter(|until| now <= *until)
    {
        return LeaseStep::Taken {
            holder: holder.to_owned(),
            until,
        };
    }
    LeaseStep::Take {
        transitions: lease.transitions.saturating_add(1),
    }
}
