//! The power-off of outlets that feed several hosts.
//!
//! Owns: the readings of the other hosts immediately before the command, and their holds. `rackhand_agent_core`
//! decides. Must never: let the command be sent before the holds are in the journal, or on readings that are older
//! than the holds.

use futures::future::join_all;
use rackhand_agent_core::ledger::{PowerCut, Reservation, Sibling, SiblingPower, check_siblings};
use rackhand_bmc::{PowerState, operation::state_word};
use tracing::{info, warn};

use super::runner::Run;
use crate::{
    engine::{bmcs::clients::Clients, target::Target},
    journal::{JournalError, wall_clock},
};

/// The other hosts that the outlets of a host feed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Siblings {
    hosts: Vec<Target>,
    /// Names of the siblings that an operator allows to lose power.
    named: Vec<String>,
}

/// Why a power-off of shared outlets is not sent.
#[derive(Debug)]
pub(super) enum NotPrepared {
    /// A sibling is not off, is held, or has an operation.
    Refused(String),
    /// The journal cannot be written.
    Journal(JournalError),
    /// The operation was cancelled, or the agent stops.
    Interrupted,
}

impl Siblings {
    /// The siblings of a host; `named`: the siblings that an operator allows to lose power.
    ///
    /// # Errors
    ///
    /// A named host shares no outlet with it.
    pub(crate) fn of(target: &Target, named: &[String]) -> Result<Self, String> {
        let hosts = target.siblings();
        let mut known = Vec::new();
        for name in named {
            let found = target.config.inventory.find(name);
            let found = found.map_err(|ambiguous| ambiguous.to_string())?;
            let found = found.map_or(name.as_str(), |host| &host.name);
            if found == target.host {
                continue;
            }
            if !hosts.iter().any(|sibling| sibling.host == found) {
                let host = &target.host;
                return Err(format!(
                    "the outlets of host {host} do not feed host {found}"
                ));
            }
            known.push(found.to_owned());
        }
        Ok(Self {
            hosts,
            named: known,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// In words, for the record of a power-off; empty: there are none.
    pub(crate) fn words(&self) -> String {
        let words = self.hosts.iter().map(|sibling| {
            let named = match self.named.contains(&sibling.host) {
                true => " (may lose power)",
                false => "",
            };
            format!("{}{named}", sibling.host)
        });
        let words: Vec<String> = words.collect();
        match words.is_empty() {
            true => String::new(),
            false => format!("the outlets also feed {}", words.join(", ")),
        }
    }
}

impl Run {
    /// Ensures that no sibling loses power unless it is off or named by an operator: holds the siblings, so that
    /// nothing switches them on, and then reads them. `cut`: the result of earlier power-offs of this operation.
    pub(super) async fn prepare_siblings(&self, cut: PowerCut) -> Result<(), NotPrepared> {
        let siblings = self.siblings.hosts.iter().map(async |target| Sibling {
            key: target.key.clone(),
            host: target.host.clone(),
            at: self.context.locator.locate_known(target).await,
            named: self.siblings.named.contains(&target.host),
        });
        let siblings = join_all(siblings).await;
        let reservation = Reservation {
            operation: self.handle.id.clone(),
            siblings: siblings.clone(),
            now: wall_clock(),
        };
        let reserved = self.context.journal.reserve(reservation).await;
        let added = reserved
            .map_err(NotPrepared::Journal)?
            .map_err(|refused| NotPrepared::Refused(refused.to_string()))?;
        let checked = tokio::select! {
            checked = self.check_siblings(siblings, cut) => checked,
            () = self.interruption.wait() => Err(NotPrepared::Interrupted),
        };
        if checked.is_err()
            && let Err(error) = self.context.journal.release_reserved(added).await
        {
            self.context.metrics.journal_error();
            warn!(operation = %self.handle.id, %error, "cannot release the other hosts of its outlets");
        }
        checked
    }

    async fn check_siblings(
        &self,
        siblings: Vec<Sibling>,
        cut: PowerCut,
    ) -> Result<(), NotPrepared> {
        let targets = self.siblings.hosts.iter();
        let readings =
            join_all(targets.map(|target| sibling_power(&self.context.clients, target))).await;
        let read: Vec<_> = siblings.into_iter().zip(readings).collect();
        for (sibling, power) in &read {
            info!(operation = %self.handle.id, host = %self.handle.host, sibling = sibling.host, named = sibling.named, %power, "sibling read");
        }
        let is_silent = |(_, power): &(_, SiblingPower)| matches!(power, SiblingPower::Unread(_));
        let is_cut =
            read.iter().any(is_silent) && (cut.is_accepted() || self.outlets_are_off().await);
        check_siblings(&self.target.host, &read, is_cut)
            .map_err(|refused| NotPrepared::Refused(refused.to_string()))
    }

    /// Whether all outlets of the host are off already.
    async fn outlets_are_off(&self) -> bool {
        let limit = self.target.config.times.call;
        let reading = self.context.pdus.read(&self.target, limit).await;
        reading.is_ok_and(|reading| reading.state == PowerState::Off)
    }
}

/// The power that the BMC of a sibling reports now.
async fn sibling_power(clients: &Clients, target: &Target) -> SiblingPower {
    let reading = match clients.read(target, target.config.times.call).await {
        Ok(reading) => reading,
        Err(error) => return SiblingPower::Unread(error.message),
    };
    // The BMC of another system proves nothing about this one (F5).
    let mismatch = target
        .expected(None)
        .map(|expected| expected.mismatch(&reading.identity));
    match (mismatch, reading.state) {
        (Err(status), _) => SiblingPower::Unread(status.message().to_owned()),
        (Ok(Some(mismatch)), _) => SiblingPower::Unread(format!(
            "its BMC reports {} {}, and {} is expected",
            mismatch.what, mismatch.found, mismatch.expected
        )),
        (Ok(None), PowerState::Off) => SiblingPower::Off,
        (Ok(None), state) => SiblingPower::NotOff(state_word(state).to_owned()),
    }
}
