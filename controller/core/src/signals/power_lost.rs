//! `rackhand.dev/PowerLost`: a host that was on is off, nobody has switched it, and its Node is silent.

use std::fmt;

use jiff::Timestamp;

use super::{
    ConditionStatus::{self, False, True, Unknown},
    ObservedLease, OtherLeases, PowerReadings, Published, SharedLoss, SignalCondition, bounded,
    span,
};

/// Reason of a host that is on again.
const POWER_ON: &str = "PowerOn";

/// Why a host that is off has not failed, or may be in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NotAFailure {
    /// Rackhand or an operator at the agent switches it: a remediation, a hold, an operation.
    Switched(String),
    /// Its kubelet reported that the Node is shutting down.
    ShutDown,
    /// The Node is cordoned.
    Cordoned,
    /// `spec.online` of the BareMetalHost is false, or its owner services or deprovisions it.
    OwnerWantsOff(String),
    /// Its locator LED is lit.
    LocatorLit,
}

impl NotAFailure {
    /// The reason of the condition.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Switched(_) => "SwitchedByRackhand",
            Self::ShutDown => "ShutDownInOrder",
            Self::Cordoned => "NodeCordoned",
            Self::OwnerWantsOff(_) => "OwnerWantsOff",
            Self::LocatorLit => "LocatorLit",
        }
    }
}

impl fmt::Display for NotAFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switched(what) => write!(f, "{} switches it", bounded(what)),
            Self::ShutDown => write!(f, "its operating system was shut down in order"),
            Self::Cordoned => write!(f, "its Node is cordoned"),
            Self::OwnerWantsOff(what) => write!(f, "its owner wants it off ({})", bounded(what)),
            Self::LocatorLit => write!(f, "its locator LED is lit"),
        }
    }
}

/// What is known of a host at the time of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PowerLostFacts<'a> {
    /// The host, as `rack/host`.
    pub host: &'a str,
    /// The Lease of its Node; `None` if it has none, or that could not be read.
    pub lease: Option<&'a ObservedLease>,
    /// The Leases of the other Nodes of its cluster.
    pub others: OtherLeases,
    /// Why it is no failure, if anything says so.
    pub not_a_failure: Option<NotAFailure>,
    /// Whether others of its rack have lost their power with it.
    pub shared: SharedLoss,
    /// What the Node shows.
    pub published: Option<Published<'a>>,
}

/// A host whose loss of power is watched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PowerLoss {
    /// What its BMC reported.
    pub readings: PowerReadings,
    /// renewTime of the Lease when the loss was recognised, or first seen by this process.
    lease_at_loss: Option<String>,
}

impl PowerLoss {
    /// The condition to publish; `None` leaves what is published.
    ///
    /// The status True stays while power is off, whatever else is read, until the BMC reports on or the Lease is
    /// renewed: the remediation that it has caused switches the host itself.
    pub fn decide(&mut self, facts: &PowerLostFacts<'_>) -> Option<SignalCondition> {
        let host = facts.host;
        if self.readings.is_on() {
            self.lease_at_loss = None;
            let message = format!("the BMC of host {host} reports power on");
            // Also what withheld the signal while the host was off is over.
            let is_over = facts
                .published
                .is_some_and(|shown| shown.reason != POWER_ON);
            return is_over.then(|| SignalCondition::new(False, POWER_ON, message));
        }
        if facts.published.is_some_and(|shown| shown.status == True) {
            return self.renewed_again(facts);
        }
        self.lease_at_loss = None;
        // Only a host that was on has lost its power.
        let loss = self.readings.loss()?;
        if let Some(why) = &facts.not_a_failure {
            // A remediation says itself what it does.
            let is_ours = matches!(why, NotAFailure::Switched(_));
            let message = format!(
                "host {host} is off and is not said to have lost its power: {why}; if nobody works on it, see to its \
                 power supply"
            );
            let is_said = is_published(facts) || !is_ours;
            return is_said.then(|| SignalCondition::new(False, why.label(), message));
        }
        if !loss.is_read_twice() {
            return None;
        }
        let Some(lease) = facts.lease else {
            let message = format!(
                "host {host} is off, and the Lease of its Node cannot be read; see that the Node has a Lease in \
                 kube-node-lease and that Rackhand may read it; the health check by Ready decides"
            );
            return Some(SignalCondition::new(Unknown, "LeaseUnknown", message));
        };
        if lease.is_renewed_after(loss.latest_off) {
            let message = format!(
                "the BMC of host {host} reports off, and the Lease of its Node is renewed: the host runs; see that the \
                 address of the BMC is that of this host (rackhand-agent host check)"
            );
            return Some(SignalCondition::new(False, "LeaseRenewed", message));
        }
        if !lease.is_silent_at(loss.latest_off) {
            return None;
        }
        self.recognised(facts, lease, loss.on, loss.first_off, loss.latest_off)
    }

