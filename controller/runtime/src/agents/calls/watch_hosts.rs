//! The stream in which an agent reports the power of the hosts that it watches.

use std::time::Duration;

use rackhand_proto::{limits::WATCH_HEARTBEAT, v1};
use rackhand_transport::classify;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::{AgentQueries, convert::watched::watched};
use crate::{
    agents::{CALL, WatchedHost},
    store::clock,
};

/// What comes of a stream.
#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// Hosts as they are now, each whole. Observations of two instances of an agent are never the same.
    Hosts {
        instance: String,
        hosts: Vec<WatchedHost>,
    },
    /// The stream has ended: nothing is known of its hosts.
    Ended {
        why: String,
        /// The version of the agent does not have this call.
        is_unsupported: bool,
    },
}

/// Maximum length of the name of an instance, in characters.
const LONGEST_INSTANCE: usize = 128;
/// Longest silence of a stream.
const SILENCE: Duration = WATCH_HEARTBEAT.saturating_mul(2);

impl AgentQueries {
    /// The name of the agent that serves a rack now.
    ///
    /// # Errors
    /// None does.
    pub(crate) fn serving(&self, rack: &str) -> Result<String, String> {
        Ok(self.connections.of_rack(rack)?.id.agent)
    }

    /// Watches the hosts of a rack at the agent that serves it now, until the stream ends, or `requests` or the
    /// receiver of the events is dropped.
    pub(crate) async fn watch_hosts(
        self,
        rack: String,
        requests: mpsc::Receiver<v1::WatchHostsRequest>,
        events: mpsc::Sender<(String, WatchEvent)>,
    ) {
        let (why, is_unsupported) = match self.follow_hosts(&rack, requests, &events).await {
            Ok(()) => ("the agent has ended it".to_owned(), false),
            Err(StreamEnd::Status(status)) => {
                let is_unsupported = status.code() == Code::Unimplemented;
                (classify(&status).message, is_unsupported)
            }
            Err(StreamEnd::Other(why)) => (why, false),
        };
        let ended = WatchEvent::Ended {
            why,
            is_unsupported,
        };
        events.send((rack, ended)).await.ok();
    }

    async fn follow_hosts(
        &self,
        rack: &str,
        requests: mpsc::Receiver<v1::WatchHostsRequest>,
        events: &mpsc::Sender<(String, WatchEvent)>,
    ) -> Result<(), StreamEnd> {
        let at = self.connections.of_rack(rack).map_err(StreamEnd::Other)?;
        let mut client = at.client;
        let opened = timeout(CALL * 2, client.watch_hosts(ReceiverStream::new(requests))).await;
        let opened = opened.map_err(|_| StreamEnd::silent())?;
        let mut stream = opened.map_err(StreamEnd::from)?.into_inner();
        loop {
            let message = tokio::select! {
                () = events.closed() => return Ok(()),
                message = timeout(SILENCE, stream.message()) => message,
            };
            let message = message.map_err(|_| StreamEnd::silent())?;
            let Some(message) = message.map_err(StreamEnd::from)? else {
                return Ok(());
            };
            let now = clock::monotonic_now();
            let hosts = message.hosts.iter().map(|host| watched(host, now));
            let event = WatchEvent::Hosts {
                instance: message.instance.chars().take(LONGEST_INSTANCE).collect(),
                hosts: hosts.collect(),
            };
            if events.send((rack.to_owned(), event)).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Why a stream has ended.
enum StreamEnd {
    Status(Box<tonic::Status>),
    Other(String),
}

impl StreamEnd {
    fn silent() -> Self {
        Self::Other("the agent did not answer".into())
    }
}

impl From<tonic::Status> for StreamEnd {
    fn from(status: tonic::Status) -> Self {
        Self::Status(Box::new(status))
    }
}
