//! The service `Power`.
//!
//! Owns: permissions, and the message of every refusal. Must never: trust a message about its
//! sender, answer a reading from a cache, or let a caller interrupt an operation by disconnecting.

mod attend;
mod bmc;
mod bmc_call;
mod boot_device;
mod caller;
mod checkup;
mod convert;
mod event_log;
mod evidence;
mod identify_led;
mod operation_request;
mod pdu;
mod sensors;
mod terms;
mod watch;

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt};
use rackhand_agent_core::ledger::{Device, Term};
use rackhand_proto::convert::duration_to_proto;
use rackhand_proto::v1::{self, power_server::Power, read_power_response::Result as Read};
use tonic::{Request, Response, Status};

use crate::{
    config::{HostEntry, Inventory},
    engine::{
        Engine, Target,
        convert::{failure_to_proto, reading_to_proto},
        resolve,
    },
    host_key::host_keys,
    journal::OperationFilter,
};
use caller::{Caller, check_term, owner};
use operation_request::{operation_id, power_device, time, validate};

type Answer<T> = Result<Response<T>, Status>;

/// Maximum time limit of one reading.
const LONGEST_READ: Duration = Duration::from_secs(60);
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// Default number of operations in a list.
const USUAL_LIST: u32 = 100;
const LONGEST_LIST: u32 = 1000;

/// The service. Cloning shares the engine.
#[derive(Clone)]
pub(crate) struct PowerService {
    engine: Engine,
}

impl PowerService {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn target(&self, caller: &Caller, target: Option<v1::Target>) -> Result<Target, Status> {
        resolve(&self.engine.config(), target, caller.is_controller())
    }

    /// The hosts of the inventory, and the holds in the journal.
    async fn hosts(&self) -> Result<v1::ListHostsResponse, Status> {
        let holds = self.engine.holds().await?;
        let held: Vec<_> = holds
            .iter()
            .map(|(key, hold)| (hold.keys(key), hold))
            .collect();
        let held_by = |host: &HostEntry| {
            if held.is_empty() {
                return String::new();
            }
            let of_host = host_keys(host);
            let mut held = held.iter();
            let held = held.find(|(keys, _)| keys.matches(&of_host));
            held.map(|(_, hold)| hold.owner.clone()).unwrap_or_default()
        };
        let config = self.engine.config();
        let hosts = config
            .inventory
            .hosts
            .iter()
            .map(|host| host_to_proto(&config.inventory, host, held_by(host)));
        Ok(v1::ListHostsResponse {
            rack: self.engine.rack.to_string(),
            hosts: hosts.collect(),
            journal: Some(self.engine.journal()),
            holds: holds
                .values()
                .map(|hold| v1::Hold {
                    host: hold.host.clone(),
                    owner: hold.owner.clone(),
                    election: hold.election.clone(),
                })
                .collect(),
        })
    }
}

/// Reads power; a failure of the BMC is part of the response, not an error of the call.
async fn read(engine: &Engine, target: &Target, device: Device, limit: Duration) -> Read {
    match engine.read(target, device, limit).await {
        Ok((reading, since_start)) => Read::Reading(reading_to_proto(&reading, since_start)),
        Err(error) => Read::Failure(failure_to_proto(&target.host, &error)),
    }
}

