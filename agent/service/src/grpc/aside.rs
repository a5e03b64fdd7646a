//! Boot override, identify LED, sensors and event log.

use std::time::Duration;

use rackhand_bmc::{Accepted, BmcError, ErrorKind, Identify};
use rackhand_proto::v1::{
    self, clear_events_response::Result as Cleared, identify_response::Result as Identified,
    read_boot_response::Result as Boot, read_events_response::Result as Events,
    read_sensors_response::Result as Sensors, set_boot_response::Result as BootSet,
};
use tonic::{Request, Response, Status};

use super::{
    LONGEST_READ, PowerService,
    caller::Caller,
    convert::{boot_from_proto, boot_to_proto, changed, log_to_proto, sensors_to_proto},
    wish::time,
};
use crate::engine::{Change, wire::failure_to_proto};

/// Entries of a log that nobody has named a number for.
const USUAL_EVENTS: u32 = 50;
const MOST_EVENTS: u32 = 1000;
/// What reads a record at a time takes longer than one call.
const RECORDS: u32 = 3;

type Answer<T> = Result<Response<T>, Status>;

impl PowerService {
    pub(super) async fn boot(
        &self,
        request: Request<v1::ReadBootRequest>,
    ) -> Answer<v1::ReadBootResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        let boot = self.engine.look(&target, limit, |bmc| bmc.boot()).await;
        let result = match boot {
            Ok(boot) => Boot::Boot(boot_to_proto(boot)),
            Err(error) => Boot::Failure(failure_to_proto(&target.host, &error)),
        };
        Ok(Response::new(v1::ReadBootResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn boot_set(
        &self,
        request: Request<v1::SetBootRequest>,
    ) -> Answer<v1::SetBootResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "set a boot device")?;
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        let boot = boot_from_proto(request.boot)?;
        let change = Change {
            action: "boot-device",
            what: format!("boot override {boot:?}"),
            owner,
            minds_holds: true,
            force: request.force,
        };
        let host = target.host.clone();
        let set = self
            .engine
            .change(target, limit, change, move |bmc| bmc.set_boot(boot))
            .await?;
        let result = match of(&host, set) {
            Ok(changed) => BootSet::Changed(changed),
            Err(failure) => BootSet::Failure(failure),
        };
        Ok(Response::new(v1::SetBootResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn lit(
        &self,
        request: Request<v1::IdentifyRequest>,
    ) -> Answer<v1::IdentifyResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "set an identify LED")?;
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        let wanted = match (request.lit, time("lit_for", request.lit_for.as_ref())?) {
            (true, Some(time)) => Identify::For(time),
            (true, None) => Identify::On,
            (false, None) => Identify::Off,
            (false, Some(_)) => {
                return Err(Status::invalid_argument(
                    "lit_for: only for a LED that is lit",
                ));
            }
        };
        let set = |wanted: Identify| {
            let change = Change {
                action: "identify",
                what: format!("identify LED {wanted:?}"),
                owner: owner.clone(),
                minds_holds: false,
                force: false,
            };
            let engine = &self.engine;
            engine.change(target.clone(), limit, change, move |bmc| {
                bmc.identify(wanted)
            })
        };
        let host = target.host.clone();
        let mut lit = set(wanted).await?;
        // Redfish has no timer, and IPMI's ends at 255 s: ours does for both.
        if let (Err(error), Identify::For(time)) = (&lit, wanted)
            && error.kind == ErrorKind::Unsupported
        {
            lit = set(Identify::On).await?;
            if lit.is_ok() {
                self.engine.put_out_after(time, target, owner);
            }
        }
        let result = match of(&host, lit) {
            Ok(changed) => Identified::Changed(changed),
            Err(failure) => Identified::Failure(failure),
        };
        Ok(Response::new(v1::IdentifyResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn sensors(
        &self,
        request: Request<v1::ReadSensorsRequest>,
    ) -> Answer<v1::ReadSensorsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
        let sensors = self.engine.look(&target, limit, |bmc| bmc.sensors()).await;
        let result = match sensors {
            Ok(sensors) => Sensors::Sensors(sensors_to_proto(sensors)),
            Err(error) => Sensors::Failure(failure_to_proto(&target.host, &error)),
        };
        Ok(Response::new(v1::ReadSensorsResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Answer<v1::ReadEventsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
        let most = match request.limit {
            0 => USUAL_EVENTS,
            most => most.min(MOST_EVENTS),
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let log = self
            .engine
            .look(&target, limit, move |bmc| bmc.event_log(most))
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
        };
        let host = target.host.clone();
        let cleared = self
            .engine
            .change(target, limit, change, |bmc| bmc.clear_event_log())
            .await?;
        let result = match of(&host, cleared) {
            Ok(changed) => Cleared::Changed(changed),
            Err(failure) => Cleared::Failure(failure),
        };
        Ok(Response::new(v1::ClearEventsResponse {
            result: Some(result),
        }))
    }

    /// How long a call may take; `calls`: so many times the usual, where nobody says.
    pub(super) fn limit(
        &self,
        asked: Option<&prost_types::Duration>,
        calls: u32,
    ) -> Result<Duration, Status> {
        let usual = self.engine.config().times.call.saturating_mul(calls);
        Ok(time("timeout", asked)?.unwrap_or(usual).min(LONGEST_READ))
    }
}

/// Whose hand it is. A controller switches power and nothing else.
fn by_hand(caller: &Caller, what: &str) -> Result<String, Status> {
    match caller {
        Caller::Operator(name) => Ok(format!("operator {name}")),
        Caller::Controller => Err(Status::permission_denied(format!(
            "only an operator may {what}"
        ))),
    }
}

fn of(host: &str, result: Result<Accepted, BmcError>) -> Result<v1::Changed, v1::Failure> {
    match result {
        Ok(accepted) => Ok(changed(accepted)),
        Err(error) => {
            let mut failure = failure_to_proto(host, &error);
            if error.maybe_sent {
                failure
                    .message
                    .push_str("; it may be done all the same: look before asking again");
            }
            Err(failure)
        }
    }
}
