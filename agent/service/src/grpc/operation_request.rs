//! Validation of a Begin request, without the journal.

use std::{sync::Arc, time::Duration};

use rackhand_agent_core::ledger::{Action, Authority, Device};
use rackhand_bmc::operation::{self, DuringUpdate, Expected, Goal, Timing};
use rackhand_proto::{
    convert::{TimeError, duration_if_set},
    limits::{CONFIRMATIONS, check_deadline},
    v1::{self, begin_request::Action as RequestedAction},
};
use tonic::Status;

use super::caller::{Caller, living, owner};
use crate::engine::{Callers, Settings, Siblings, Target, ValidatedRequest, resolve};

/// Time for the BMC and the host beyond the requested waits.
const DEADLINE_SLACK: Duration = Duration::from_secs(60);
/// Default limit of a shutdown: Kubernetes allows a pod 30 s, and systemd a service 90 s.
const SHUT_DOWN: Duration = Duration::from_secs(180);
/// Default time off in a cycle, for the capacitors of the host.
const HOLD_OFF: Duration = Duration::from_secs(10);
/// A cycle blocks other operations on its BMC, fencing included.
const LONGEST_HOLD_OFF: Duration = Duration::from_secs(60);

/// Validates requests to begin an operation.
#[derive(Clone)]
pub(super) struct RequestValidator {
    pub(super) settings: Settings,
    pub(super) callers: Arc<Callers>,
    /// Changes with each start of the agent.
    pub(super) instance: Arc<str>,
}

impl RequestValidator {
    pub(super) fn validate(
        &self,
        caller: Caller,
        request: v1::BeginRequest,
    ) -> Result<Box<ValidatedRequest>, Status> {
        let id = operation_id(request.operation_id)?;
        let is_controller = caller.is_controller();
        let config = self.settings.load();
        let times = &config.times;
        let target = resolve(&config, request.target, is_controller)?;
        let device = power_device(request.device, &target)?;
        let living = living(&self.callers, &caller, &request.caller)?;
        let authority = caller.authority(request.term, Some(request.sequence))?;
        let owner = owner(&authority, request.owner)?;
        let expected = match (device, target.expected(request.expect.as_ref())?) {
            (Device::Bmc, expected) => expected,
            // A PDU does not know which system it feeds.
            (Device::Outlets, _) => Expected::default(),
        };
        let (action, goal) = goal(request.action)?;
        check_action(device, action, &target.host)?;
        let siblings = siblings(
            &target,
            (device, action),
            &request.with_siblings,
            is_controller,
        )?;
        let deadline = time("deadline", request.deadline.as_ref())?;
        // The default is long enough for the requested goal.
        let deadline = deadline.unwrap_or(
            times
                .operation
                .max(goal.least().saturating_add(DEADLINE_SLACK)),
        );
        check_deadline(deadline, goal.least()).map_err(Status::invalid_argument)?;
        if action == (Action::Off { hold: true })
            && owner.trim().is_empty()
            && matches!(authority, Authority::Controller { .. })
        {
            return Err(Status::invalid_argument("a hold needs an owner"));
        }
        Ok(Box::new(ValidatedRequest {
            id,
            target,
            action,
            device,
            operation: operation::OperationRequest {
                goal,
                deadline,
                expected,
                timing: Timing {
                    poll_max: times.poll_max,
                    resend_after: times.resend_after,
                    ..Timing::default()
                },
                during_update: match request.during_firmware_update {
                    true => DuringUpdate::Proceed,
                    false => DuringUpdate::Refuse,
                },
            },
            siblings,
            owner,
            authority,
            force: request.force,
            latest: self.latest(request.latest)?,
            caller: living,
        }))
    }

    /// The time since the start of this agent after which the request begins nothing.
    fn latest(&self, latest: Option<v1::AgentTime>) -> Result<Option<Duration>, Status> {
        let Some(latest) = latest else {
            return Ok(None);
        };
        if latest.instance != *self.instance {
            return Err(Status::unavailable(
                "the agent was restarted since the term was claimed; nothing was started, claim the term again",
            ));
        }
        let since_start = latest.since_start.unwrap_or_default();
        let since_start = Duration::try_from(since_start);
        since_start.map(Some).map_err(|_| {
            Status::invalid_argument("latest.since_start: a time before the start of the agent")
        })
    }
}

/// The device to switch or to read. The outlets are refused for a host whose outlets are not known.
pub(super) fn power_device(requested: i32, target: &Target) -> Result<Device, Status> {
    let device = v1::PowerDevice::try_from(requested)
        .map_err(|_| Status::invalid_argument(format!("device {requested} does not exist")))?;
    match device {
        v1::PowerDevice::Unspecified | v1::PowerDevice::Bmc => Ok(Device::Bmc),
        v1::PowerDevice::Outlets if target.outlets().is_empty() => {
            Err(Status::failed_precondition(format!(
                "host {}: the inventory does not name the outlets that feed it",
                target.host
            )))
        }
        v1::PowerDevice::Outlets => Ok(Device::Outlets),
    }
}