type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Power for PowerService {
    type WatchPowerStream = Streaming<v1::WatchPowerResponse>;
    type AttendStream = Streaming<v1::AttendResponse>;
    type AwaitStream = Streaming<v1::AwaitResponse>;

    async fn list_hosts(
        &self,
        request: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.hosts().await?))
    }

    async fn read_power(
        &self,
        request: Request<v1::ReadPowerRequest>,
    ) -> Result<Response<v1::ReadPowerResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let device = power_device(request.device, &target)?;
        let limit = time("timeout", request.timeout.as_ref())?.unwrap_or(target.config.times.call);
        let result = read(&self.engine, &target, device, limit.min(LONGEST_READ)).await;
        Ok(Response::new(v1::ReadPowerResponse {
            result: Some(result),
        }))
    }

    async fn watch_power(
        &self,
        request: Request<v1::WatchPowerRequest>,
    ) -> Result<Response<Self::WatchPowerStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.target(&caller, request.target)?;
        let interval = time("interval", request.interval.as_ref())?.unwrap_or_default();
        let interval = interval.max(SHORTEST_WATCH);
        let watch = watch::watch(self.engine.clone(), target, interval);
        Ok(Response::new(Box::pin(watch)))
    }

    async fn claim_term(
        &self,
        request: Request<v1::ClaimTermRequest>,
    ) -> Result<Response<v1::ClaimTermResponse>, Status> {
        if !Caller::of(&request)?.is_controller() {
            return Err(Status::permission_denied(
                "only a controller has a leader term",
            ));
        }
        let v1::ClaimTermRequest {
            term,
            standby,
            known_journals,
            sequence,
            list_hosts,
        } = request.into_inner();
        let term = check_term(term)?;
        self.engine.check_journal(&known_journals).await?;
        let asked = Term {
            number: term.number,
            holder: term.holder,
            standby,
            sequence,
        };
        let result = self.engine.claim(term.election, asked).await?;
        let hosts = match result {
            Ok(_) if list_hosts => Some(self.hosts().await?),
            _ => None,
        };
        Ok(Response::new(v1::ClaimTermResponse {
            accepted: result.is_ok(),
            highest: result.unwrap_or_else(|known| known.number),
            instance: self.engine.instance.to_string(),
            journal: Some(self.engine.journal()),
            since_start: Some(duration_to_proto(self.engine.since_start())),
            hosts,
        }))
    }

    async fn list_terms(
        &self,
        request: Request<v1::ListTermsRequest>,
    ) -> Result<Response<v1::ListTermsResponse>, Status> {
        self.terms(request).await
    }

    async fn set_back_term(
        &self,
        request: Request<v1::SetBackTermRequest>,
    ) -> Result<Response<v1::SetBackTermResponse>, Status> {
        self.term_set_back(request).await
    }

    async fn attend(
        &self,
        request: Request<tonic::Streaming<v1::AttendRequest>>,
    ) -> Answer<Self::AttendStream> {
        self.attended(request).await
    }

    async fn begin(
        &self,
        request: Request<v1::BeginRequest>,
    ) -> Result<Response<v1::BeginResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = validate(&self.engine, caller, request.into_inner())?;
        let (started, status) = self.engine.begin(request).await?;
        Ok(Response::new(v1::BeginResponse {
            started,
            status: Some(status),
            journal: Some(self.engine.journal()),
        }))
    }

    async fn r#await(
        &self,
        request: Request<v1::AwaitRequest>,
    ) -> Result<Response<Self::AwaitStream>, Status> {
        Caller::of(&request)?;
        let id = operation_id(request.into_inner().operation_id)?;
        let events = self.engine.follow(&id).await?;
        Ok(Response::new(Box::pin(events.map(Ok))))
    }

    async fn list_operations(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Result<Response<v1::ListOperationsResponse>, Status> {
        Caller::of(&request)?;
        let request = request.into_inner();
        let limit = match request.limit {
            0 => USUAL_LIST,
            limit => limit.min(LONGEST_LIST),
        };
        let asked = OperationFilter {
            id: Some(request.operation_id).filter(|id| !id.is_empty()),
            host: Some(request.host).filter(|host| !host.is_empty()),
            owner: Some(request.owner).filter(|owner| !owner.is_empty()),
            running_only: request.running_only,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let operations = self.engine.operations(asked).await?;
        Ok(Response::new(v1::ListOperationsResponse { operations }))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let id = operation_id(request.operation_id)?;
        let authority = caller.authority(request.term, None)?;
        let status = self.engine.cancel(&id, authority, request.force).await?;
        Ok(Response::new(v1::CancelResponse {
            status: Some(status),
        }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let name = request.target.as_ref().map(|target| target.host.clone());
        let target = self.target(&caller, request.target);
        let target = target.map_err(|status| (name.unwrap_or_default(), status));
        let authority = caller.authority(request.term, Some(request.sequence))?;
        let owner = owner(&authority, request.owner)?;
        let released = self
            .engine
            .release(target, authority, owner, request.force)
            .await?;
        Ok(Response::new(v1::ReleaseResponse { released }))
    }

    async fn read_boot(
        &self,
        request: Request<v1::ReadBootRequest>,
    ) -> Result<Response<v1::ReadBootResponse>, Status> {
        self.boot(request).await
    }

    async fn set_boot(
        &self,
        request: Request<v1::SetBootRequest>,
    ) -> Result<Response<v1::SetBootResponse>, Status> {
        self.boot_set(request).await
    }

    async fn identify(
        &self,
        request: Request<v1::IdentifyRequest>,
    ) -> Result<Response<v1::IdentifyResponse>, Status> {
        self.lit(request).await
    }

    async fn read_sensors(
        &self,
        request: Request<v1::ReadSensorsRequest>,
    ) -> Result<Response<v1::ReadSensorsResponse>, Status> {
        self.sensors(request).await
    }

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<v1::ReadEventsResponse>, Status> {
        self.events(request).await
    }

    async fn clear_events(
        &self,
        request: Request<v1::ClearEventsRequest>,
    ) -> Result<Response<v1::ClearEventsResponse>, Status> {
        self.events_cleared(request).await
    }

    async fn read_bmc(
        &self,
        request: Request<v1::ReadBmcRequest>,
    ) -> Result<Response<v1::ReadBmcResponse>, Status> {
        self.bmc_facts(request).await
    }

    async fn collect_evidence(
        &self,
        request: Request<v1::CollectEvidenceRequest>,
    ) -> Result<Response<v1::CollectEvidenceResponse>, Status> {
        self.evidence(request).await
    }

    async fn reset_bmc(
        &self,
        request: Request<v1::ResetBmcRequest>,
    ) -> Result<Response<v1::ResetBmcResponse>, Status> {
        self.bmc_reset(request).await
    }

    async fn rotate_password(
        &self,
        request: Request<v1::RotatePasswordRequest>,
    ) -> Result<Response<v1::RotatePasswordResponse>, Status> {
        self.password_rotation(request).await
    }

    async fn check_host(
        &self,
        request: Request<v1::CheckHostRequest>,
    ) -> Result<Response<v1::CheckHostResponse>, Status> {
        self.checked(request).await
    }

    async fn list_pdus(
        &self,
        request: Request<v1::ListPdusRequest>,
    ) -> Result<Response<v1::ListPdusResponse>, Status> {
        self.pdus(&request)
    }

    async fn read_pdu(
        &self,
        request: Request<v1::ReadPduRequest>,
    ) -> Result<Response<v1::ReadPduResponse>, Status> {
        self.pdu_read(request).await
    }
}

/// The protocols of all drivers, in order.
fn addresses(host: &HostEntry) -> String {
    let addresses: Vec<String> = host.bmcs().map(|bmc| bmc.address.to_string()).collect();
    addresses.join(", ")
}

fn host_to_proto(inventory: &Inventory, host: &HostEntry, held_by: String) -> v1::Host {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    v1::Host {
        name: host.name.clone(),
        node_name: text(&host.node_name),
        cluster: text(&host.cluster),
        provider_id: text(&host.provider_id),
        system_uuid: text(&host.system_uuid),
        no_system_uuid: host.no_system_uuid,
        serial: text(&host.serial),
        bmc: addresses(host),
        held_by,
        insecure: host
            .bmcs()
            .any(|bmc| bmc.trust == rackhand_bmc::Trust::Insecure),
        labels: host.labels.clone().into_iter().collect(),
        position: text(&host.position),
        pdu: text(&host.pdu),
        outlets: (host.outlets.iter())
            .map(|outlet| pdu::outlet_to_proto(inventory, outlet))
            .collect(),
    }
}
