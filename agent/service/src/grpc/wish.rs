//! A request to begin, judged as far as that needs no journal.

use std::time::Duration;

use rackhand_proto::{
    convert::{TimeError, duration_if_set},
    v1::{self, begin_request::Action as Asked},
};
use tonic::Status;

use super::caller::{Caller, owner};
use crate::{
    config::Times,
    engine::{Engine, Wish, resolve},
    journal::{Action, Authority},
    operation::{self, Goal, Pace},
};

/// Longer operations are a mistake: nobody would wait for them, and they block their host.
const LONGEST: Duration = Duration::from_secs(3600);

pub(super) fn wish(
    engine: &Engine,
    times: &Times,
    caller: Caller,
    request: v1::BeginRequest,
) -> Result<Wish, Status> {
    let id = operation_id(request.operation_id)?;
    let is_controller = caller.is_controller();
    let target = resolve(
        &engine.inventory,
        &engine.rack,
        request.target,
        is_controller,
    )?;
    let authority = caller.authority(request.term, Some(request.sequence))?;
    let owner = owner(&authority, request.owner)?;
    let expected = target.expected(request.expect.as_ref())?;
    let deadline = time("deadline", request.deadline.as_ref())?.unwrap_or(times.operation);
    if deadline > LONGEST {
        return Err(Status::invalid_argument(format!(
            "deadline: longer than {LONGEST:?}"
        )));
    }
    let (action, goal) = match request.action {
        None => return Err(Status::invalid_argument("no action: power_off or power_on")),
        Some(Asked::PowerOn(_)) => (Action::On, Goal::On),
        Some(Asked::PowerOff(off)) => {
            let action = Action::Off { hold: off.hold };
            (action, off_goal(&off, deadline)?)
        }
    };
    if action == (Action::Off { hold: true })
        && owner.trim().is_empty()
        && matches!(authority, Authority::Controller { .. })
    {
        return Err(Status::invalid_argument("a hold needs an owner"));
    }
    Ok(Wish {
        id,
        target,
        action,
        asked: operation::Asked {
            goal,
            deadline,
            expected,
            pace: Pace {
                poll_max: times.poll_max,
                resend_after: times.resend_after,
                ..Pace::default()
            },
        },
        owner,
        authority,
        force: request.force,
    })
}

fn off_goal(off: &v1::PowerOff, deadline: Duration) -> Result<Goal, Status> {
    let confirmations = match off.confirmations {
        0 => 2,
        1 => {
            return Err(Status::invalid_argument(
                "confirmations: one reading of off is not a confirmation; at least 2",
            ));
        }
        n if n > 10 => return Err(Status::invalid_argument("confirmations: at most 10")),
        n => n,
    };
    let interval = time("confirm_interval", off.confirm_interval.as_ref())?;
    let confirm_interval = interval.unwrap_or(Duration::from_secs(2));
    let command_after = time("command_after", off.command_after.as_ref())?.unwrap_or_default();
    let least = confirm_interval * (confirmations - 1);
    if command_after + least >= deadline {
        return Err(Status::invalid_argument(format!(
            "deadline: {deadline:?} leaves no time to switch off after {command_after:?} and to \
             confirm it for {least:?}"
        )));
    }
    Ok(Goal::Off {
        confirmations,
        confirm_interval,
        command_after,
    })
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

/// A time of the request; the largest is a day, so that sums stay far from overflow.
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
