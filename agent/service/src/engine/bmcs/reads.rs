//! Readings outside of an operation: power, outlets, and everything else that a BMC reports.
//!
//! Must never: make a power operation wait.

use std::{sync::Arc, time::Duration};

use rackhand_agent_core::{bmc_queue::CallClass, ledger::Device};
use rackhand_bmc::{Bmc, BmcError, BmcFuture, ErrorKind, PowerReading, pdu::OutletReading};
use rackhand_proto::v1::Check;
use tokio::time::timeout;
use tonic::Status;

use super::{
    clients::{CallKind, Clients},
    probe,
    report::{self, Extent, FailureReport},
};
use crate::{
    config::{Config, PduEntry},
    engine::{Target, journal_status, pdus::Pdus, settings::Clock},
    journal::Journal,
};

/// Reads BMCs and PDUs outside of an operation.
#[derive(Clone)]
pub(crate) struct Reads {
    clients: Arc<Clients>,
    pdus: Arc<Pdus>,
    journal: Journal,
    clock: Clock,
}

impl Reads {
    pub(in crate::engine) fn new(
        clients: Arc<Clients>,
        pdus: Arc<Pdus>,
        journal: Journal,
        clock: Clock,
    ) -> Self {
        Self {
            clients,
            pdus,
            journal,
            clock,
        }
    }

    /// Reads the power of a host from its BMC or its outlets, with the time since the start of the agent.
    pub(crate) async fn power(
        &self,
        target: &Target,
        device: Device,
        limit: Duration,
    ) -> Result<(PowerReading, Duration), BmcError> {
        let reading = match device {
            Device::Bmc => self.clients.read(target, limit).await?,
            Device::Outlets => self.pdus.read(target, limit).await?,
        };
        Ok((reading, self.clock.since_start()))
    }

    /// Reads every outlet of a PDU.
    pub(crate) async fn outlets(
        &self,
        config: &Arc<Config>,
        pdu: &PduEntry,
        limit: Duration,
    ) -> Result<Vec<OutletReading>, BmcError> {
        self.pdus.outlets(config, pdu, limit).await
    }

    /// Checks every driver and every PDU of the host, for a diagnosis.
    pub(crate) async fn check(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<Result<Vec<Check>, BmcError>, Status> {
        let remembered = self.journal.last_system(target.keys.clone()).await;
        let remembered = remembered.map_err(|error| journal_status(&error))?;
        let remembered = remembered.as_ref();
        probe::check(&self.clients, &self.pdus, target, remembered, limit).await
    }

    /// Collects what may show why the host failed.
    pub(crate) async fn report(
        &self,
        target: &Target,
        limit: Duration,
        extent: Extent,
    ) -> FailureReport {
        report::collect(self, self.clock, target, limit, extent).await
    }

    /// Reads something other than power, and yields to each operation.
    pub(crate) async fn other<T: Send>(
        &self,
        target: &Target,
        limit: Duration,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Result<T, BmcError> {
        let clients = &self.clients;
        let queue = clients.queue(target);
        let mut made_way = false;
        let reading = async {
            loop {
                let turn = queue.call(CallClass::Reader).await;
                tokio::select! {
                    biased;
                    () = turn.wanted() => made_way = true,
                    result = clients.ask(target, limit, CallKind::Look, &call) => return result,
                }
            }
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) if made_way => Err(fault(
                target,
                ErrorKind::Busy,
                "a power operation is running on this BMC; try again when it has ended".to_owned(),
            )),
            Err(_) => Err(fault(
                target,
                ErrorKind::Timeout,
                format!("no answer within {limit:?}"),
            )),
        }
    }
}

pub(in crate::engine) fn fault(target: &Target, kind: ErrorKind, message: String) -> BmcError {
    BmcError {
        kind,
        bmc: target.address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}
