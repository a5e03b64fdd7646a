//! The sensors of a host.

use rackhand_proto::v1::{self, read_sensors_response::Result as Sensors};
use tonic::{Request, Response};

use super::{Answer, PowerService, bmc_call::RECORDS, caller::Caller, convert::sensors_to_proto};
use crate::engine::convert::failure_to_proto;

impl PowerService {
    pub(super) async fn sensors(
        &self,
        request: Request<v1::ReadSensorsRequest>,
    ) -> Answer<v1::ReadSensorsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
        let sensors = self
            .engine
            .read_other(&target, limit, |bmc| bmc.sensors())
            .await;
        let result = match sensors {
            Ok(sensors) => Sensors::Sensors(sensors_to_proto(sensors)),
            Err(error) => Sensors::Failure(failure_to_proto(&target.host, &error)),
        };
        Ok(Response::new(v1::ReadSensorsResponse {
            result: Some(result),
        }))
    }
}
