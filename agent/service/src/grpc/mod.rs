//! The service `Power`.
//!
//! Owns: permissions, and the message of every refusal. Each group of calls is a type of its own, with what it needs.
//! Must never: trust a message about its sender, answer a reading from a cache, or let a caller interrupt an
//! operation by disconnecting.

mod attend;
mod bmc_changes;
mod bmc_reads;
mod caller;
mod convert;
mod failure_report;
mod hosts;
mod operation_request;
mod operations;
mod pdu;
mod power_reads;
mod targets;
mod terms;
mod watch_hosts;

use std::pin::Pin;

use futures::Stream;
use rackhand_proto::v1::{self, power_server::Power};
use tonic::{Request, Response, Status};

use crate::engine::Engine;
use attend::AttendCalls;
use bmc_changes::BmcChangeCalls;
use bmc_reads::BmcReadCalls;
use caller::Caller;
use failure_report::ReportCalls;
use hosts::HostList;
use operation_request::RequestValidator;
use operations::OperationCalls;
use pdu::PduCalls;
use power_reads::PowerReadCalls;
use targets::Targets;
use terms::TermCalls;
use watch_hosts::WatchHostsCalls;

type Answer<T> = Result<Response<T>, Status>;
type Streaming<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The service: every group of calls.
#[derive(Clone)]
pub(crate) struct PowerService {
    hosts: HostList,
    power_reads: PowerReadCalls,
    watch_hosts: WatchHostsCalls,
    terms: TermCalls,
    attend: AttendCalls,
    operations: OperationCalls,
    bmc_reads: BmcReadCalls,
    bmc_changes: BmcChangeCalls,
    reports: ReportCalls,
    pdus: PduCalls,
}

impl PowerService {
    pub(crate) fn new(engine: &Engine) -> Self {
        let engine = engine.clone();
        let targets = Targets::new(engine.settings.clone());
        let hosts = HostList {
            settings: engine.settings.clone(),
            holds: engine.holds.clone(),
            journal: engine.journal_status.clone(),
        };
        let validator = RequestValidator {
            settings: engine.settings,
            callers: engine.callers.clone(),
            instance: engine.instance.clone(),
        };
        Self {
            power_reads: PowerReadCalls {
                targets: targets.clone(),
                reads: engine.reads.clone(),
                closing: engine.tasks.closing(),
            },
            watch_hosts: WatchHostsCalls {
                targets: targets.clone(),
                watches: engine.host_watches,
                instance: engine.instance.clone(),
                closing: engine.tasks.closing(),
            },
            terms: TermCalls {
                terms: engine.terms,
                hosts: hosts.clone(),
                journal: engine.journal_status.clone(),
                instance: engine.instance,
                clock: engine.clock,
            },
            attend: AttendCalls {
                callers: engine.callers.clone(),
                tasks: engine.tasks,
            },
            operations: OperationCalls {
                targets: targets.clone(),
                validator: validator.clone(),
                operations: engine.operations.clone(),
                holds: engine.holds,
                journal: engine.journal_status,
            },
            bmc_reads: BmcReadCalls::new(targets.clone(), engine.reads.clone()),
            bmc_changes: BmcChangeCalls::new(targets.clone(), engine.changes, engine.callers),
            reports: ReportCalls {
                targets: targets.clone(),
                reads: engine.reads.clone(),
                validator,
                operations: engine.operations,
            },
            pdus: PduCalls {
                targets,
                reads: engine.reads,
            },
            hosts,
        }
    }
}

#[tonic::async_trait]
impl Power for PowerService {
    type WatchPowerStream = Streaming<v1::WatchPowerResponse>;
    type WatchHostsStream = Streaming<v1::WatchHostsResponse>;
    type AttendStream = Streaming<v1::AttendResponse>;
    type AwaitStream = Streaming<v1::AwaitResponse>;

    async fn list_hosts(
        &self,
        request: Request<v1::ListHostsRequest>,
    ) -> Answer<v1::ListHostsResponse> {
        Caller::of(&request)?;
        Ok(Response::new(self.hosts.list().await?))
    }

    async fn read_power(
        &self,
        request: Request<v1::ReadPowerRequest>,
    ) -> Answer<v1::ReadPowerResponse> {
        self.power_reads.read(request).await
    }

    async fn watch_power(
        &self,
        request: Request<v1::WatchPowerRequest>,
    ) -> Answer<Self::WatchPowerStream> {
        self.power_reads.watch(request).await
    }

