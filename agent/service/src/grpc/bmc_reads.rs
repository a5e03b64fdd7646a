//! Readings of a BMC other than power.

use std::time::Duration;

use jiff::Timestamp;
use rackhand_bmc::{
    Bmc, BmcFuture, Facts, Topology,
    operation::{longer_limit, updates_limit},
};
use rackhand_proto::{
    convert::timestamp_to_proto,
    v1::{
        self, read_bmc_response::Result as ReadBmc, read_boot_response::Result as Boot,
        read_events_response::Result as Events, read_sensors_response::Result as Sensors,
        read_updates_response::Result as Updates,
    },
};
use tokio::time::Instant;
use tonic::{Request, Response};

use super::{
    Answer,
    caller::Caller,
    convert::{boot_to_proto, log_to_proto, sensors_to_proto},
    targets::{RECORDS, Targets},
};
use crate::{
    convert::{failure_to_proto, update_to_proto},
    engine::{Reads, Target},
};

/// Number of entries of an event log that are read where the request names none.
const DEFAULT_EVENTS: u32 = 50;
const MAX_EVENTS: u32 = 1000;

/// Several calls, one after the other.
const CHECK_CALLS: u32 = 3;

/// The number of entries to read for a request of `limit`.
pub(super) fn entries(limit: u32) -> usize {
    let most = match limit {
        0 => DEFAULT_EVENTS,
        most => most.min(MAX_EVENTS),
    };
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The calls that read a BMC.
#[derive(Clone)]
pub(super) struct BmcReadCalls {
    targets: Targets,
    reads: Reads,
}

impl BmcReadCalls {
    pub(super) fn new(targets: Targets, reads: Reads) -> Self {
        Self { targets, reads }
    }

    /// Reads something; a failure of the BMC is part of the response, not an error of the call.
    async fn read<T: Send>(
        &self,
        target: &Target,
        limit: Duration,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Result<T, v1::Failure> {
        let read = self.reads.other(target, limit, call).await;
        read.map_err(|error| failure_to_proto(&target.host, &error))
    }

    pub(super) async fn boot(
        &self,
        request: Request<v1::ReadBootRequest>,
    ) -> Answer<v1::ReadBootResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
        let result = match self.read(&target, limit, |bmc| bmc.boot()).await {
            Ok(boot) => Boot::Boot(boot_to_proto(boot)),
            Err(failure) => Boot::Failure(failure),
        };
        Ok(Response::new(v1::ReadBootResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn sensors(
        &self,
        request: Request<v1::ReadSensorsRequest>,
    ) -> Answer<v1::ReadSensorsResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        let result = match self.read(&target, limit, |bmc| bmc.sensors()).await {
            Ok(sensors) => Sensors::Sensors(sensors_to_proto(sensors)),
            Err(failure) => Sensors::Failure(failure),
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
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        let most = entries(request.limit);
        let log = self
            .read(&target, limit, move |bmc| bmc.event_log(most))
            .await;
        let result = match log {
            Ok(log) => Events::Log(log_to_proto(log)),
            Err(failure) => Events::Failure(failure),
        };
        Ok(Response::new(v1::ReadEventsResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn facts(
        &self,
        request: Request<v1::ReadBmcRequest>,
    ) -> Answer<v1::ReadBmcResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        let begun = Instant::now();
        let facts = self.read(&target, limit, |bmc| bmc.facts()).await;
        let read_at = Timestamp::now();
        let topology = if facts.is_ok() && request.topology {
            let left = limit.saturating_sub(begun.elapsed());
            let read = self.read(&target, left, |bmc| bmc.topology());
            // A BMC that reports no topology has not failed.
            read.await.ok().map(topology_to_proto)
        } else {
            None
        };
        let result = match facts {
            Ok(facts) => ReadBmc::Facts(v1::BmcFacts {
                topology,
                ..facts_to_proto(facts, read_at)
            }),
            Err(failure) => ReadBmc::Failure(failure),
        };
        Ok(Response::new(v1::ReadBmcResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn updates(
        &self,
        request: Request<v1::ReadUpdatesRequest>,
    ) -> Answer<v1::ReadUpdatesResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        // How fast the BMC is now. One that does not report even its power in the least time for its updates reports no
        // updates either, and must not hold up what waits for them.
        let begun = Instant::now();
        let least = updates_limit(Duration::ZERO).min(limit);
        let updates = match self.read(&target, least, |bmc| bmc.power()).await {
            Err(failure) => Err(failure),
            Ok(_) => {
                let took = begun.elapsed();
                let first = updates_limit(took).min(limit.saturating_sub(took));
                let asked = Instant::now();
                let found = self
                    .read(&target, first, move |bmc| bmc.firmware_updates(first))
                    .await;
                let longer = found.as_ref().ok();
                let longer = longer.and_then(|found| longer_limit(first, asked.elapsed(), found));
                let left = limit.saturating_sub(begun.elapsed());
                match longer.map(|longer| longer.min(left)) {
                    Some(longer) if longer > first => {
                        self.read(&target, longer, move |bmc| bmc.firmware_updates(longer))
                            .await
                    }
                    _ => found,
                }
            }
        };
        let result = match updates {
            Ok(found) => Updates::Updates(v1::FirmwareUpdates {
                updates: found.updates.iter().map(update_to_proto).collect(),
                read: found.read,
                unread: found.unread,
            }),
            Err(failure) => Updates::Failure(failure),
        };
        Ok(Response::new(v1::ReadUpdatesResponse {
            result: Some(result),
        }))
    }

    /// The diagnosis of one host.
    pub(super) async fn check(
        &self,
        request: Request<v1::CheckHostRequest>,
    ) -> Answer<v1::CheckHostResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), CHECK_CALLS)?;
        let checks = match self.reads.check(&target, limit).await? {
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
