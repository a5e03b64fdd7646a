//! Holds on hosts.

use std::collections::HashMap;

use rackhand_agent_core::ledger::{Authority, Hold, Host, Release};
use tonic::Status;
use tracing::info;

use crate::{
    engine::{Target, bmcs::locate::HostLocator, journal_status},
    journal::{Journal, JournalError, refused_status, wall_clock},
};

/// The hosts that the journal records as held off.
#[derive(Clone)]
pub(crate) struct Holds {
    journal: Journal,
    locator: HostLocator,
}

impl Holds {
    pub(in crate::engine) fn new(journal: Journal, locator: HostLocator) -> Self {
        Self { journal, locator }
    }

    /// Releases a hold. The host need not be in the inventory.
    pub(crate) async fn release(
        &self,
        target: Result<Target, (String, Status)>,
        authority: Authority,
        owner: String,
        force: bool,
    ) -> Result<bool, Status> {
        let (key, at) = match target {
            Ok(target) => (target.key.clone(), self.locator.locate(&target).await?),
            Err((name, status)) => {
                let held = self
                    .by_host_key()
                    .await?
                    .into_iter()
                    .find(|(_, hold)| hold.host == name);
                let (key, hold) = held.ok_or(status)?;
                let keys = hold.keys(&key);
                let at = Host {
                    keys,
                    ..Host::default()
                };
                (key, at)
            }
        };
        let release = Release {
            id: format!("{owner}/release/{}", uuid::Uuid::new_v4()),
            key,
            at,
            authority: authority.clone(),
            owner,
            force,
            now: wall_clock(),
        };
        let result = self.journal.release(release).await;
        let lifted = result
            .map_err(|error| journal_status(&error))?
            .map_err(|refused| refused_status(&refused))?;
        if let Some(hold) = &lifted {
            info!(host = %hold.host, owner = %hold.owner, by = %authority, force, "hold released");
        }
        Ok(lifted.is_some())
    }

    /// The owners of all holds, by host key.
    pub(crate) async fn by_host_key(&self) -> Result<HashMap<String, Hold>, Status> {
        let holds = self.in_journal().await;
        Ok(holds
            .map_err(|error| journal_status(&error))?
            .into_iter()
            .collect())
    }

    /// All holds by host key, in the order of the keys.
    pub(crate) async fn in_journal(&self) -> Result<Vec<(String, Hold)>, JournalError> {
        self.journal.holds().await
    }
}
