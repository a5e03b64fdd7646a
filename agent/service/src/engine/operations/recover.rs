//! Recovery after a restart: reads the hosts of interrupted operations, and switches on hosts that a cycle left
//! off.

use std::time::Duration;

use rackhand_agent_core::ledger::{Action, Authority, Device, OwedPowerOn};
use rackhand_bmc::operation::{DuringUpdate, Goal, OperationRequest, Timing, state_word};
use tokio::time::timeout;
use tonic::{Code, Status};
use tracing::{info, warn};

use super::{Operations, ValidatedRequest, shared_outlets::Siblings};
use crate::{
    convert,
    engine::{bmcs::reads::Reads, settings::Settings, target::Target, tasks::Tasks},
    journal::{Journal, wall_clock},
};

/// Time between two attempts to begin the power-on.
const AGAIN: Duration = Duration::from_secs(5);
/// Minimum time for the power-on that finishes a cycle: the BMC may be away as well.
const LAST_ON: Duration = Duration::from_secs(300);

/// The recovery of the operations that the last stop of the agent interrupted.
#[derive(Clone)]
pub(in crate::engine) struct Recovery {
    pub(in crate::engine) operations: Operations,
    pub(in crate::engine) reads: Reads,
    pub(in crate::engine) journal: Journal,
    pub(in crate::engine) settings: Settings,
    pub(in crate::engine) tasks: Tasks,
}

impl Recovery {
    /// Takes care of the hosts of interrupted operations.
    pub(in crate::engine) fn look_after(&self, interrupted: Vec<String>) {
        if !interrupted.is_empty() {
            let (recovery, ids) = (self.clone(), interrupted.clone());
            self.tasks
                .spawn(async move { recovery.finish_cycles(ids).await });
        }
        self.read_hosts(interrupted);
    }

    /// Begins the power-ons that interrupted cycles of operators owe (F17). Holds apply as usual.
    async fn finish_cycles(&self, interrupted: Vec<String>) {
        let owed = match self.journal.owed_power_ons(interrupted).await {
            Ok(owed) => owed,
            Err(error) => {
                warn!(%error, "cannot read the hosts that an interrupted cycle left off");
                return;
            }
        };
        for owed in owed {
            let (host, id) = (owed.host.clone(), owed.id.clone());
            match self.finish_cycle(owed).await {
                Ok(()) => warn!(
                    host,
                    operation = id,
                    "an interrupted cycle is finished by a power-on"
                ),
                Err(status) => warn!(
                    host,
                    error = status.message(),
                    "an interrupted cycle may have left the host off, and it is not switched on"
                ),
            }
        }
    }

    /// Begins a power-on, and tries again while the journal or a name server fails.
    async fn finish_cycle(&self, owed: OwedPowerOn) -> Result<(), Status> {
        loop {
            let request = self.power_on(&owed).map_err(Status::failed_precondition)?;
            match self.operations.begin(Box::new(request)).await {
                Err(status) if status.code() == Code::Unavailable => {
                    if timeout(AGAIN, self.tasks.stopping().cancelled())
                        .await
                        .is_ok()
                    {
                        return Err(status);
                    }
                }
                begun => return begun.map(drop),
            }
        }
    }

    fn power_on(&self, owed: &OwedPowerOn) -> Result<ValidatedRequest, String> {
        let config = self.settings.load();
        let hosts = config.inventory.hosts.iter();
        let mut known = hosts.map(|host| Target::of(&config, host));
        let target = known
            .find(|target| target.key == owed.key)
            .ok_or("it is no longer in the inventory")?;
        let expected = match owed.device {
            Device::Bmc => target.expected(None),
            // A PDU does not know which system it feeds.
            Device::Outlets => Ok(Default::default()),
        };
        let siblings = match owed.device {
            Device::Bmc => Ok(Siblings::default()),
            Device::Outlets => Siblings::of(&target, &[]),
        };
        let timing = Timing {
            poll_max: config.times.poll_max,
            resend_after: config.times.resend_after,
            ..Timing::default()
        };
        let since = wall_clock().saturating_sub(owed.last_command);
        let since = Duration::from_nanos(u64::try_from(since).unwrap_or(0));
        let name = owed.owner.strip_prefix("operator ");
        Ok(ValidatedRequest {
            id: owed.id.clone(),
            action: Action::On,
            device: owed.device,
            operation: OperationRequest {
                goal: Goal::On,
                deadline: config.times.operation.max(LAST_ON),
                expected: expected.map_err(|status| status.message().to_owned())?,
                timing: Timing {
                    late_off_until: timing.resend_settling.saturating_sub(since),
                    ..timing
                },
                during_update: DuringUpdate::default(),
            },
            siblings: siblings?,
            authority: Authority::Operator {
                name: name.unwrap_or(&owed.owner).to_owned(),
            },
            owner: owed.owner.clone(),
            force: false,
            latest: None,
            caller: None,
            target,
        })
    }

    /// Reads the power of each host once and records it with its operation. Sends no command: the
    /// requester decides again.
    fn read_hosts(&self, interrupted: Vec<String>) {
        for operation in interrupted {
            warn!(
                operation,
                "the operation was interrupted by the last stop of the agent"
            );
            let (reads, journal) = (self.reads.clone(), self.journal.clone());
            let (config, stop) = (self.settings.load(), self.tasks.stopping());
            let limit = config.times.call;
            self.tasks.spawn(async move {
                let Ok(Some(record)) = journal.operation(operation.clone()).await else {
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
                    reading = reads.power(&target, record.device, limit) => reading,
                    () = stop.cancelled() => return,
                };
                match reading {
                    Err(error) => warn!(operation, host = target.host, %error, "cannot be read"),
                    Ok((reading, since_start)) => {
                        info!(
                            operation,
                            host = target.host,
                            power = state_word(reading.state),
                            "read"
                        );
                        let reading = convert::reading_to_proto(&reading, since_start);
                        if let Err(error) = journal.amend(operation, reading).await {
                            warn!(%error, "cannot record a reading");
                        }
                    }
                }
            });
        }
    }
}
