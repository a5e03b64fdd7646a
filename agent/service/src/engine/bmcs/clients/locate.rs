//! The current addresses of a host, with its names resolved.

use std::time::Duration;

use futures::future::join_all;
use rackhand_agent_core::host_key::HostKeys;

use super::Clients;
use crate::{config::Config, engine::target::Target};

/// Time limit of a lookup. Starting an operation takes at most two, within its own limit of 3 s.
const LONGEST: Duration = Duration::from_secs(1);

/// A host with the addresses of its names.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub(crate) keys: HostKeys,
    /// Why names have no known address.
    failures: Vec<String>,
}

impl Located {
    /// Why a name of the host has no address; `None`: every name has one.
    pub(crate) fn unresolved(&self) -> Option<String> {
        (!self.failures.is_empty()).then(|| self.failures.join("; "))
    }
}

impl Clients {
    /// The host by the addresses known already, without a lookup.
    pub(crate) fn known(&self, target: &Target) -> Located {
        let mut keys = target.keys.clone();
        let mut failures = Vec::new();
        for name in keys.names() {
            match self.resolver.last_known(&name) {
                Some(ips) => keys.resolve(&name, &ips),
                None => failures.push(format!("{name}: never looked up")),
            }
        }
        Located { keys, failures }
    }

    /// The host by the current addresses of its names, or the last known addresses of a name that
    /// does not resolve.
    pub(crate) async fn locate(&self, mut keys: HostKeys, config: &Config) -> Located {
        let limit = config.times.connect.min(LONGEST);
        let names = keys.names();
        let lookups = names
            .iter()
            .map(|name| self.resolver.addresses(name, limit));
        let found = join_all(lookups).await;
        let mut failures = Vec::new();
        for (name, found) in names.iter().zip(found) {
            let last = || self.resolver.last_known(name);
            match found.or_else(|why| last().ok_or(why)) {
                Ok(ips) => keys.resolve(name, &ips),
                Err(why) => failures.push(format!("{name}: {why}")),
            }
        }
        Located { keys, failures }
    }
}
