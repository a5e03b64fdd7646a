//! Common parts of the calls that read or change something other than power: time limit, permission
//! and response.

use std::time::Duration;

use rackhand_bmc::{Accepted, BmcError};
use rackhand_proto::v1;
use tonic::Status;

use super::{
    LONGEST_READ, PowerService,
    caller::Caller,
    convert::changed,
    operation_request::{living, operation_id, time},
};
use crate::engine::{ChangeId, convert::failure_to_proto};

/// Reading sensors or an event log takes many requests; the default limit is that of this many calls.
pub(super) const RECORDS: u32 = 3;

impl PowerService {
    /// The time limit of a call; the default is that of `calls` BMC calls.
    pub(super) fn limit(
        &self,
        asked: Option<&prost_types::Duration>,
        calls: u32,
    ) -> Result<Duration, Status> {
        let usual = self.engine.config().times.call.saturating_mul(calls);
        Ok(time("timeout", asked)?.unwrap_or(usual).min(LONGEST_READ))
    }

    /// The id of a change, and the lease of the caller; `None`: the request has no id.
    pub(super) fn change_id(
        &self,
        caller: &Caller,
        call: Option<v1::ChangeCall>,
    ) -> Result<Option<ChangeId>, Status> {
        let Some(call) = call else {
            return Ok(None);
        };
        Ok(Some(ChangeId {
            operation: operation_id(call.operation_id)?,
            caller: living(&self.engine, caller, &call.caller)?,
        }))
    }
}

/// The operator who calls. A controller may switch power and nothing else.
pub(super) fn by_hand(caller: &Caller, what: &str) -> Result<String, Status> {
    match caller {
        Caller::Operator(name) => Ok(format!("operator {name}")),
        Caller::Controller => Err(Status::permission_denied(format!(
            "only an operator may {what}"
        ))),
    }
}

pub(super) fn changed_or_failure(
    host: &str,
    result: Result<Accepted, BmcError>,
) -> Result<v1::Changed, v1::Failure> {
    match result {
        Ok(accepted) => Ok(changed(accepted)),
        Err(error) => {
            let mut failure = failure_to_proto(host, &error);
            if error.maybe_sent {
                failure
                    .message
                    .push_str("; it may have taken effect: check before you repeat it");
            }
            Err(failure)
        }
    }
}
