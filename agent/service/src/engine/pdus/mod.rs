//! Clients of PDUs, one call at a time to each PDU.
//!
//! Owns: the order of the calls to each PDU, and the sessions there. Must never: connect outside of the
//! allowed networks, make a power operation wait for a reader, or let one PDU delay another.

mod client;
mod specs;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_agent_core::bmc_queue::CallClass;
use rackhand_bmc::{
    Bmc, BmcError, ErrorKind, PowerState,
    pdu::{HostOutlets, OutletId, OutletReading, Pdu, PduConfig},
};
use rackhand_proto::v1::Check;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{
    bmcs::bmc_queue::BmcQueue,
    credentials::rejected_credentials::{RejectedCredentials, rejection},
    resolver::Resolver,
    target::Target,
};
use crate::{
    blocking, checkup,
    config::{Config, PduEntry},
    driver::Driver,
    metrics::Metrics,
};
use client::QueuedPdu;
use specs::{config, fault, is_same};

/// Idle time after which a client closes its session.
const IDLE: Duration = Duration::from_secs(120);
/// Time limit for closing a session.
const CLOSING: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Entry {
    config: PduConfig,
    pdu: Arc<dyn Pdu>,
    used: Instant,
}

/// The clients of the PDUs.
#[derive(Debug)]
pub(crate) struct Pdus {
    driver: Arc<dyn Driver>,
    metrics: Arc<Metrics>,
    resolver: Resolver,
    /// The queue of each PDU, by address.
    queues: Mutex<HashMap<String, Arc<BmcQueue>>>,
    /// The client of each PDU, by address.
    cache: Mutex<HashMap<String, Entry>>,
    /// By address.
    rejected: RejectedCredentials<PduConfig>,
}

