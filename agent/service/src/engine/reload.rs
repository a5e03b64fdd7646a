//! Another configuration, taken whole or not at all.
//!
//! What goes on ends under the configuration with which it began. Must never: cut an operation, or
//! let two of them use one BMC because its queues were put together.

use std::{collections::BTreeSet, sync::Arc};

use super::Engine;
use crate::config::Config;

/// What is different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Hosts of the inventory now.
    pub hosts: usize,
    /// Hosts that are new.
    pub added: usize,
    /// Hosts that have left.
    pub removed: usize,
}

/// Why a good configuration is not taken now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It changes what cannot be changed while the agent runs.
    #[error("{} can only be changed by a restart of the agent", .0.join(", "))]
    Fixed(Vec<&'static str>),
    /// BMCs that become one are in use each for itself.
    #[error(
        "the BMCs {} become one, and each of them is in use: reload again when their operations \
         are finished",
        .0.join(", ")
    )]
    Busy(Vec<String>),
}

impl Engine {
    /// Goes by another configuration from now on.
    pub(crate) fn reload(&self, new: Config) -> Result<Changes, NotTaken> {
        let old = self.config();
        let fixed = fixed(&old, &new);
        if !fixed.is_empty() {
            return Err(NotTaken::Fixed(fixed));
        }
        let changes = changes(&old, &new);
        let new = Arc::new(new);
        let taken = || self.shared.config.store(new.clone());
        let changed = self.shared.clients.change(&new.inventory, taken);
        changed.map_err(NotTaken::Busy)?;
        self.shared.turns.wake();
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
