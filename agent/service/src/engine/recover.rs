//! After a restart: reads the hosts of interrupted operations.

use rackhand_bmc::operation::state_word;
use tracing::{info, warn};

use super::{Engine, convert, target::Target};

impl Engine {
    /// Reads the power of each host once and records it with its operation. Sends no command: the
    /// requester decides again.
    pub(crate) fn look_after(&self, interrupted: Vec<String>) {
        for operation in interrupted {
            warn!(
                operation,
                "the operation was interrupted by the last stop of the agent"
            );
            let (shared, config) = (self.shared.clone(), self.config());
            let limit = config.times.call;
            self.spawn(async move {
                let Ok(Some(record)) = shared.journal.operation(operation.clone()).await else {
                    return;
                };
                // The password of a BMC that a controller provided is not kept, so that BMC is read
                // with the controller's next request.
                let hosts = config.inventory.hosts.iter();
                let mut known = hosts.map(|host| Target::of(&config, host));
                let Some(target) = known.find(|target| target.key == record.key) else {
                    return;
                };
                let reading = tokio::select! {
                    reading = shared.read(&target, record.device(), limit) => reading,
                    () = shared.stop.cancelled() => return,
                };
                match reading {
                    Err(error) => warn!(operation, host = target.host, %error, "cannot be read"),
                    Ok(reading) => {
                        info!(
                            operation,
                            host = target.host,
                            power = state_word(reading.state),
                            "read"
                        );
                        let reading = convert::reading_to_proto(&reading, shared.since_start());
                        if let Err(error) = shared.journal.amend(operation, reading).await {
                            warn!(%error, "cannot note a reading");
                        }
                    }
                }
            });
        }
    }
}