impl Pdus {
    pub(crate) fn new(driver: Arc<dyn Driver>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            driver,
            metrics,
            resolver: Resolver::system(),
            queues: Mutex::default(),
            cache: Mutex::default(),
            rejected: RejectedCredentials::default(),
        })
    }

    /// The outlets of a host as one device. Nothing is sent before its first call.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: the inventory does not name its outlets.
    pub(crate) fn host(
        self: &Arc<Self>,
        target: &Target,
        class: CallClass,
    ) -> Result<HostOutlets, BmcError> {
        let outlets = target.outlets();
        let known = &target.config.inventory.pdus;
        let mut pdus: BTreeMap<String, Arc<dyn Pdu>> = BTreeMap::new();
        let mut delay = Duration::ZERO;
        for entry in outlets.iter().filter_map(|outlet| known.get(&outlet.pdu)) {
            delay = delay.max(entry.outlet_delay);
            pdus.entry(entry.name.clone())
                .or_insert_with(|| Arc::new(self.queued(&target.config, entry, class)));
        }
        let inventory = &target.config.inventory;
        let hosts = outlets.iter();
        let hosts = hosts.map(|outlet| (outlet.clone(), inventory.fed_by(outlet)));
        let hosts = hosts.collect();
        Ok(HostOutlets::new(&pdus, outlets.to_vec(), delay)?.shared(hosts))
    }

    /// Reads the power of a host from its outlets within `limit`.
    pub(crate) async fn read(
        self: &Arc<Self>,
        target: &Target,
        limit: Duration,
    ) -> Result<rackhand_bmc::PowerReading, BmcError> {
        let outlets = self.host(target, CallClass::Reader)?;
        match timeout(limit, outlets.power()).await {
            Ok(result) => result,
            Err(_) => Err(late(outlets.address(), limit)),
        }
    }

    /// Whether the outlets of a host show that it is off: each is off, or all together carry no more than the
    /// standby power that the inventory states. An outlet that cannot be read shows nothing.
    pub(crate) async fn is_unpowered(self: &Arc<Self>, target: &Target, limit: Duration) -> bool {
        let Ok(outlets) = self.host(target, CallClass::Reader) else {
            return false;
        };
        let read = timeout(limit, outlets.power_and_draw()).await;
        let Ok(Ok((reading, draw))) = read else {
            return false;
        };
        let within = |standby: f64| draw.is_some_and(|watts| watts <= standby);
        reading.state == PowerState::Off || target.standby_watts().is_some_and(within)
    }

    /// Reads every outlet of a PDU within `limit`.
    pub(crate) async fn outlets(
        self: &Arc<Self>,
        config: &Arc<Config>,
        entry: &PduEntry,
        limit: Duration,
    ) -> Result<Vec<OutletReading>, BmcError> {
        let pdu = self.queued(config, entry, CallClass::Reader);
        match timeout(limit, pdu.outlets()).await {
            Ok(result) => result,
            Err(_) => Err(late(pdu.address(), limit)),
        }
    }

    /// Reads the outlets of a host at each of its PDUs, all PDUs at once, and judges them.
    pub(crate) async fn check(self: &Arc<Self>, target: &Target, limit: Duration) -> Vec<Check> {
        let known = &target.config.inventory.pdus;
        let mut by_pdu: BTreeMap<&str, Vec<OutletId>> = BTreeMap::new();
        for outlet in target.outlets() {
            let outlets = by_pdu.entry(&outlet.pdu).or_default();
            outlets.push(outlet.outlet.clone());
        }
        let checks = by_pdu.into_iter().filter_map(|(name, outlets)| {
            let pdu = self.queued(&target.config, known.get(name)?, CallClass::Reader);
            Some(async move {
                let read = match timeout(limit, pdu.read(&outlets)).await {
                    Ok(read) => read,
                    Err(_) => Err(late(pdu.address(), limit)),
                };
                checkup::outlets(name, pdu.address(), &read)
            })
        });
        futures::future::join_all(checks).await
    }

    /// The client of a PDU that queues its calls.
    pub(crate) fn queued(
        self: &Arc<Self>,
        config: &Arc<Config>,
        entry: &PduEntry,
        class: CallClass,
    ) -> QueuedPdu {
        let address = entry.address.to_string();
        let queue = self.queues.lock().entry(address).or_default().clone();
        QueuedPdu::new(self.clone(), queue, config.clone(), entry, class)
    }

    /// The client of a PDU, with its current secrets and addresses.
    async fn client(&self, under: &Config, entry: &PduEntry) -> Result<Arc<dyn Pdu>, BmcError> {
        // Each time, because the address of a name or a secret may change.
        let config = config(&self.resolver, under, entry).await?;
        let address = entry.address.to_string();
        self.rejected
            .check(&address, |known| is_same(known, &config))?;
        let old = {
            let mut cache = self.cache.lock();
            match cache.get_mut(&address) {
                Some(known) if is_same(&known.config, &config) => {
                    known.used = Instant::now();
                    return Ok(known.pdu.clone());
                }
                _ => cache.remove(&address),
            }
        };
        if let Some(old) = old {
            close(old.pdu).await;
        }
        let (driver, wanted) = (self.driver.clone(), config.clone());
        let pdu = blocking::run(move || driver.connect_pdu(wanted))
            .await
            .map_err(|error| fault(&address, error.to_string()))??;
        let entry = Entry {
            config,
            pdu: pdu.clone(),
            used: Instant::now(),
        };
        self.cache.lock().insert(address, entry);
        Ok(pdu)
    }

    /// Records the result of a call. After rejected credentials the next call reads the secrets again.
    fn settle<T>(&self, entry: &PduEntry, result: Result<T, BmcError>) -> Result<T, BmcError> {
        let address = entry.address.to_string();
        match result {
            Err(error) if error.kind == ErrorKind::Authentication => {
                let error = rejection(error);
                for secret in entry.secrets() {
                    secret.forget();
                }
                if let Some(Entry { config, .. }) = self.cache.lock().remove(&address) {
                    self.rejected.add(&address, config, is_same, &error);
                }
                Err(error)
            }
            result => {
                if result.is_ok() {
                    self.rejected.remove(&address);
                }
                result
            }
        }
    }

    /// Closes idle clients, or all of them at the end.
    pub(crate) async fn sweep(&self, all: bool) {
        let now = Instant::now();
        let is_idle = |entry: &Entry| all || now.duration_since(entry.used) > IDLE;
        let idle: Vec<Entry> = {
            let mut cache = self.cache.lock();
            let idle = cache.extract_if(|_, entry| is_idle(entry));
            idle.map(|(_, entry)| entry).collect()
        };
        let closing = idle.into_iter().map(|entry| close(entry.pdu));
        futures::future::join_all(closing).await;
        self.queues
            .lock()
            .retain(|_, queue| Arc::strong_count(queue) > 1);
    }
}

fn late(address: &str, after: Duration) -> BmcError {
    BmcError {
        kind: ErrorKind::Timeout,
        message: format!("no answer within {after:?}"),
        ..fault(address, String::new())
    }
}

async fn close(pdu: Arc<dyn Pdu>) {
    match timeout(CLOSING, pdu.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a PDU session may be left open"),
        Err(_) => debug!(
            pdu = pdu.address(),
            "a PDU session may be left open: no answer"
        ),
    }
}
