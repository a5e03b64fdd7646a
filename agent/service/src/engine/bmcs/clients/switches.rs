//! The last power command of this agent to each host: what it has switched is no power that was lost.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use rackhand_agent_core::host_key::HostKeys;
use rackhand_bmc::PowerCommand;
use tokio::time::Instant;

use crate::engine::target::Target;

/// How long a command is remembered.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The last commands, by the key of the host.
#[derive(Debug, Default)]
pub(crate) struct Switches(Mutex<HashMap<String, LastSwitch>>);

#[derive(Debug)]
struct LastSwitch {
    keys: HostKeys,
    command: PowerCommand,
    at: Instant,
}

impl Switches {
    /// Records a command that is about to be sent, or was answered.
    pub(crate) fn note(&self, target: &Target, keys: HostKeys, command: PowerCommand) {
        let last = LastSwitch {
            keys,
            command,
            at: Instant::now(),
        };
        self.0.lock().insert(target.key.clone(), last);
    }

    /// The last command to a host, and the time since.
    pub(crate) fn last(
        &self,
        target: &Target,
        keys: &HostKeys,
    ) -> Option<(PowerCommand, Duration)> {
        let known = self.0.lock();
        let of_host = known.get(&target.key);
        // A BMC that a caller names may be known in another notation.
        let others = || {
            let known = known.values().filter(|last| last.keys.matches(keys));
            known.max_by_key(|last| last.at)
        };
        let last = of_host.or_else(|| (!target.is_of_inventory()).then(others).flatten())?;
        Some((last.command, last.at.elapsed()))
    }

    pub(super) fn sweep(&self) {
        self.0
            .lock()
            .retain(|_, last| last.at.elapsed() <= REMEMBERED);
    }
}
