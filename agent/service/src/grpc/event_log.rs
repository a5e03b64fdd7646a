//! The event log of a host.

use rackhand_proto::v1::{
    self, clear_events_response::Result as Cleared, read_events_response::Result as Events,
};
use tonic::{Request, Response};

use super::{
    Answer, PowerService,
    bmc_call::{RECORDS, by_hand, changed_or_failure},
    caller::Caller,
    convert::log_to_proto,
};
use crate::engine::{Change, convert::failure_to_proto};

/// Number of entries that are read where the request names none.
const DEFAULT_EVENTS: u32 = 50;
const MAX_EVENTS: u32 = 1000;

/// The number of entries to read for a request of `limit`.
pub(super) fn entries(limit: u32) -> usize {
    let most = match limit {
        0 => DEFAULT_EVENTS,
        most => most.min(MAX_EVENTS),
    };
    usize::try_from(most).unwrap_or(usize::MAX)
}

impl PowerService {
    pub(super) async fn events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Answer<v1::ReadEventsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
        let most = entries(request.limit);
        let log = self
            .engine
            .read_other(&target, limit, move |bmc| bmc.event_log(most))
            .await;
        let result = match log {
            Ok(log) => Events::Log(log_to_proto(log)),
            Err(error) => Events::Failure(failure_to_proto(&target.host, &error)),
        };
        Ok(Response::new(v1::ReadEventsResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn events_cleared(
        &self,
        request: Request<v1::ClearEventsRequest>,
    ) -> Answer<v1::ClearEventsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "clear an event log")?;
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        let change = Change {
            action: "clear-events",
            what: "event log cleared".to_owned(),
            owner,
            minds_holds: true,
            force: request.force,
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let cleared = self
            .engine
            .change(target, limit, change, |bmc| bmc.clear_event_log())
            .await?;
        let result = match changed_or_failure(&host, cleared) {
            Ok(changed) => Cleared::Changed(changed),
            Err(failure) => Cleared::Failure(failure),
        };
        Ok(Response::new(v1::ClearEventsResponse {
            result: Some(result),
        }))
    }
}
