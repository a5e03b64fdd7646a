//! The identify LED of a host.

use rackhand_bmc::{ErrorKind, Identify};
use rackhand_proto::v1::{self, identify_response::Result as Identified};
use tonic::{Request, Response, Status};

use super::{
    Answer, PowerService,
    bmc_call::{by_hand, changed_or_failure},
    caller::Caller,
    operation_request::time,
};
use crate::engine::Change;

impl PowerService {
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
                // Setting the LED twice does no harm.
                id: None,
            };
            let engine = &self.engine;
            engine.change(target.clone(), limit, change, move |bmc| {
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
                self.engine.switch_led_off_after(time, target, owner);
            }
        }
        let result = match changed_or_failure(&host, lit) {
            Ok(changed) => Identified::Changed(changed),
            Err(failure) => Identified::Failure(failure),
        };
        Ok(Response::new(v1::IdentifyResponse {
            result: Some(result),
        }))
    }
}
