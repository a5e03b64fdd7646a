//! Applying another configuration, as a whole or not at all.
//!
//! A running operation ends under the configuration that it began with. Must never: interrupt an
//! operation, or let two operations use one BMC because queues were merged.

use std::{collections::BTreeSet, sync::Arc};

use super::Engine;
use crate::config::Config;

/// The differences to the previous configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Number of hosts in the inventory.
    pub hosts: usize,
    /// Number of added hosts.
    pub added: usize,
    /// Number of removed hosts.
    pub removed: usize,
}

/// Reason why a valid configuration cannot be applied now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It changes a setting that needs a restart of the agent.
    #[error("{} can only be changed by a restart of the agent", .0.join(", "))]
    Fixed(Vec<&'static str>),
    /// BMCs that would be merged are in use separately.
    #[error(
        "the BMCs {} become one, and each of them is in use: reload again when their operations \
         are finished",
        .0.join(", ")
    )]
    Busy(Vec<String>),
}

impl Engine {
    /// Applies another configuration.
    pub(crate) fn reload(&self, new: Config) -> Result<Changes, NotTaken> {
        let old = self.settings.load();
        let fixed = fixed(&old, &new);
        if !fixed.is_empty() {
            return Err(NotTaken::Fixed(fixed));
        }
        let changes = changes(&old, &new);
        let new = Arc::new(new);
        let taken = || self.settings.store(new.clone());
        let changed = self.clients.change(&new.inventory, taken);
        changed.map_err(NotTaken::Busy)?;
        self.power_on_stagger.recompute();
        Ok(changes)
    }
}

fn fixed(old: &Config, new: &Config) -> Vec<&'static str> {
    let listen = |config: &Config| config.remote.as_ref().map(|remote| remote.listen);
    let tls = |config: &Config| config.remote.as_ref().map(|remote| remote.tls.clone());
    let differs = [
        ("rack", old.rack != new.rack),
        ("listen", listen(old) != listen(new)),
        ("tls", tls(old) != tls(new)),
        ("admin_listen", old.admin != new.admin),
        ("otlp_endpoint", old.otlp_endpoint != new.otlp_endpoint),
        ("socket", old.socket != new.socket),
        ("state", old.state != new.state),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(key, _)| key).collect()
}

fn changes(old: &Config, new: &Config) -> Changes {
    let names = |config: &Config| -> BTreeSet<String> {
        let hosts = config.inventory.hosts.iter();
        hosts.map(|host| host.name.clone()).collect()
    };
    let (old, new) = (names(old), names(new));
    Changes {
        hosts: new.len(),
        added: new.difference(&old).count(),
        removed: old.difference(&new).count(),
    }
}
