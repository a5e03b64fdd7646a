//! Changes of a BMC other than power, for operators.

use std::sync::Arc;

use rackhand_bmc::{Accepted, BmcError, ErrorKind, Identify, operation::DuringUpdate};
use rackhand_proto::v1::{
    self, clear_events_response::Result as Cleared, identify_response::Result as Identified,
    reset_bmc_response::Result as Reset, rotate_password_response::Result as Rotated,
    set_boot_response::Result as BootSet,
};
use tonic::{Request, Response, Status};

use super::{
    Answer,
    caller::{Caller, by_hand, living},
    convert::{boot_from_proto, changed},
    operation_request::{operation_id, time},
    targets::{RECORDS, Targets},
};
use crate::{
    convert::failure_to_proto,
    engine::{BmcChanges, Callers, Change, ChangeId, ResetBmc, Rotate},
};

/// The calls that change a BMC.
#[derive(Clone)]
pub(super) struct BmcChangeCalls {
    targets: Targets,
    changes: BmcChanges,
    callers: Arc<Callers>,
}

impl BmcChangeCalls {
    pub(super) fn new(targets: Targets, changes: BmcChanges, callers: Arc<Callers>) -> Self {
        Self {
            targets,
            changes,
            callers,
        }
    }

    /// The id of a change, and the lease of the caller; `None`: the request has no id.
    fn change_id(
        &self,
        caller: &Caller,
        call: Option<v1::ChangeCall>,
    ) -> Result<Option<ChangeId>, Status> {
        let Some(call) = call else {
            return Ok(None);
        };
        Ok(Some(ChangeId {
            operation: operation_id(call.operation_id)?,
            caller: living(&self.callers, caller, &call.caller)?,
        }))
    }

    pub(super) async fn set_boot(
        &self,
        request: Request<v1::SetBootRequest>,
    ) -> Answer<v1::SetBootResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "set a boot device")?;
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
        let boot = boot_from_proto(request.boot)?;
        let change = Change {
            action: "boot-device",
            what: format!("boot override {boot:?}"),
            owner,
            minds_holds: true,
            force: request.force,
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let set = self
            .changes
            .change(target, limit, change, move |bmc| bmc.set_boot(boot))
            .await?;
        let result = match changed_or_failure(&host, set) {
            Ok(changed) => BootSet::Changed(changed),
            Err(failure) => BootSet::Failure(failure),
        };
        Ok(Response::new(v1::SetBootResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn identify(
        &self,
        request: Request<v1::IdentifyRequest>,
    ) -> Answer<v1::IdentifyResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = match &caller {
            // A controller that is gone leaves no LED lit.
            Caller::Controller if request.lit && request.lit_for.is_none() => {
                return Err(Status::invalid_argument(
                    "lit_for: a controller lights a LED only for a time",
                ));
            }
            Caller::Controller => "the controller".to_owned(),
            Caller::Operator(_) => by_hand(&caller, "set an identify LED")?,
        };
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
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
                // Setting the LED twice does no harm.
                id: None,
            };
            let changes = &self.changes;
            changes.change(target.clone(), limit, change, move |bmc| {
                bmc.identify(wanted)
            })
        };
        let host = target.host.clone();
        let mut lit = set(wanted).await?;
        // Redfish has no timer, and that of IPMI ends at 255 s; the agent then uses its own.
        if let (Err(error), Identify::For(time)) = (&lit, wanted)
            && error.kind == ErrorKind::Unsupported
        {
            lit = set(Identify::On).await?;
            if lit.is_ok() {
                self.changes.switch_led_off_after(time, target, owner);
            }
        } else if lit.is_ok() {
            self.changes.end_led_timer(&host);
        }
        let result = match changed_or_failure(&host, lit) {
            Ok(changed) => Identified::Changed(changed),
            Err(failure) => Identified::Failure(failure),
        };
        Ok(Response::new(v1::IdentifyResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn clear_events(
        &self,
        request: Request<v1::ClearEventsRequest>,
    ) -> Answer<v1::ClearEventsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "clear an event log")?;
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
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
            .changes
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

    pub(super) async fn reset(
        &self,
        request: Request<v1::ResetBmcRequest>,
    ) -> Answer<v1::ResetBmcResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "reset a BMC")?;
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
        let (during_update, what) = match request.during_firmware_update {
            false => (DuringUpdate::Refuse, "BMC reset"),
            true => (
                DuringUpdate::Proceed,
                "BMC reset, also during an update of firmware",
            ),
        };
        // A remediation that holds the host off has to read its power state until it is on again (F3).
        let change = Change {
            action: "bmc-reset",
            what: what.to_owned(),
            owner,
            minds_holds: true,
            force: request.force,
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let work = ResetBmc { during_update };
        let sent = self.changes.change_by(target, limit, change, work).await?;
        let result = match changed_or_failure(&host, sent) {
            Ok(changed) => Reset::Changed(changed),
            Err(failure) => Reset::Failure(failure),
        };
        Ok(Response::new(v1::ResetBmcResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn rotate_password(
        &self,
        request: Request<v1::RotatePasswordRequest>,
    ) -> Answer<v1::RotatePasswordResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "rotate a password")?;
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        // While the valid password is unknown, it may be impossible to switch the host on again (F3).
        let change = Change {
            action: "rotate-password",
            what: "rotate the password of the BMC".to_owned(),
            owner,
            minds_holds: true,
            force: request.force,
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let work = Rotate {
            only_interrupted: false,
        };
        let sent = self.changes.change_by(target, limit, change, work).await?;
        let result = match changed_or_failure(&host, sent) {
            Ok(changed) => Rotated::Changed(changed),
            Err(failure) => Rotated::Failure(failure),
        };
        Ok(Response::new(v1::RotatePasswordResponse {
            result: Some(result),
        }))
    }
}

fn changed_or_failure(
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
