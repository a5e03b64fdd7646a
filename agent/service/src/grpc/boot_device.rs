//! The boot device of a host.

use rackhand_proto::v1::{
    self, read_boot_response::Result as Boot, set_boot_response::Result as BootSet,
};
use tonic::{Request, Response};

use super::{
    Answer, PowerService,
    bmc_call::{by_hand, changed_or_failure},
    caller::Caller,
    convert::{boot_from_proto, boot_to_proto},
};
use crate::engine::{Change, convert::failure_to_proto};

impl PowerService {
    pub(super) async fn boot(
        &self,
        request: Request<v1::ReadBootRequest>,
    ) -> Answer<v1::ReadBootResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        let boot = self
            .engine
            .read_other(&target, limit, |bmc| bmc.boot())
            .await;
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
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let set = self
            .engine
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
}
