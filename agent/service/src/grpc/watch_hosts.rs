//! The stream by which a caller watches many hosts.
//!
//! Must never: keep a host, or its credentials, longer than the stream lives.

use std::{collections::VecDeque, sync::Arc};

use futures::Stream;
use rackhand_bmc::operation::Expected;
use rackhand_proto::{
    convert::duration_to_proto,
    limits::{
        SHORTEST_HEALTH_INTERVAL, WATCH_CHANGES, WATCH_HEARTBEAT, WATCH_ID, WATCHED_BATCH,
        WATCHED_HOSTS,
    },
    v1,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::{Answer, Streaming, caller::Caller, operation_request::time, targets::Targets};
use crate::engine::{HostWatches, Target, Wanted, WatchStream};

/// The call that watches hosts.
#[derive(Clone)]
pub(super) struct WatchHostsCalls {
    pub(super) targets: Targets,
    pub(super) watches: HostWatches,
    pub(super) instance: Arc<str>,
    /// Cancelled when the agent stops.
    pub(super) closing: CancellationToken,
}

impl WatchHostsCalls {
    pub(super) fn watch(
        &self,
        request: Request<tonic::Streaming<v1::WatchHostsRequest>>,
    ) -> Answer<Streaming<v1::WatchHostsResponse>> {
        let caller = Caller::of(&request)?;
        let session = Session {
            hosts: self.watches.stream(),
            calls: self.clone(),
            caller,
            requests: request.into_inner(),
            heartbeat: 0,
            rest: VecDeque::new(),
            is_heartbeat: false,
            due: Instant::now(),
            is_over: false,
        };
        Ok(Response::new(Box::pin(session.stream())))
    }

    fn wanted(&self, caller: &Caller, target: v1::WatchedTarget) -> Result<Wanted, Status> {
        if target.id.is_empty() || target.id.len() > WATCH_ID {
            return Err(Status::invalid_argument(format!(
                "id: 1 to {WATCH_ID} bytes"
            )));
        }
        let health_interval = time("health_interval", target.health_interval.as_ref())?;
        let found = self.targets.find(caller, target.target);
        let expected = |found: Target| -> Result<(Target, Expected), Status> {
            let expected = found.expected(target.expect.as_ref())?;
            Ok((found, expected))
        };
        Ok(Wanted {
            id: target.id,
            target: found.and_then(expected),
            health_interval: health_interval.map(|interval| interval.max(SHORTEST_HEALTH_INTERVAL)),
        })
    }
}

/// One stream of a caller, and what it watches.
struct Session {
    calls: WatchHostsCalls,
    caller: Caller,
    requests: tonic::Streaming<v1::WatchHostsRequest>,
    hosts: WatchStream,
    /// Number of the last heartbeat.
    heartbeat: u64,
    /// Hosts that the heartbeat in progress still lacks.
    rest: VecDeque<String>,
    is_heartbeat: bool,
    /// When the next heartbeat begins.
    due: Instant,
    is_over: bool,
}

impl Session {
    /// Sends changes and heartbeats until the caller ends the stream or the agent stops.
    fn stream(self) -> impl Stream<Item = Result<v1::WatchHostsResponse, Status>> + Send {
        futures::stream::unfold(self, |mut session| async move {
            let next = session.next().await?;
            session.is_over = next.is_err();
            Some((next, session))
        })
    }

    async fn next(&mut self) -> Option<Result<v1::WatchHostsResponse, Status>> {
        if self.is_over {
            return None;
        }
        loop {
            if self.is_heartbeat {
                return Some(Ok(self.heartbeat_part().await));
            }
            tokio::select! {
                () = self.calls.closing.cancelled() => return None,
                message = self.requests.message() => match message {
                    Ok(Some(request)) => {
                        if let Err(status) = self.apply(request) {
                            return Some(Err(status));
                        }
                    }
                    Ok(None) | Err(_) => return None,
                },
                () = self.hosts.changed() => {
                    let ids = self.hosts.take_changed();
                    let hosts = self.hosts.view(&ids).await;
                    if !hosts.is_empty() {
                        return Some(Ok(self.response(hosts)));
                    }
                }
                () = sleep_until(self.due) => self.begin_heartbeat(),
            }
        }
    }

    fn apply(&mut self, request: v1::WatchHostsRequest) -> Result<(), Status> {
        let changes = request.remove.len() + request.add.len() + request.read.len();
        if changes > WATCH_CHANGES {
            return Err(Status::resource_exhausted(format!(
                "{changes} changes in one message; at most {WATCH_CHANGES}"
            )));
        }
        for id in &request.remove {
            self.hosts.remove(id);
        }
        for target in request.add {
            let wanted = self.calls.wanted(&self.caller, target)?;
            self.hosts.add(wanted);
            if self.hosts.len() > WATCHED_HOSTS {
                return Err(Status::resource_exhausted(format!(
                    "more than {WATCHED_HOSTS} hosts in one stream"
                )));
            }
        }
        for read in &request.read {
            self.hosts.read(read);
        }
        Ok(())
    }

    fn begin_heartbeat(&mut self) {
        self.heartbeat += 1;
        self.rest = self.hosts.ids().cloned().collect();
        self.is_heartbeat = true;
        self.due = Instant::now() + WATCH_HEARTBEAT;
    }

    async fn heartbeat_part(&mut self) -> v1::WatchHostsResponse {
        let most = WATCHED_BATCH.min(self.rest.len());
        let ids: Vec<String> = self.rest.drain(..most).collect();
        let hosts = self.hosts.view(&ids).await;
        self.is_heartbeat = !self.rest.is_empty();
        v1::WatchHostsResponse {
            heartbeat: self.heartbeat,
            heartbeat_complete: !self.is_heartbeat,
            ..self.response(hosts)
        }
    }

    fn response(&self, hosts: Vec<v1::WatchedHost>) -> v1::WatchHostsResponse {
        v1::WatchHostsResponse {
            hosts,
            instance: self.calls.instance.to_string(),
            heartbeat: 0,
            heartbeat_complete: false,
            heartbeat_interval: Some(duration_to_proto(WATCH_HEARTBEAT)),
        }
    }
}