/// An outlet can only be switched.
fn check_action(device: Device, action: Action, host: &str) -> Result<(), Status> {
    let is_possible = matches!(action, Action::Off { .. } | Action::On | Action::Cycle);
    if device == Device::Bmc || is_possible {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "host {host}: outlets can only be switched off and on, and cycled: power {} needs the BMC",
        action.word()
    )))
}

/// The other hosts that the outlets of the host feed.
fn siblings(
    target: &Target,
    (device, action): (Device, Action),
    named: &[String],
    is_controller: bool,
) -> Result<Siblings, Status> {
    let host = &target.host;
    if !named.is_empty() && is_controller {
        return Err(Status::permission_denied(
            "with_siblings is for operators: a controller lets no other host lose its power",
        ));
    }
    let is_cut = device == Device::Outlets && matches!(action, Action::Off { .. } | Action::Cycle);
    if !named.is_empty() && !is_cut {
        return Err(Status::invalid_argument(format!(
            "host {host}: with_siblings is for a power-off or a cycle by outlets"
        )));
    }
    match device {
        Device::Bmc => Ok(Siblings::default()),
        Device::Outlets => Siblings::of(target, named)
            .map_err(|why| Status::invalid_argument(format!("with_siblings: {why}"))),
    }
}

fn goal(action: Option<RequestedAction>) -> Result<(Action, Goal), Status> {
    let (action, goal) = match action {
        None => return Err(Status::invalid_argument("no action, for example power_off")),
        Some(RequestedAction::PowerOn(_)) => (Action::On, Goal::On),
        Some(RequestedAction::PowerOff(off)) => {
            let (confirmations, confirm_interval) =
                proof(off.confirmations, off.confirm_interval.as_ref())?;
            let command_after = time("command_after", off.command_after.as_ref())?;
            let goal = Goal::Off {
                confirmations,
                confirm_interval,
                command_after: command_after.unwrap_or_default(),
            };
            (Action::Off { hold: off.hold }, goal)
        }
        Some(RequestedAction::PowerSoftOff(off)) => {
            let (confirmations, confirm_interval) =
                proof(off.confirmations, off.confirm_interval.as_ref())?;
            let goal = Goal::SoftOff {
                limit: time("limit", off.limit.as_ref())?.unwrap_or(SHUT_DOWN),
                then_force: off.then_force,
                confirmations,
                confirm_interval,
            };
            (Action::SoftOff, goal)
        }
        Some(RequestedAction::PowerCycle(cycle)) => {
            let (confirmations, confirm_interval) = proof(0, None)?;
            let hold_off = time("hold_off", cycle.hold_off.as_ref())?.unwrap_or(HOLD_OFF);
            if hold_off > LONGEST_HOLD_OFF {
                return Err(Status::invalid_argument(format!(
                    "hold_off: longer than {LONGEST_HOLD_OFF:?}; switch off, and on again later"
                )));
            }
            let goal = Goal::Cycle {
                hold_off,
                confirmations,
                confirm_interval,
            };
            (Action::Cycle, goal)
        }
        Some(RequestedAction::PowerReset(_)) => (Action::Reset, Goal::Reset),
        Some(RequestedAction::PowerNmi(_)) => (Action::Nmi, Goal::Nmi),
    };
    Ok((action, goal))
}

/// Number of confirming readings, and the time between two.
fn proof(
    confirmations: u32,
    interval: Option<&prost_types::Duration>,
) -> Result<(u32, Duration), Status> {
    let confirmations = match confirmations {
        0 => 2,
        1 => {
            return Err(Status::invalid_argument(
                "confirmations: one reading of off is not a confirmation; at least 2",
            ));
        }
        n if CONFIRMATIONS.contains(&n) => n,
        _ => {
            let most = CONFIRMATIONS.end();
            return Err(Status::invalid_argument(format!(
                "confirmations: at most {most}"
            )));
        }
    };
    let interval = time("confirm_interval", interval)?.unwrap_or(Duration::from_secs(2));
    Ok((confirmations, interval))
}

pub(super) fn operation_id(id: String) -> Result<String, Status> {
    let good = (1..=256).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    if good {
        return Ok(id);
    }
    Err(Status::invalid_argument(
        "operation_id must be 1 to 256 visible ASCII characters without spaces",
    ))
}

/// A duration in the request; at most a day, so that sums cannot overflow.
pub(super) fn time(
    name: &str,
    value: Option<&prost_types::Duration>,
) -> Result<Option<Duration>, Status> {
    let wrong = |error: TimeError| Status::invalid_argument(format!("{name}: {error}"));
    let value = duration_if_set(value).map_err(wrong)?;
    if value.is_some_and(|value| value > Duration::from_secs(86_400)) {
        return Err(Status::invalid_argument(format!(
            "{name}: longer than a day"
        )));
    }
    Ok(value)
}
