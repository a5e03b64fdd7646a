//! Carries out the commands that switch the power of a host, or read it.

use std::time::Duration;

use futures::future::Either;
use rackhand_core::remediation::{
    Begun, HostRef, Policy, PowerDevice, PowerView, State, UpdateReading,
};
use rackhand_proto::{limits::LONGEST_OPERATION, v1};

use crate::{
    agents::{CallFailure, OffRequest, OperationRequest},
    remediation::{act::Scope, engine::ReconcileError, scope::Memory},
    store::{api::ApiError, clock},
};

/// Timeout of one reading of a BMC. A longer one would delay the monitoring of the hold.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time of one reading of the updates of a host, which takes many requests to its BMC. The agent gives it less
/// at a BMC that is not slow.
const UPDATES_TIMEOUT: Duration = Duration::from_secs(35);

/// Time that a BMC has to answer after the outlets of its host have. The reading of the outlets must not
/// become too old for a taint (`LATEST_READING_AGE` of the core) because a BMC without power is silent.
const BMC_AFTER_OUTLETS: Duration = Duration::from_millis(500);

/// Least deadline of a soft off.
const LEAST: Duration = Duration::from_secs(1);

/// The deadline of a power-off, limited to what an agent accepts, because a value from a flag or an
/// older object may be out of bounds.
pub(in crate::remediation) fn off_deadline(policy: &Policy, command_after: Duration) -> Duration {
    policy.off_limit(command_after).min(LONGEST_OPERATION)
}

/// The deadline of a power-on, see [`off_deadline`].
pub(in crate::remediation) fn on_deadline(policy: &Policy) -> Duration {
    policy.on_limit().min(LONGEST_OPERATION)
}

/// What an agent is to begin.
pub(super) enum Beginning {
    /// A hard power-off.
    Off(OffRequest),
    /// A soft off: the time of the operating system from the asking, and the system that the BMC must be of.
    SoftOff(Duration, v1::SystemIdentity),
    /// A power-on.
    On,
}

/// Begins an operation with this id. Returns the host if it has begun.
pub(super) async fn begin(
    scope: &Scope,
    memory: &mut Memory,
    host: &HostRef,
    (id, device): (&str, PowerDevice),
    beginning: Beginning,
    deadline: Duration,
) -> Result<Option<HostRef>, ReconcileError> {
    let at = memory.shell.pinned_agent(id);
    let Some(endpoint) = scope.context.endpoints.needed(memory, host).await? else {
        return Ok(None);
    };
    // What was read since the decision may have taken long.
    let within = memory
        .shell
        .begin_within(id, deadline, clock::monotonic_now());
    let Some(within) = within else {
        let why = "too much of the time of its pin is over; it is pinned again";
        return Err(ApiError::other(format!("operation {id}"), why).into());
    };
    let owner = scope.uid.clone();
    let wanted = OperationRequest {
        host,
        endpoint,
        id,
        device,
        at: at.as_deref(),
        owner: &owner,
        deadline,
        within,
    };
    let commands = &scope.context.commands;
    let begun = match beginning {
        Beginning::Off(off) => commands.begin_power_off(wanted, off).await,
        Beginning::SoftOff(limit, expect) => commands.begin_soft_off(wanted, limit, expect).await,
        Beginning::On => commands.begin_power_on(wanted).await,
    };
    begun_at(memory, host, begun)
}

/// The deadline of a soft off, see [`off_deadline`]. The host has the whole limit from the asking.
pub(super) fn soft_off_deadline(limit: Duration) -> Duration {
    limit.clamp(LEAST, LONGEST_OPERATION)
}

/// The host whose operation has begun; `None`: the agent refused it, which the next observation contains.
fn begun_at(
    memory: &mut Memory,
    host: &HostRef,
    begun: Result<(), CallFailure>,
) -> Result<Option<HostRef>, ReconcileError> {
    match begun {
        Ok(()) => {
            memory.shell.began(Begun::Accepted);
            Ok(Some(host.clone()))
        }
        Err(CallFailure::Rejected(why)) => {
            memory.shell.began(Begun::Rejected { why });
            Ok(None)
        }
        Err(CallFailure::Retryable(why)) => {
            memory.shell.began(Begun::Unclear);
            Err(ApiError::other(format!("agent of rack {}", host.rack), why).into())
        }
    }
}

/// Reads the updates of firmware.
pub(super) async fn updates(
    scope: &Scope,
    host: &HostRef,
    endpoint: Option<v1::BmcEndpoint>,
) -> UpdateReading {
    let queries = &scope.context.queries;
    let status = queries
        .read_updates(host, endpoint, &scope.uid, UPDATES_TIMEOUT)
        .await;
    UpdateReading {
        at: clock::monotonic_now(),
        status,
    }
}

/// Reads the power state. Where the host was switched off by its outlets, these are read, and the BMC
/// beside them.
pub(super) async fn read(
    scope: &Scope,
    memory: &Memory,
    host: &HostRef,
    endpoint: Option<v1::BmcEndpoint>,
) -> PowerView {
    let read = |device| {
        let queries = &scope.context.queries;
        queries.read_power(host, endpoint.clone(), device, &scope.uid, READ_TIMEOUT)
    };
    if !memory
        .shell
        .state
        .as_ref()
        .is_some_and(State::reads_outlets)
    {
        return read(PowerDevice::Bmc).await;
    }
    let bmc = std::pin::pin!(read(PowerDevice::Bmc));
    let outlets = std::pin::pin!(read(PowerDevice::Outlets));
    match futures::future::select(outlets, bmc).await {
        Either::Left((outlets, bmc)) => {
            let bmc = tokio::time::timeout(BMC_AFTER_OUTLETS, bmc).await.ok();
            PowerView::of_outlets(outlets, bmc)
        }
        Either::Right((bmc, outlets)) => PowerView::of_outlets(outlets.await, Some(bmc)),
    }
}
