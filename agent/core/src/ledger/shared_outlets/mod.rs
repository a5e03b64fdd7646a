//! Outlets that feed several hosts, such as the chassis of sleds.
//!
//! Owns: whether such outlets may be switched off, and the holds on their other hosts from before that until
//! they are switched on again. Must never: let a host lose its power unless it is off, or an operator has named
//! it; take no reading, or a failed one, for off.

use std::fmt;

use super::{Action, Change, Hold, Host, HostHolds, Records, holds};
use crate::host_key::HostKeys;

/// Another host that the outlets of a host feed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sibling {
    /// Host key: endpoint and system of its BMC.
    pub key: String,
    /// Name of the host.
    pub host: String,
    /// All addresses under which it is known.
    pub at: Host,
    /// Whether an operator has named it: it may lose its power although it is not off.
    pub named: bool,
}

/// What the BMC of a sibling reported immediately before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SiblingPower {
    /// Exactly off, of the system that the inventory names.
    Off,
    /// Anything else, in words.
    NotOff(String),
    /// It could not be read, for this cause.
    Unread(String),
}

/// Why shared outlets are not switched off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SharedOutletsRefused {
    /// Another owner holds a sibling.
    Held {
        /// Name of the host that was to be switched.
        host: String,
        /// The hold on the sibling.
        hold: Box<Hold>,
    },
    /// An operation runs on a sibling.
    Busy {
        /// Name of the host that was to be switched.
        host: String,
        /// Name of the sibling.
        sibling: String,
        /// Action of its operation.
        action: String,
        /// Id of its operation.
        operation: String,
    },
    /// Siblings are not proven off.
    NotOff {
        /// Name of the host that was to be switched.
        host: String,
        /// Names of the siblings, and what was read of each.
        siblings: Vec<(String, SiblingPower)>,
    },
}

/// A request to reserve the siblings of a host before its outlets are switched off.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reservation {
    /// Id of the operation that switches the outlets.
    pub operation: String,
    /// All siblings of its host.
    pub siblings: Vec<Sibling>,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// The keys of the new holds, or the reason of a rejection.
pub type Reserved = Result<Vec<String>, SharedOutletsRefused>;

/// The decision about a reservation, with the changes.
pub type ReservationDecision<R> = (Reserved, Vec<Change<R>>);

impl Reservation {
    /// Takes a hold on each sibling, so that none of them is switched on from now on, if no other owner holds
    /// one and no operation runs on one. The owner of the operation gets the holds. With force, the hold of
    /// another owner stays as it is.
    ///
    /// # Errors
    ///
    /// The stored records cannot be read.
    pub fn decide<V: Records>(
        &self,
        records: &V,
    ) -> Result<ReservationDecision<V::Report>, V::Error> {
        let refused = |refused| Ok((Err(refused), Vec::new()));
        let Some(operation) = records.operation(&self.operation)? else {
            return Ok((Ok(Vec::new()), Vec::new()));
        };
        let holds = records.holds()?;
        let mut added = Vec::new();
        let mut changes = Vec::new();
        for sibling in &self.siblings {
            let on_sibling = HostHolds::new(holds.clone(), &sibling.at).on_host;
            // A hold because of the same outlets, such as one of an operator who has switched them off, is no
            // obstacle.
            let foreign = on_sibling.iter().find(|(_, hold)| {
                hold.owner != operation.owner && hold.outlets_of != operation.key
            });
            if let Some((_, hold)) = foreign {
                if operation.force {
                    continue;
                }
                return refused(SharedOutletsRefused::Held {
                    host: operation.host,
                    hold: Box::new(hold.clone()),
                });
            }
            if !on_sibling.is_empty() {
                continue;
            }
            let hold = Hold {
                host: sibling.host.clone(),
                owner: operation.owner.clone(),
                by: operation.by.clone(),
                since: self.now,
                election: operation.election.clone(),
                outlets_of: operation.key.clone(),
                outlets_host: operation.host.clone(),
                ..Hold::default()
            };
            added.push(sibling.key.clone());
            changes.extend(holds::replace(&[], &sibling.key, &sibling.at, hold));
        }
        for id in records.running()? {
            let Some(other) = records.operation(&id)? else {
                continue;
            };
            // A named sibling may lose its power, so one that is being switched off is no obstacle.
            let goes_off = [Action::Off { hold: false }, Action::SoftOff]
                .iter()
                .any(|action| action.word() == other.action);
            let concerns = |sibling: &&Sibling| {
                sibling.at.keys.mean(&other.key) && !(sibling.named && goes_off)
            };
            if let Some(sibling) = self.siblings.iter().find(concerns) {
                return refused(SharedOutletsRefused::Busy {
                    host: operation.host,
                    sibling: sibling.host.clone(),
                    action: other.action,
                    operation: other.id,
                });
            }
        }
        Ok((Ok(added), changes))
    }
}