    async fn watch_hosts(
        &self,
        request: Request<tonic::Streaming<v1::WatchHostsRequest>>,
    ) -> Answer<Self::WatchHostsStream> {
        self.watch_hosts.watch(request)
    }

    async fn claim_term(
        &self,
        request: Request<v1::ClaimTermRequest>,
    ) -> Answer<v1::ClaimTermResponse> {
        self.terms.claim(request).await
    }

    async fn list_terms(
        &self,
        request: Request<v1::ListTermsRequest>,
    ) -> Answer<v1::ListTermsResponse> {
        self.terms.list(request).await
    }

    async fn set_back_term(
        &self,
        request: Request<v1::SetBackTermRequest>,
    ) -> Answer<v1::SetBackTermResponse> {
        self.terms.set_back(request).await
    }

    async fn attend(
        &self,
        request: Request<tonic::Streaming<v1::AttendRequest>>,
    ) -> Answer<Self::AttendStream> {
        self.attend.attend(request).await
    }

    async fn begin(&self, request: Request<v1::BeginRequest>) -> Answer<v1::BeginResponse> {
        self.operations.begin(request).await
    }

    async fn r#await(&self, request: Request<v1::AwaitRequest>) -> Answer<Self::AwaitStream> {
        self.operations.follow(request).await
    }

    async fn list_operations(
        &self,
        request: Request<v1::ListOperationsRequest>,
    ) -> Answer<v1::ListOperationsResponse> {
        self.operations.list(request).await
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Answer<v1::CancelResponse> {
        self.operations.cancel(request).await
    }

    async fn release(&self, request: Request<v1::ReleaseRequest>) -> Answer<v1::ReleaseResponse> {
        self.operations.release(request).await
    }

    async fn read_boot(
        &self,
        request: Request<v1::ReadBootRequest>,
    ) -> Answer<v1::ReadBootResponse> {
        self.bmc_reads.boot(request).await
    }

    async fn set_boot(&self, request: Request<v1::SetBootRequest>) -> Answer<v1::SetBootResponse> {
        self.bmc_changes.set_boot(request).await
    }

    async fn identify(
        &self,
        request: Request<v1::IdentifyRequest>,
    ) -> Answer<v1::IdentifyResponse> {
        self.bmc_changes.identify(request).await
    }

    async fn read_sensors(
        &self,
        request: Request<v1::ReadSensorsRequest>,
    ) -> Answer<v1::ReadSensorsResponse> {
        self.bmc_reads.sensors(request).await
    }

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Answer<v1::ReadEventsResponse> {
        self.bmc_reads.events(request).await
    }

    async fn clear_events(
        &self,
        request: Request<v1::ClearEventsRequest>,
    ) -> Answer<v1::ClearEventsResponse> {
        self.bmc_changes.clear_events(request).await
    }

    async fn read_bmc(&self, request: Request<v1::ReadBmcRequest>) -> Answer<v1::ReadBmcResponse> {
        self.bmc_reads.facts(request).await
    }

    async fn read_updates(
        &self,
        request: Request<v1::ReadUpdatesRequest>,
    ) -> Answer<v1::ReadUpdatesResponse> {
        self.bmc_reads.updates(request).await
    }

    async fn collect_evidence(
        &self,
        request: Request<v1::CollectEvidenceRequest>,
    ) -> Answer<v1::CollectEvidenceResponse> {
        self.reports.collect(request).await
    }

    async fn reset_bmc(
        &self,
        request: Request<v1::ResetBmcRequest>,
    ) -> Answer<v1::ResetBmcResponse> {
        self.bmc_changes.reset(request).await
    }

    async fn rotate_password(
        &self,
        request: Request<v1::RotatePasswordRequest>,
    ) -> Answer<v1::RotatePasswordResponse> {
        self.bmc_changes.rotate_password(request).await
    }

    async fn check_host(
        &self,
        request: Request<v1::CheckHostRequest>,
    ) -> Answer<v1::CheckHostResponse> {
        self.bmc_reads.check(request).await
    }

    async fn list_pdus(
        &self,
        request: Request<v1::ListPdusRequest>,
    ) -> Answer<v1::ListPdusResponse> {
        self.pdus.list(&request)
    }

    async fn read_pdu(&self, request: Request<v1::ReadPduRequest>) -> Answer<v1::ReadPduResponse> {
        self.pdus.read(request).await
    }
}
