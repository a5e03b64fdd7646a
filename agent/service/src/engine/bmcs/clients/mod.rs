//! Clients of BMCs, one call at a time to each BMC.

mod locate;
mod specs;
mod switches;
#[cfg(test)]
mod tests;
mod watches;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_agent_core::bmc_queue::CallClass;
use rackhand_bmc::{
    Accepted, Bmc, BmcAddress, BmcError, BmcFuture, ErrorKind, FirmwareUpdates, PowerCommand,
    PowerReading,
    operation::{Expected, LastReading, Past},
};
use tokio::time::{Instant, timeout};
use tracing::{debug, info};

use super::bmc_queue::{BmcQueue, BmcQueues};
use crate::{
    blocking,
    config::{Config, Inventory},
    driver::{BmcSpec, Driver},
    engine::{
        credentials::rejected_credentials::{RejectedCredentials, rejection},
        resolver::Resolver,
        target::{Access, Target},
    },
    metrics::Metrics,
};
pub(crate) use locate::Located;
use specs::{fault, late, pin, specs};
use switches::Switches;
use watches::Watches;

/// Idle time after which a client closes its session.
const IDLE: Duration = Duration::from_secs(120);

/// How long readings of a watched host use a client whose settings were compared with their sources: as long as the
/// output of a password command counts. Reading a file takes another thread, and as much time as the reading itself.
const COMPARED: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Entry {
    specs: Vec<BmcSpec>,
    bmc: Arc<dyn Bmc>,
    used: Instant,
    compared: Option<Compared>,
}

/// When the settings of a client were last compared with their sources, and the configuration that names these.
#[derive(Debug)]
struct Compared {
    at: Instant,
    config: Weak<Config>,
}

impl Entry {
    /// Whether a reading of a watched host may use the client as it is. A name may get another address at any time.
    fn serves(&self, target: &Target) -> bool {
        let is_by_ip = |spec: &BmcSpec| spec.address.host().parse::<IpAddr>().is_ok();
        let compared = self.compared.as_ref();
        compared.is_some_and(|compared| {
            compared.at.elapsed() < COMPARED
                && std::ptr::eq(compared.config.as_ptr(), Arc::as_ptr(&target.config))
        }) && target.is_of_inventory()
            && self.specs.iter().all(is_by_ip)
    }
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// The client only reads the power state.
    Read,
    /// A power command.
    Command,
    /// A reading other than power.
    Look,
    /// A change other than power.
    Change,
}

impl CallKind {
    /// Whether the call may have had an effect without a response.
    fn changes(self) -> bool {
        matches!(self, Self::Command | Self::Change)
    }

    /// The label in metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Command => "command",
            Self::Look => "look",
            Self::Change => "change",
        }
    }
}

/// One driver of a BMC with its own client, which must be closed.
pub(crate) struct DriverClient {
    pub(crate) spec: BmcSpec,
    /// The addresses that the client connects to, or the error. The caller must check that they are
    /// in the allowed networks.
    pub(crate) found: Result<Vec<IpAddr>, String>,
    pub(crate) bmc: Result<Arc<dyn Bmc>, BmcError>,
    /// Whether the agent uses it, and its session, for other calls too.
    pub(crate) is_shared: bool,
}