/// Whether an accepted power-off explains the silence of a sibling's BMC, which has no power then.
///
/// It does until the outlets are read off, or cannot be read: they may be switched on after that, so that only a
/// new reading of all outlets off explains it. A command that failed explains nothing: the outlets may feed a
/// sibling that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PowerCut {
    is_accepted: bool,
}

impl PowerCut {
    /// All outlets accepted a power-off.
    pub fn accepted(&mut self) {
        self.is_accepted = true;
    }

    /// The outlets were read; `are_off`: all of them were off.
    pub fn read(&mut self, are_off: bool) {
        self.is_accepted &= !are_off;
    }

    /// A reading of the outlets, or a command to them, failed.
    pub fn failed(&mut self) {
        self.is_accepted = false;
    }

    /// Whether an accepted power-off explains the silence of a sibling's BMC.
    pub fn is_accepted(self) -> bool {
        self.is_accepted
    }
}

/// Whether the outlets of `host` may be switched off, by readings that were taken after the siblings were
/// reserved. `is_cut`: all outlets were read off after that, or [`PowerCut::is_accepted`]; the BMC of a sibling
/// has no power then, so its silence refuses nothing.
///
/// # Errors
///
/// A sibling that no operator has named is not proven off.
pub fn check_siblings(
    host: &str,
    siblings: &[(Sibling, SiblingPower)],
    is_cut: bool,
) -> Result<(), SharedOutletsRefused> {
    let may_lose_power = |sibling: &Sibling, power: &SiblingPower| match power {
        SiblingPower::Off => true,
        SiblingPower::Unread(_) => sibling.named || is_cut,
        SiblingPower::NotOff(_) => sibling.named,
    };
    let not_off: Vec<_> = siblings
        .iter()
        .filter(|(sibling, power)| !may_lose_power(sibling, power))
        .map(|(sibling, power)| (sibling.host.clone(), power.clone()))
        .collect();
    if not_off.is_empty() {
        return Ok(());
    }
    Err(SharedOutletsRefused::NotOff {
        host: host.to_owned(),
        siblings: not_off,
    })
}

/// Removes the holds with these keys: nothing was switched after they were reserved.
pub fn release_reserved<R>(keys: &[String]) -> Vec<Change<R>> {
    let lift = |key: &String| Change::Hold {
        key: key.clone(),
        hold: None,
    };
    keys.iter().map(lift).collect()
}

/// Removes the holds on the siblings of a host: its outlets are being switched on, or its own hold ends.
pub fn release_siblings<R>(holds: &[(String, Hold)], host: &HostKeys) -> Vec<Change<R>> {
    let of_host = holds
        .iter()
        .filter(|(_, hold)| !hold.outlets_of.is_empty() && host.mean(&hold.outlets_of));
    release_reserved(&of_host.map(|(key, _)| key.clone()).collect::<Vec<_>>())
}

impl fmt::Display for SiblingPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::NotOff(state) => f.write_str(state),
            Self::Unread(why) => write!(f, "not known to be off: {why}"),
        }
    }
}

impl fmt::Display for SharedOutletsRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { host, hold } => write!(
                f,
                "the outlets of host {host} also feed host {}, which {} holds off (requested by {}); the \
                 power-off was not sent: wait until that hold ends",
                hold.host, hold.owner, hold.by
            ),
            Self::Busy {
                host,
                sibling,
                action,
                operation,
            } => write!(
                f,
                "the outlets of host {host} also feed host {sibling}, on which operation {operation} \
                 ({action}) runs; the power-off was not sent: try again when it has ended"
            ),
            Self::NotOff { host, siblings } => {
                write!(f, "the outlets of host {host} also feed ")?;
                for (index, (sibling, power)) in siblings.iter().enumerate() {
                    let separator = if index > 0 { ", " } else { "" };
                    write!(f, "{separator}host {sibling} ({power})")?;
                }
                let names: Vec<&str> = siblings.iter().map(|(name, _)| name.as_str()).collect();
                write!(
                    f,
                    "; the power-off was not sent: switch off the other hosts by their BMCs, or let an operator accept \
                     that they lose power: rackhand-agent pdu off {host} --with-siblings {}",
                    names.join(",")
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
