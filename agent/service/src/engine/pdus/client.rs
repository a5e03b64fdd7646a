//! A client of a PDU that queues its calls.

use std::{fmt, sync::Arc, time::Duration};

use rackhand_agent_core::bmc_queue::CallClass;
use rackhand_bmc::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{OutletCommand, OutletId, OutletReading, Pdu},
};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info};

use super::{Pdus, fault, late};
use crate::{
    config::{Config, PduEntry},
    engine::bmcs::bmc_queue::BmcQueue,
};

/// Longest wait for the calls of others.
const LONGEST_QUEUE: Duration = Duration::from_secs(30);

/// A client of a PDU that queues its calls and makes one at a time.
pub(crate) struct QueuedPdu {
    pdus: Arc<Pdus>,
    queue: Arc<BmcQueue>,
    config: Arc<Config>,
    entry: PduEntry,
    class: CallClass,
    address: String,
}

impl fmt::Debug for QueuedPdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

impl QueuedPdu {
    pub(super) fn new(
        pdus: Arc<Pdus>,
        queue: Arc<BmcQueue>,
        config: Arc<Config>,
        entry: &PduEntry,
        class: CallClass,
    ) -> Self {
        Self {
            pdus,
            queue,
            config,
            address: entry.address.to_string(),
            entry: entry.clone(),
            class,
        }
    }

    async fn call<T: Send>(
        &self,
        command: bool,
        call: impl Fn(Arc<dyn Pdu>) -> BmcFuture<'static, T> + Send + Sync,
    ) -> Result<T, BmcError> {
        let until = Instant::now() + LONGEST_QUEUE;
        loop {
            let turn = timeout_at(until, self.queue.call(self.class)).await;
            let turn = turn.map_err(|_| BmcError {
                kind: ErrorKind::Busy,
                ..fault(
                    &self.address,
                    format!("other calls to it went on for {LONGEST_QUEUE:?}"),
                )
            })?;
            if self.class != CallClass::Reader {
                return self.call_now(command, &call).await;
            }
            tokio::select! {
                biased;
                () = turn.wanted() => {}
                result = self.call_now(command, &call) => return result,
            }
        }
    }

    /// Makes the call; the caller has exclusive use of the PDU.
    async fn call_now<T: Send>(
        &self,
        command: bool,
        call: &(impl Fn(Arc<dyn Pdu>) -> BmcFuture<'static, T> + Send + Sync),
    ) -> Result<T, BmcError> {
        let pdu = self.pdus.client(&self.config, &self.entry).await?;
        let begun = Instant::now();
        // The driver enforces its own limit with a more precise error.
        let limit = self.config.times.call + Duration::from_secs(1);
        let result = match timeout(limit, call(pdu)).await {
            Ok(result) => result,
            Err(_) => Err(BmcError {
                maybe_sent: command,
                ..late(&self.address, limit)
            }),
        };
        let (word, error) = (
            if command { "command" } else { "read" },
            result.as_ref().err(),
        );
        let kind = error.map(|error| error.kind);
        self.pdus.metrics.pdu_call(word, kind, begun.elapsed());
        let (name, elapsed) = (&self.entry.name, begun.elapsed());
        let error = error.map(tracing::field::display);
        if command {
            info!(pdu = name, call = word, error, ?elapsed, "PDU call");
        } else {
            debug!(pdu = name, call = word, error, ?elapsed, "PDU call");
        }
        self.pdus.settle(&self.entry, result)
    }
}

impl Pdu for QueuedPdu {
    fn address(&self) -> &str {
        &self.address
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        Box::pin(self.call(false, |pdu| Box::pin(async move { pdu.outlets().await })))
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        Box::pin(self.call(false, |pdu| {
            let outlets = outlets.to_vec();
            Box::pin(async move { pdu.read(&outlets).await })
        }))
    }

    fn systems<'a>(&'a self, outlet: &'a OutletId) -> BmcFuture<'a, Option<usize>> {
        Box::pin(self.call(false, move |pdu| {
            let outlet = outlet.clone();
            Box::pin(async move { pdu.systems(&outlet).await })
        }))
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        Box::pin(self.call(true, move |pdu| {
            let outlet = outlet.clone();
            Box::pin(async move { pdu.switch(&outlet, command).await })
        }))
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        // The clients are shared; the agent closes them when they are idle.
        Box::pin(async { Ok(()) })
    }
}
