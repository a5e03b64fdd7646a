//! Data that may show why a host failed.

use futures::StreamExt;
use rackhand_bmc::BootState;
use rackhand_proto::v1::{
    self, begin_request::Action, interrupt_result::Result as Interrupted,
    read_boot_state_result::Result as Boot, read_events_response::Result as Events,
    read_power_response::Result as Power, read_sensors_response::Result as Sensors,
};
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

use super::{
    Answer,
    bmc_reads::entries,
    caller::Caller,
    convert::{log_to_proto, sensors_to_proto},
    operation_request::RequestValidator,
    targets::{RECORDS, Targets},
};
use crate::{
    convert::{failure_to_proto, reading_to_proto},
    engine::{Extent, FailureReport, Operations, Reads},
};

/// The call that collects a report about a host, after a diagnostic interrupt if that is requested.
#[derive(Clone)]
pub(super) struct ReportCalls {
    pub(super) targets: Targets,
    pub(super) reads: Reads,
    pub(super) validator: RequestValidator,
    pub(super) operations: Operations,
}

impl ReportCalls {
    pub(super) async fn collect(
        &self,
        request: Request<v1::CollectEvidenceRequest>,
    ) -> Answer<v1::CollectEvidenceResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), RECORDS)?;
        let end = Instant::now() + limit;
        let interrupt = match request.interrupt {
            None => None,
            Some(begin) => Some(self.interrupt(caller, begin, end).await),
        };
        let left = end.saturating_duration_since(Instant::now());
        let extent = Extent {
            entries: entries(request.log_entries),
            log_only: request.log_only,
        };
        let report = self.reads.report(&target, left, extent).await;
        Ok(Response::new(v1::CollectEvidenceResponse {
            interrupt: interrupt.map(|result| v1::InterruptResult {
                result: Some(result),
            }),
            ..report_to_proto(&target.host, report)
        }))
    }

    /// Begins the interrupt, and waits for its outcome. A refusal does not prevent the readings.
    async fn interrupt(
        &self,
        caller: Caller,
        begin: v1::BeginRequest,
        end: Instant,
    ) -> Interrupted {
        match self.begin_interrupt(caller, begin, end).await {
            Ok(status) => Interrupted::Status(status),
            Err(status) => Interrupted::Refused(status.message().to_owned()),
        }
    }

    async fn begin_interrupt(
        &self,
        caller: Caller,
        begin: v1::BeginRequest,
        end: Instant,
    ) -> Result<v1::OperationStatus, Status> {
        if !matches!(begin.action, Some(Action::PowerNmi(_))) {
            return Err(Status::invalid_argument(
                "interrupt: only power_nmi may be begun before evidence is read",
            ));
        }
        let request = self.validator.validate(caller, begin)?;
        let id = request.id.clone();
        let (_, status) = self.operations.begin(request).await?;
        if status.finished {
            return Ok(status);
        }
        let events = self.operations.follow(&id).await?;
        let outcome = events.filter_map(async |response| match response.event {
            Some(v1::await_response::Event::Outcome(outcome)) => Some(outcome),
            _ => None,
        });
        let mut outcome = std::pin::pin!(outcome);
        // Without an outcome in time, the operation continues until its own deadline.
        let outcome = timeout_at(end, outcome.next()).await.ok().flatten();
        Ok(v1::OperationStatus {
            finished: outcome.is_some(),
            outcome,
            ..status
        })
    }
}

fn report_to_proto(host: &str, report: FailureReport) -> v1::CollectEvidenceResponse {
    let power = report.power.map(|power| match power {
        Ok((reading, since)) => Power::Reading(reading_to_proto(&reading, since)),
        Err(error) => Power::Failure(failure_to_proto(host, &error)),
    });
    let log = report.log.map(|log| match log {
        Ok(log) => Events::Log(log_to_proto(log)),
        Err(error) => Events::Failure(failure_to_proto(host, &error)),
    });
    let boot = report.boot.map(|boot| match boot {
        Ok(state) => Boot::State(boot_state_to_proto(state)),
        Err(error) => Boot::Failure(failure_to_proto(host, &error)),
    });
    let sensors = report.sensors.map(|sensors| match sensors {
        Ok(sensors) => Sensors::Sensors(sensors_to_proto(sensors)),
        Err(error) => Sensors::Failure(failure_to_proto(host, &error)),
    });
    v1::CollectEvidenceResponse {
        power: power.map(|result| v1::ReadPowerResponse {
            result: Some(result),
        }),
        log: log.map(|result| v1::ReadEventsResponse {
            result: Some(result),
        }),
        boot: boot.map(|result| v1::ReadBootStateResult {
            result: Some(result),
        }),
        sensors: sensors.map(|result| v1::ReadSensorsResponse {
            result: Some(result),
        }),
        interrupt: None,
    }
}

fn boot_state_to_proto(state: BootState) -> v1::BootState {
    v1::BootState {
        progress: state.progress.unwrap_or_default(),
        restart_cause: state.restart_cause.unwrap_or_default(),
        faults: state.faults,
    }
}
