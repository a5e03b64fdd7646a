//! Who may work on a Node: the Lease that medik8s' operators share (nodehealthcheck.md 1.8).
//!
//! Must never take it from somebody who still holds it.

use std::time::Duration;

use jiff::Timestamp;

use super::class::later;

/// A Lease as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldLease {
    /// `spec.holderIdentity`.
    pub holder: Option<String>,
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
    /// Make it.
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
        /// Who.
        holder: String,
    },
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
    let holds = |renewed: Timestamp| renewed <= now && now <= later(renewed, lease.duration);
    if lease.renewed.is_some_and(holds) {
        return LeaseStep::Taken {
            holder: holder.to_owned(),
        };
    }
    LeaseStep::Take {
        transitions: lease.transitions.saturating_add(1),
    }
}
