//! The diagnosis of one host.

use rackhand_proto::v1;
use tonic::{Request, Response, Status};

use super::{PowerService, caller::Caller};
use crate::engine::convert::failure_to_proto;

/// Several calls, one after the other.
const CALLS: u32 = 3;

impl PowerService {
    pub(super) async fn checked(
        &self,
        request: Request<v1::CheckHostRequest>,
    ) -> Result<Response<v1::CheckHostResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), CALLS)?;
        let checks = match self.engine.check(&target, limit).await? {
            Ok(checks) => checks,
            // For example a missing password: nothing further can be checked.
            Err(error) => vec![v1::Check {
                check: "credentials".to_owned(),
                verdict: v1::Verdict::Failed.into(),
                found: failure_to_proto(&target.host, &error).message,
                advice: "mend the inventory: `rackhand-agent check` shows what is wrong".to_owned(),
                bmc: target.address.to_string(),
                identity: None,
            }],
        };
        Ok(Response::new(v1::CheckHostResponse { checks }))
    }
}
