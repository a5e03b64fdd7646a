//! Readings of power: one, and the watch, which polls and reports changes only.

use std::{sync::Arc, time::Duration};

use futures::Stream;
use rackhand_agent_core::ledger::Device;
use rackhand_proto::v1::{
    self, read_power_response::Result as Read, watch_power_response::Result as Watched,
};
use rackhand_transport::Refusal;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::{
    Answer, Streaming,
    caller::Caller,
    operation_request::{power_device, time},
    targets::Targets,
};
use crate::{
    convert::{failure_to_proto, reading_to_proto},
    engine::{Reads, Target},
};

const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The calls that read power.
#[derive(Clone)]
pub(super) struct PowerReadCalls {
    pub(super) targets: Targets,
    pub(super) reads: Reads,
    /// Cancelled when the agent stops.
    pub(super) closing: CancellationToken,
}

impl PowerReadCalls {
    pub(super) async fn read(
        &self,
        request: Request<v1::ReadPowerRequest>,
    ) -> Answer<v1::ReadPowerResponse> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let device = power_device(request.device, &target)?;
        let limit = self.targets.limit(request.timeout.as_ref(), 1)?;
        let result = read(&self.reads, &target, device, limit).await;
        Ok(Response::new(v1::ReadPowerResponse {
            result: Some(result),
        }))
    }

    pub(super) async fn watch(
        &self,
        request: Request<v1::WatchPowerRequest>,
    ) -> Answer<Streaming<v1::WatchPowerResponse>> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let target = self.targets.find(&caller, request.target)?;
        let interval = time("interval", request.interval.as_ref())?.unwrap_or_default();
        let interval = interval.max(SHORTEST_WATCH);
        let watch = Watch {
            calls: self.clone(),
            target,
            interval,
            last: None,
            gone: false,
        };
        Ok(Response::new(Box::pin(watch.stream())))
    }
}

/// Reads power; a failure of the BMC is part of the response, not an error of the call.
async fn read(reads: &Reads, target: &Target, device: Device, limit: Duration) -> Read {
    match reads.power(target, device, limit).await {
        Ok((reading, since_start)) => Read::Reading(reading_to_proto(&reading, since_start)),
        Err(error) => Read::Failure(failure_to_proto(&target.host, &error)),
    }
}

struct Watch {
    calls: PowerReadCalls,
    target: Target,
    interval: Duration,
    last: Option<String>,
    /// The host was removed from the inventory.
    gone: bool,
}

impl Watch {
    /// Streams readings until the agent stops or the caller disconnects.
    fn stream(self) -> impl Stream<Item = Result<v1::WatchPowerResponse, Status>> + Send {
        futures::stream::unfold(self, |mut watch| async move {
            let next = watch.next().await?;
            Some((next, watch))
        })
    }

    async fn next(&mut self) -> Option<Result<v1::WatchPowerResponse, Status>> {
        if self.gone {
            return None;
        }
        loop {
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(self.interval) => {}
                    () = self.calls.closing.cancelled() => return None,
                }
            }
            let config = self.calls.targets.config();
            if !Arc::ptr_eq(&config, &self.target.config) {
                match self.target.again(&config) {
                    Some(target) => self.target = target,
                    None => {
                        self.gone = true;
                        return Some(Err(Refusal::UnknownHost.status(format!(
                            "host {} has left the inventory of rack {}",
                            self.target.host, config.rack
                        ))));
                    }
                }
            }
            let limit = config.times.call;
            let result = tokio::select! {
                result = read(&self.calls.reads, &self.target, Device::Bmc, limit) => result,
                () = self.calls.closing.cancelled() => return None,
            };
            let (mark, result) = match result {
                Read::Reading(reading) => {
                    let mark = format!("{} {} {:?}", reading.state, reading.raw, reading.identity);
                    (mark, Watched::Reading(reading))
                }
                Read::Failure(failure) => {
                    let mark = format!("failure {} {}", failure.kind, failure.message);
                    (mark, Watched::Failure(failure))
                }
            };
            if self.last.as_ref() != Some(&mark) {
                self.last = Some(mark);
                return Some(Ok(v1::WatchPowerResponse {
                    result: Some(result),
                }));
            }
        }
    }
}
