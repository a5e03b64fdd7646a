//! The BMC itself: its facts, its restart and its passwords.

use jiff::Timestamp;
use rackhand_bmc::{Facts, Topology};
use rackhand_proto::{
    convert::timestamp_to_proto,
    v1::{
        self, read_bmc_response::Result as Read, reset_bmc_response::Result as Reset,
        rotate_password_response::Result as Rotated,
    },
};
use tokio::time::Instant;
use tonic::{Request, Response};

use super::{
    Answer, PowerService,
    bmc_call::{RECORDS, by_hand, changed_or_failure},
    caller::Caller,
};
use crate::engine::{Change, Rotate, convert::failure_to_proto};

impl PowerService {
    pub(super) async fn bmc_facts(
        &self,
        request: Request<v1::ReadBmcRequest>,
    ) -> Answer<v1::ReadBmcResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
        let begun = Instant::now();
        let facts = self
            .engine
            .read_other(&target, limit, |bmc| bmc.facts())
            .await;
        let read_at = Timestamp::now();
        let topology = if facts.is_ok() && request.topology {
            let left = limit.saturating_sub(begun.elapsed());
            let read = self.engine.read_other(&target, left, |bmc| bmc.topology());
            // A BMC that reports no topology has not failed.
            read.await.ok().map(topology_to_proto)
        } else {
            None
        };
        let result = match facts {
            Ok(facts) => Read::Facts(v1::BmcFacts {
                topology,
                ..facts_to_proto(facts, read_at)
            }),
            Err(error) => Read::Failure(failure_to_proto(&target.host, &error)),
        };
        Ok(Response::new(v1::ReadBmcResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn bmc_reset(
        &self,
        request: Request<v1::ResetBmcRequest>,
    ) -> Answer<v1::ResetBmcResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "reset a BMC")?;
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), 1)?;
        // A remediation that holds the host off has to read its power state until it is on again (F3).
        let change = Change {
            action: "bmc-reset",
            what: "BMC reset".to_owned(),
            owner,
            minds_holds: true,
            force: request.force,
            id: self.change_id(&caller, request.call)?,
        };
        let host = target.host.clone();
        let sent = self
            .engine
            .change(target, limit, change, |bmc| bmc.reset_bmc())
            .await?;
        let result = match changed_or_failure(&host, sent) {
            Ok(changed) => Reset::Changed(changed),
            Err(failure) => Reset::Failure(failure),
        };
        Ok(Response::new(v1::ResetBmcResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn password_rotation(
        &self,
        request: Request<v1::RotatePasswordRequest>,
    ) -> Answer<v1::RotatePasswordResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let owner = by_hand(&caller, "rotate a password")?;
        let target = self.target(&caller, request.target)?;
        let limit = self.limit(request.timeout.as_ref(), RECORDS)?;
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
        let sent = self.engine.change_by(target, limit, change, work).await?;
        let result = match changed_or_failure(&host, sent) {
            Ok(changed) => Rotated::Changed(changed),
            Err(failure) => Rotated::Failure(failure),
        };
        Ok(Response::new(v1::RotatePasswordResponse {
            result: Some(result),
        }))
    }
}

fn facts_to_proto(facts: Facts, read_at: Timestamp) -> v1::BmcFacts {
    v1::BmcFacts {
        service: facts.service.unwrap_or_default(),
        firmware: facts.firmware.unwrap_or_default(),
        reset_types: facts.actions.unwrap_or_default(),
        privilege: facts.privilege.unwrap_or_default(),
        may_switch: facts.may_switch,
        cipher_suite: facts.suite.map(u32::from),
        cipher_suites: facts.suites.into_iter().flatten().map(u32::from).collect(),
        clock: facts.clock.map(timestamp_to_proto),
        read_at: Some(timestamp_to_proto(read_at)),
        topology: None,
    }
}

fn topology_to_proto(topology: Topology) -> v1::Topology {
    let neighbors = topology.neighbors.into_iter().map(|n| v1::Neighbor {
        port: n.port,
        chassis_id: n.chassis_id.unwrap_or_default(),
        port_id: n.port_id.unwrap_or_default(),
        system_name: n.system_name.unwrap_or_default(),
    });
    v1::Topology {
        rack: topology.rack.unwrap_or_default(),
        neighbors: neighbors.collect(),
    }
}