impl DriverClient {
    pub(crate) async fn close(self) {
        if let Ok(bmc) = self.bmc
            && !self.is_shared
        {
            close(bmc).await;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Clients {
    driver: Arc<dyn Driver>,
    metrics: Arc<Metrics>,
    resolver: Resolver,
    queues: Mutex<BmcQueues>,
    cache: Mutex<HashMap<String, Entry>>,
    rejected: RejectedCredentials<Vec<BmcSpec>>,
    watches: Watches,
    /// The power commands that were sent.
    pub(crate) switches: Switches,
}

impl Clients {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        inventory: &Inventory,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            driver,
            metrics,
            resolver: Resolver::system(),
            queues: Mutex::new(BmcQueues::new(inventory)),
            cache: Mutex::default(),
            rejected: RejectedCredentials::default(),
            watches: Watches::default(),
            switches: Switches::default(),
        }
    }

    /// The observation of a BMC, by a clock that is 0 at `begun`.
    pub(crate) fn watch(&self, target: &Target, begun: Instant) -> Past {
        self.watches.since(&target.key, begun)
    }

    /// The last power reading, unless the observation was interrupted since, and the present time by the clock of
    /// its times.
    pub(crate) fn last_reading(&self, target: &Target) -> Option<(LastReading, Duration)> {
        self.watches.last(&target.key)
    }

    pub(crate) fn queue(&self, target: &Target) -> Arc<BmcQueue> {
        self.queues.lock().of(&self.known(target).keys.endpoints())
    }

    /// Applies another inventory, and calls `taken` before any other queue is used.
    ///
    /// # Errors
    /// Endpoints that would have to share a queue while both are in use.
    pub(crate) fn change(
        &self,
        inventory: &Inventory,
        taken: impl FnOnce(),
    ) -> Result<(), Vec<String>> {
        let mut queues = self.queues.lock();
        queues.change(inventory)?;
        taken();
        Ok(())
    }

    /// Reads power within `limit`, in turn with other calls.
    pub(crate) async fn read(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<PowerReading, BmcError> {
        let queue = self.queue(target);
        let reading = async {
            let _call = queue.call(CallClass::Reader).await;
            self.read_now(target, &target.known_identity()).await
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, false)),
        }
    }

    /// Reads power; the caller has exclusive use of the BMC.
    pub(crate) async fn read_now(
        &self,
        target: &Target,
        expected: &Expected,
    ) -> Result<PowerReading, BmcError> {
        let result = self
            .ask(target, wall(&target.config), CallKind::Read, |bmc| {
                bmc.checked_power(expected.clone())
            })
            .await;
        self.watches.read(&target.key, &result);
        result
    }

    /// Reads the power of a watched host; the caller has exclusive use of the BMC. A changed password file is
    /// noticed within a minute, or once the BMC rejects the password.
    pub(crate) async fn read_watched(&self, target: &Target) -> Result<PowerReading, BmcError> {
        let expected = target.known_identity();
        let known = {
            let mut cache = self.cache.lock();
            let entry = cache.get_mut(&target.key);
            entry.filter(|entry| entry.serves(target)).map(|entry| {
                entry.used = Instant::now();
                entry.bmc.clone()
            })
        };
        let Some(bmc) = known else {
            return self.read_now(target, &expected).await;
        };
        let call = (wall(&target.config), CallKind::Read);
        let result = self
            .call(target, bmc.as_ref(), call, |bmc| {
                bmc.checked_power(expected.clone())
            })
            .await;
        self.watches.read(&target.key, &result);
        result
    }

    /// Makes every call compare the settings of the client with their sources, one of which has changed.
    pub(crate) fn compare_again(&self, target: &Target) {
        if let Some(entry) = self.cache.lock().get_mut(&target.key) {
            entry.compared = None;
        }
    }

    /// Reads the uptime of the BMC; the caller has exclusive use of the BMC.
    pub(crate) async fn uptime(&self, target: &Target) -> Result<Duration, BmcError> {
        self.ask(target, wall(&target.config), CallKind::Look, |bmc| {
            bmc.uptime()
        })
        .await
    }

