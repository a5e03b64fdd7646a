//! The conclusion of password rotations that were interrupted.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::password_rotation::Rotate;
use crate::{
    blocking,
    engine::{
        Target,
        changes::{Change, Changer},
        settings::Settings,
    },
    password_file::PasswordFile,
};

/// Interval between two searches for interrupted rotations.
const LOOK: Duration = Duration::from_secs(60);
/// Longest wait between two attempts to continue a rotation. Each attempt may count as two failed log-ins.
const MAX_WAIT: Duration = Duration::from_secs(1800);

/// Concludes interrupted rotations.
pub(in crate::engine) struct InterruptedRotations {
    settings: Settings,
    changer: Changer,
}

impl InterruptedRotations {
    pub(in crate::engine) fn new(settings: Settings, changer: Changer) -> Self {
        Self { settings, changer }
    }

    /// Concludes interrupted rotations until `stop`.
    pub(in crate::engine) async fn run(self, stop: CancellationToken) {
        let mut waits: BTreeMap<String, (Duration, Instant)> = BTreeMap::new();
        loop {
            for target in self.targets().await {
                let now = Instant::now();
                if waits.get(&target.key).is_some_and(|(_, next)| *next > now) {
                    continue;
                }
                match self.conclude(&target).await {
                    true => drop(waits.remove(&target.key)),
                    false => {
                        let last = waits.get(&target.key).map(|(wait, _)| *wait);
                        let wait = last.map_or(LOOK, |last| (last * 2).min(MAX_WAIT));
                        waits.insert(target.key.clone(), (wait, Instant::now() + wait));
                    }
                }
            }
            if timeout(LOOK, stop.cancelled()).await.is_ok() {
                return;
            }
        }
    }

    /// Hosts with an interrupted rotation.
    async fn targets(&self) -> Vec<Target> {
        let config = self.settings.load();
        let looked = blocking::run(move || {
            let hosts = config.inventory.hosts.iter().filter(|host| {
                let mut paths = host.bmcs().filter_map(|bmc| bmc.password.path());
                paths.any(|path| PasswordFile::new(path).has_next())
            });
            hosts.map(|host| Target::of(&config, host)).collect()
        });
        looked.await.unwrap_or_default()
    }

    /// Whether it is known now which password of the host counts.
    async fn conclude(&self, target: &Target) -> bool {
        let change = Change {
            action: "rotate-password",
            what: "conclude an interrupted rotation of the password".to_owned(),
            owner: "agent".to_owned(),
            minds_holds: false,
            force: false,
            id: None,
        };
        let work = Rotate {
            only_interrupted: true,
        };
        let limit = target.config.times.call.saturating_mul(2);
        let host = &target.host;
        match self.changer.change(target, limit, &change, &work).await {
            Ok(Ok(accepted)) => info!(host, answer = %accepted.answer, "password rotated"),
            Ok(Err(error)) => warn!(host, %error, "interrupted rotation of the password"),
            Err(status) => warn!(host, error = status.message(), "interrupted rotation"),
        }
        let left = self.targets().await;
        !left.iter().any(|left| left.key == target.key)
    }
}