    /// Whether the Node and its Lease are read live before it is decided, which may say that the host has lost its power
    /// (F12). Nothing of the kind is said of a host that we switch. `switched`: who of ours does.
    #[must_use]
    pub fn needs_node(
        &self,
        published: Option<ConditionStatus>,
        switched: Option<&NotAFailure>,
    ) -> bool {
        let is_read_twice = self
            .readings
            .loss()
            .is_some_and(|loss| loss.is_read_twice());
        is_read_twice && published != Some(True) && switched.is_none()
    }

    /// From when on the Lease of a host whose power is off counts as silent; its BMC is read then.
    #[must_use]
    pub fn read_from(&self, lease: &ObservedLease) -> Option<Timestamp> {
        self.readings.loss().map(|_| lease.silent_from())
    }

    fn recognised(
        &mut self,
        facts: &PowerLostFacts<'_>,
        lease: &ObservedLease,
        on: Timestamp,
        first_off: Timestamp,
        latest_off: Timestamp,
    ) -> Option<SignalCondition> {
        let host = facts.host;
        let OtherLeases { expected, renewed } = facts.others;
        if expected == 0 {
            let message = format!(
                "host {host} is off, and no other Node of its cluster renews a Lease, so that nothing shows whether \
                 the API server works; the health check by Ready decides"
            );
            return Some(SignalCondition::new(Unknown, "NoOtherNode", message));
        }
        if !facts.others.are_renewed() {
            let message = format!(
                "host {host} is off, and only {renewed} of {expected} other Nodes have renewed their Leases since its \
                 Node did: the API server, or the network to it, may be ill; the health check by Ready decides"
            );
            return Some(SignalCondition::new(Unknown, "LeasesNotRenewed", message));
        }
        match &facts.shared {
            SharedLoss::Settling(_) => return None,
            SharedLoss::Cause(cause, _) => {
                let message = format!(
                    "host {host} has lost its power with others: {}; see to the power of the rack",
                    bounded(cause)
                );
                return Some(SignalCondition::new(Unknown, "SharedCause", message));
            }
            SharedLoss::Alone => {}
        }
        self.lease_at_loss = Some(lease.facts.renewed.clone());
        let message = format!(
            "host {host} has lost its power: its BMC reported on {} before it reported exactly off, twice and without \
             an interruption, for {}; the Lease of its Node is {} old, while {renewed} of {expected} other Nodes renewed \
             theirs; see to its power supply",
            span(on, first_off),
            span(first_off, latest_off),
            span(lease.facts.unchanged_since, latest_off),
        );
        Some(SignalCondition::new(True, "PowerOff", message))
    }

    /// Ends the status True of a Node that is back.
    fn renewed_again(&mut self, facts: &PowerLostFacts<'_>) -> Option<SignalCondition> {
        let lease = &facts.lease?.facts;
        let at_loss = self
            .lease_at_loss
            .get_or_insert_with(|| lease.renewed.clone());
        if *at_loss == lease.renewed {
            return None;
        }
        self.lease_at_loss = None;
        let message = format!(
            "the Lease of the Node of host {} is renewed again",
            facts.host
        );
        Some(SignalCondition::new(False, "LeaseRenewed", message))
    }
}

fn is_published(facts: &PowerLostFacts<'_>) -> bool {
    facts.published.is_some_and(|shown| shown.status != False)
}
