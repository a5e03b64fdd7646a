//! Identification of the host of a target among the held hosts.

use std::sync::Arc;

use futures::future::join_all;
use rackhand_agent_core::{host_key::HostKeys, ledger::Host};
use tonic::Status;

use super::clients::{Clients, Located};
use crate::{
    config::host_key,
    engine::{Target, journal_status},
    journal::Journal,
};

/// Finds the host of a target among the held hosts.
#[derive(Clone)]
pub(in crate::engine) struct HostLocator {
    clients: Arc<Clients>,
    journal: Journal,
}

impl HostLocator {
    pub(in crate::engine) fn new(clients: Arc<Clients>, journal: Journal) -> Self {
        Self { clients, journal }
    }

    /// The host by the addresses known already, with a lookup only for names that were never looked
    /// up. This is enough to switch it off, and fast.
    pub(in crate::engine) async fn locate_known(&self, target: &Target) -> Host {
        let located = self.clients.known(target);
        match located.unresolved() {
            None => host(located),
            Some(_) => self.looked_up(target).await,
        }
    }

    /// The host by the addresses that its names have now, compared with every host that is held.
    pub(in crate::engine) async fn locate(&self, target: &Target) -> Result<Host, Status> {
        let mut host = self.looked_up(target).await;
        let holds = self.journal.holds().await;
        let holds = holds.map_err(|error| journal_status(&error))?;
        let by_name = holds.into_iter().filter(|(key, hold)| {
            let keys = hold.keys(key);
            !keys.has_ip() && !keys.matches(&host.keys)
        });
        let compared = by_name.map(async |(key, hold)| {
            let is_same = self.is_held_by(target, &host.keys, hold.keys(&key)).await;
            Some((key, is_same?))
        });
        let compared = join_all(compared).await;
        host.compared = compared.into_iter().flatten().collect();
        Ok(host)
    }

    async fn looked_up(&self, target: &Target) -> Host {
        let keys = target.keys.clone();
        host(self.clients.locate(keys, &target.config).await)
    }

    /// Whether a hold that is known by names only belongs to this host. `None`: unknown.
    async fn is_held_by(&self, target: &Target, host: &HostKeys, keys: HostKeys) -> Option<bool> {
        // Two entries of the inventory are different hosts.
        if target.is_of_inventory() {
            let mut hosts = target.config.inventory.hosts.iter();
            let is_known = hosts.any(|other| {
                let mut other = other.bmcs().map(|bmc| host_key(&bmc.address));
                other.any(|other| keys.iter().any(|key| *key == other))
            });
            if is_known {
                return Some(false);
            }
        }
        let located = self.clients.locate(keys, &target.config).await;
        let is_known = located.unresolved().is_none();
        let is_same = located.keys.matches(host);
        (is_known || is_same).then_some(is_same)
    }
}

fn host(located: Located) -> Host {
    Host {
        unresolved: located.unresolved(),
        keys: located.keys,
        ..Host::default()
    }
}
