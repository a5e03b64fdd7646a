//! Who may work on a Node: the Lease that medik8s' operators share (docs/reference/medik8s.md, Remediation of one Node).
//!
//! Must never take it from somebody who still holds it.

use std::time::Duration;

use jiff::Timestamp;

use crate::health::deadline;

/// A Lease as it was read.
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

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseStep {
    /// Create the Lease.
    Create,
    /// It is ours: renew it.
    Renew,
    /// Take it over, with so many transitions.
    Take {
        /// `spec.leaseTransitions`.
        transitions: i32,
    },
    /// Somebody else works on the Node.
    Taken {
        /// Identity of the holder.
        holder: String,
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

    /// When it has to be looked at again: to be renewed where it is held by `me` for `lasts`, taken over
    /// where its holder's time is over. `None`: now. A time in the future counts for nothing.
    pub(super) fn due(&self, me: &str, lasts: Duration, now: Timestamp) -> Option<Timestamp> {
        let renewed = self.renewed.filter(|at| *at <= now)?;
        let due = if self.is_held_by(me) {
            deadline(renewed, self.duration.min(lasts) / 2)
        } else if let LeaseStep::Taken { .. } = lease_step(Some(self), me, now) {
            // Its last moment counts.
            deadline(renewed, self.duration + Duration::from_millis(1))
        } else {
            return None;
        };
        (now < due).then_some(due)
    }
}

/// Decides. A Lease whose renewal lies in the future says nothing.
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
    let holds = |renewed: Timestamp| renewed <= now && now <= deadline(renewed, lease.duration);
    if lease.renewed.is_some_and(holds) {
        return LeaseStep::Taken {
            holder: holder.to_owned(),
        };
    }
    LeaseStep::Take {
        transitions: lease.transitions.saturating_add(1),
    }
}
