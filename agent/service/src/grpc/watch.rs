//! The power watch: polls, and reports changes only.

use std::time::Duration;

use futures::Stream;
use rackhand_agent_core::ledger::Device;
use rackhand_proto::v1::{self, read_power_response, watch_power_response::Result as Watched};
use rackhand_transport::Refusal;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::read;
use crate::engine::{Engine, Target};

struct Watch {
    engine: Engine,
    target: Target,
    interval: Duration,
    closing: CancellationToken,
    last: Option<String>,
    /// The host was removed from the inventory.
    gone: bool,
}

/// Streams readings until the agent stops or the caller disconnects.
pub(super) fn watch(
    engine: Engine,
    target: Target,
    interval: Duration,
) -> impl Stream<Item = Result<v1::WatchPowerResponse, Status>> + Send {
    let watch = Watch {
        closing: engine.closing(),
        engine,
        target,
        interval,
        last: None,
        gone: false,
    };
    futures::stream::unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((next, watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Result<v1::WatchPowerResponse, Status>> {
        if self.gone {
            return None;
        }
        loop {
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(self.interval) => {}
                    () = self.closing.cancelled() => return None,
                }
            }
            let config = self.engine.config();
            if !std::sync::Arc::ptr_eq(&config, &self.target.config) {
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
                result = read(&self.engine, &self.target, Device::Bmc, limit) => result,
                () = self.closing.cancelled() => return None,
            };
            let (mark, result) = match result {
                read_power_response::Result::Reading(reading) => {
                    let mark = format!("{} {} {:?}", reading.state, reading.raw, reading.identity);
                    (mark, Watched::Reading(reading))
                }
                read_power_response::Result::Failure(failure) => {
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