    /// Reads the updates of firmware within a limit; the caller has exclusive use of the BMC.
    pub(crate) async fn firmware_updates(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<FirmwareUpdates, BmcError> {
        self.ask(target, limit, CallKind::Look, |bmc| {
            bmc.firmware_updates(limit)
        })
        .await
    }

    /// Sends a command; the caller has exclusive use of the BMC and has recorded the command.
    pub(crate) async fn command(
        &self,
        target: &Target,
        command: PowerCommand,
        expected: &Expected,
        until: Option<Instant>,
    ) -> Result<Accepted, BmcError> {
        let limit = wall(&target.config);
        let result = self
            .ask(target, limit, CallKind::Command, |bmc| {
                bmc.command_until(command, expected.clone(), until)
            })
            .await;
        self.watches.commanded(&target.key, &result);
        result
    }

    /// Makes any call; the caller has exclusive use of the BMC. `limit` guards against a driver that
    /// does not return.
    pub(crate) async fn ask<T>(
        &self,
        target: &Target,
        limit: Duration,
        asked: CallKind,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send,
    ) -> Result<T, BmcError> {
        let bmc = self.client(target).await?;
        self.call(target, bmc.as_ref(), (limit, asked), call).await
    }

    async fn call<T>(
        &self,
        target: &Target,
        bmc: &dyn Bmc,
        (limit, asked): (Duration, CallKind),
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send,
    ) -> Result<T, BmcError> {
        let begun = Instant::now();
        let result = match timeout(limit, call(bmc)).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, asked.changes())),
        };
        let kind = result.as_ref().err().map(|error| error.kind);
        self.metrics.call(asked.label(), kind, begun.elapsed());
        log_call(target, asked, result.as_ref().err(), begun.elapsed());
        self.settle(target, result)
    }

    /// Records the result of a call. After a rejected password the next call reads the secret again.
    fn settle<T>(&self, target: &Target, result: Result<T, BmcError>) -> Result<T, BmcError> {
        let mut cache = self.cache.lock();
        match result {
            Err(error) if error.kind == ErrorKind::Authentication => {
                let error = rejection(error);
                if let Access::Inventory(host) = &target.access {
                    for bmc in host.bmcs() {
                        bmc.password.forget();
                    }
                }
                if let Some(mut entry) = cache.remove(&target.key) {
                    // The account rejects a password, whatever address its name has.
                    for spec in &mut entry.specs {
                        spec.resolved.clear();
                    }
                    let is_same = |one: &Vec<_>, other: &Vec<_>| one == other;
                    self.rejected.add(&target.key, entry.specs, is_same, &error);
                }
                Err(error)
            }
            result => {
                if result.is_ok() {
                    self.rejected.remove(&target.key);
                }
                if let Some(entry) = cache.get_mut(&target.key) {
                    entry.used = Instant::now();
                }
                result
            }
        }
    }

    async fn client(&self, target: &Target) -> Result<Arc<dyn Bmc>, BmcError> {
        let mut specs = specs(target).await?;
        self.rejected.check(&target.key, |known| *known == specs)?;
        // Each time, because the address of a name may change, which requires another client.
        for spec in &mut specs {
            pin(&self.resolver, &target.config, spec).await?;
        }
        let compared = Some(Compared {
            at: Instant::now(),
            config: Arc::downgrade(&target.config),
        });
        let old = {
            let mut cache = self.cache.lock();
            match cache.get_mut(&target.key) {
                Some(entry) if entry.specs == specs => {
                    entry.used = Instant::now();
                    entry.compared = compared;
                    return Ok(entry.bmc.clone());
                }
                _ => cache.remove(&target.key),
            }
        };
        if let Some(old) = old {
            close(old.bmc).await;
        }
        let bmc = self.connect(&target.address, specs.clone()).await?;
        let entry = Entry {
            specs,
            bmc: bmc.clone(),
            used: Instant::now(),
            compared,
        };
        self.cache.lock().insert(target.key.clone(), entry);
        Ok(bmc)
    }

    /// The settings of every driver of the BMC, with addresses in the allowed networks.
    pub(crate) async fn resolved(&self, target: &Target) -> Result<Vec<BmcSpec>, BmcError> {
        let mut specs = specs(target).await?;
        for spec in &mut specs {
            pin(&self.resolver, &target.config, spec).await?;
        }
        Ok(specs)
    }

    /// A client that is not kept for later calls, and must be closed.
    pub(crate) async fn connect(
        &self,
        address: &BmcAddress,
        specs: Vec<BmcSpec>,
    ) -> Result<Arc<dyn Bmc>, BmcError> {
        let driver = self.driver.clone();
        blocking::run(move || driver.connect(specs))
            .await
            .map_err(|error| fault(address, error.to_string()))?
    }

    /// A client for each driver of the BMC, for a diagnosis: the one that the agent has, because a BMC may have as few as
    /// four sessions. A password that was rejected recently is not tried again.
    pub(crate) async fn ways(&self, target: &Target) -> Result<Vec<DriverClient>, BmcError> {
        let mut specs = specs(target).await?;
        let refused = self
            .rejected
            .check(&target.key, |known| *known == specs)
            .err();
        let mut names = Vec::with_capacity(specs.len());
        for spec in &mut specs {
            let limit = spec.connect_timeout;
            let found = self.resolver.addresses(&spec.address.host(), limit).await;
            if let Ok(ips) = &found {
                spec.resolved.clone_from(ips);
            }
            names.push(found);
        }
        let mut shared = self.in_use(target, &specs).into_iter();
        let mut ways = Vec::with_capacity(specs.len());
        for (spec, found) in specs.into_iter().zip(names) {
            let known = shared.next();
            let is_shared = known.is_some() && refused.is_none() && found.is_ok();
            let bmc = match (&refused, &found, known) {
                (Some(error), ..) => Err(error.clone()),
                (None, Err(why), _) => Err(fault(&spec.address, why.clone())),
                (None, Ok(_), Some(known)) => Ok(known),
                (None, Ok(_), None) => self.connect(&spec.address, vec![spec.clone()]).await,
            };
            ways.push(DriverClient {
                spec,
                found,
                bmc,
                is_shared,
            });
        }
        Ok(ways)
    }

    /// The drivers of the client that other calls use with these settings; empty: there is none.
    fn in_use(&self, target: &Target, specs: &[BmcSpec]) -> Vec<Arc<dyn Bmc>> {
        let mut cache = self.cache.lock();
        let Some(entry) = cache.get_mut(&target.key) else {
            return Vec::new();
        };
        if entry.specs != specs {
            return Vec::new();
        }
        entry.used = Instant::now();
        let drivers = entry.bmc.drivers();
        match (drivers.len(), specs.len()) {
            (0, 1) => vec![entry.bmc.clone()],
            (has, needs) if has == needs => drivers,
            _ => Vec::new(),
        }
    }

    /// Closes idle clients, or all of them at the end.
    pub(crate) async fn sweep(&self, all: bool) {
        let now = Instant::now();
        let idle: Vec<Entry> = {
            let mut cache = self.cache.lock();
            let keys: Vec<String> = cache
                .iter()
                .filter(|(_, entry)| all || now.duration_since(entry.used) > IDLE)
                .map(|(key, _)| key.clone())
                .collect();
            keys.iter().filter_map(|key| cache.remove(key)).collect()
        };
        let closing = idle.into_iter().map(|entry| close(entry.bmc));
        futures::future::join_all(closing).await;
        self.queues.lock().sweep();
        self.watches.sweep();
        self.switches.sweep();
    }
}

/// The driver enforces its own limit with a more precise error; this one is for a driver that does
/// not return.
fn wall(config: &Config) -> Duration {
    config.times.call + Duration::from_secs(1)
}

/// Logs a call to a BMC. Readings are repeated every few seconds, so they are details.
fn log_call(target: &Target, asked: CallKind, error: Option<&BmcError>, elapsed: Duration) {
    let (host, bmc, call) = (&target.host, &target.address, asked.label());
    let error = error.map(tracing::field::display);
    if asked.changes() {
        info!(%host, %bmc, call, error, ?elapsed, "BMC call");
    } else {
        debug!(%host, %bmc, call, error, ?elapsed, "BMC call");
    }
}

async fn close(bmc: Arc<dyn Bmc>) {
    match timeout(Duration::from_secs(5), bmc.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a BMC session may be left open"),
        Err(_) => debug!(
            bmc = bmc.address(),
            "a BMC session may be left open: no answer"
        ),
    }
}
