//! Clients of BMCs, one call at a time to each BMC.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_bmc::{Bmc, BmcAddress, BmcError, ErrorKind, PowerReading, Trust};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};
use tracing::debug;

use super::target::{Access, Target};
use crate::{
    config::{Inventory, Times},
    driver::{BmcSpec, Driver},
};

/// A client that nobody has used for so long gives its session back.
const IDLE: Duration = Duration::from_secs(120);

/// What one BMC endpoint can do at once (F6): one operation, one call.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) turn: Semaphore,
    pub(crate) call: Semaphore,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            turn: Semaphore::new(1),
            call: Semaphore::new(1),
        }
    }
}

#[derive(Debug)]
struct Entry {
    spec: BmcSpec,
    bmc: Arc<dyn Bmc>,
    used: Instant,
}

/// A password that a BMC refuses. Each further try counts towards locking the account, so tries
/// become rare until somebody changes the password here.
#[derive(Debug)]
struct Rejected {
    spec: BmcSpec,
    times: u32,
    again: Instant,
}

/// How long a password is not tried after so many refusals. The second try is soon: BMCs that
/// start up refuse everybody for a moment.
fn patience(times: u32) -> Duration {
    Duration::from_secs(match times {
        0 | 1 => 4,
        2 => 60,
        _ => 300,
    })
}

#[derive(Debug)]
pub(crate) struct Clients {
    driver: Arc<dyn Driver>,
    inventory: Arc<Inventory>,
    times: Times,
    lanes: Mutex<HashMap<String, Arc<Lane>>>,
    cache: Mutex<HashMap<String, Entry>>,
    rejected: Mutex<HashMap<String, Rejected>>,
}

impl Clients {
    pub(crate) fn new(driver: Arc<dyn Driver>, inventory: Arc<Inventory>, times: Times) -> Self {
        Self {
            driver,
            inventory,
            times,
            lanes: Mutex::default(),
            cache: Mutex::default(),
            rejected: Mutex::default(),
        }
    }

    pub(crate) fn lane(&self, target: &Target) -> Arc<Lane> {
        let endpoint = target.address.endpoint();
        self.lanes.lock().entry(endpoint).or_default().clone()
    }

    /// Reads power, waiting for the BMC's other callers within `limit`.
    pub(crate) async fn read(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<PowerReading, BmcError> {
        let lane = self.lane(target);
        let reading = async {
            let _permit = permit(&lane.call).await;
            self.read_now(target).await
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, false)),
        }
    }

    /// Reads power; the caller holds the lane.
    pub(crate) async fn read_now(&self, target: &Target) -> Result<PowerReading, BmcError> {
        let bmc = self.client(target).await?;
        let limit = self.wall();
        let result = match timeout(limit, bmc.power()).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, false)),
        };
        self.settle(target, &result);
        result
    }

    /// Sends a command; the caller holds the lane and has written down that it does.
    pub(crate) async fn command(
        &self,
        target: &Target,
        command: crate::operation::Command,
    ) -> Result<rackhand_bmc::Accepted, BmcError> {
        let bmc = self.client(target).await?;
        let limit = self.wall();
        let call = match command {
            crate::operation::Command::Off => bmc.off(),
            crate::operation::Command::On => bmc.on(),
        };
        let result = match timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, true)),
        };
        self.settle(target, &result);
        result
    }

    /// The driver keeps the time itself and knows better what it was waiting for; this is for a
    /// driver that does not come back.
    fn wall(&self) -> Duration {
        self.times.call + Duration::from_secs(1)
    }

    /// After a refused password the next call starts from the beginning, with the file as it is
    /// then.
    fn settle<T>(&self, target: &Target, result: &Result<T, BmcError>) {
        let mut cache = self.cache.lock();
        let mut rejected = self.rejected.lock();
        match result {
            Err(error) if error.kind == ErrorKind::Authentication => {
                let Some(entry) = cache.remove(&target.key) else {
                    return;
                };
                let before = rejected
                    .get(&target.key)
                    .filter(|known| known.spec == entry.spec);
                let times = before.map_or(0, |known| known.times) + 1;
                let known = Rejected {
                    spec: entry.spec,
                    times,
                    again: Instant::now() + patience(times),
                };
                rejected.insert(target.key.clone(), known);
            }
            _ => {
                if result.is_ok() {
                    rejected.remove(&target.key);
                }
                if let Some(entry) = cache.get_mut(&target.key) {
                    entry.used = Instant::now();
                }
            }
        }
    }

    /// Spares the account while the same password was refused a moment ago.
    fn check_rejected(&self, target: &Target, spec: &BmcSpec) -> Result<(), BmcError> {
        let rejected = self.rejected.lock();
        let now = Instant::now();
        match rejected.get(&target.key) {
            Some(known) if known.spec == *spec && now < known.again => Err(BmcError {
                kind: ErrorKind::Authentication,
                bmc: target.address.to_string(),
                message: format!(
                    "user or password was refused {} times; so as not to lock the account it is \
                     tried again only in {} s, or when it is changed",
                    known.times,
                    known.again.duration_since(now).as_secs() + 1
                ),
                retry_after: None,
                maybe_sent: false,
            }),
            _ => Ok(()),
        }
    }

    async fn client(&self, target: &Target) -> Result<Arc<dyn Bmc>, BmcError> {
        let spec = self.spec(target).await?;
        self.check_rejected(target, &spec)?;
        // Each time, because a name may lead elsewhere tomorrow.
        self.check_network(&target.address).await?;
        let old = {
            let mut cache = self.cache.lock();
            match cache.get_mut(&target.key) {
                Some(entry) if entry.spec == spec => {
                    entry.used = Instant::now();
                    return Ok(entry.bmc.clone());
                }
                _ => cache.remove(&target.key),
            }
        };
        if let Some(old) = old {
            close(old.bmc).await;
        }
        let (driver, wanted) = (self.driver.clone(), spec.clone());
        let bmc = tokio::task::spawn_blocking(move || driver.connect(wanted))
            .await
            .map_err(|error| fault(&target.address, error.to_string()))??;
        let entry = Entry {
            spec,
            bmc: bmc.clone(),
            used: Instant::now(),
        };
        self.cache.lock().insert(target.key.clone(), entry);
        Ok(bmc)
    }

    async fn spec(&self, target: &Target) -> Result<BmcSpec, BmcError> {
        let (username, password, trust) = match &target.access {
            Access::Inventory(host) => {
                let file = host.bmc.password.clone();
                let password = tokio::task::spawn_blocking(move || file.read())
                    .await
                    .map_err(|error| fault(&target.address, error.to_string()))?
                    .map_err(|error| fault(&target.address, error.to_string()))?;
                (host.bmc.username.clone(), password, host.bmc.trust.clone())
            }
            Access::Sent {
                username,
                password,
                insecure,
            } => {
                let trust = if *insecure {
                    Trust::Insecure
                } else {
                    self.inventory.default_trust.clone()
                };
                (username.clone(), password.clone(), trust)
            }
        };
        Ok(BmcSpec {
            address: target.address.clone(),
            username,
            password,
            trust,
            connect_timeout: self.times.connect,
            call_timeout: self.times.call,
        })
    }

    /// An agent touches only BMCs in its networks. All addresses of a name must lie in them.
    async fn check_network(&self, address: &BmcAddress) -> Result<(), BmcError> {
        let host = address.host();
        let ips: Vec<IpAddr> = match host.parse() {
            Ok(ip) => vec![ip],
            Err(_) => {
                let found = tokio::net::lookup_host((host.as_str(), address.port()));
                match timeout(self.times.connect, found).await {
                    Ok(Ok(found)) => found.map(|socket| socket.ip()).collect(),
                    Ok(Err(error)) => return Err(unresolved(address, &error.to_string())),
                    Err(_) => return Err(unresolved(address, "no answer in time")),
                }
            }
        };
        let networks = &self.inventory.networks;
        match ips.iter().find(|ip| !networks.allow(**ip)) {
            None => Ok(()),
            Some(ip) => Err(fault(
                address,
                format!("{ip} is not in allowed_bmc_networks ({networks}) of this agent"),
            )),
        }
    }

    /// Closes clients that nobody needs any more; `all` at the end.
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
        self.lanes
            .lock()
            .retain(|_, lane| Arc::strong_count(lane) > 1);
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

/// A place in a lane. The semaphores are never closed; if one were, nobody would be served.
pub(crate) async fn permit(semaphore: &Semaphore) -> SemaphorePermit<'_> {
    match semaphore.acquire().await {
        Ok(permit) => permit,
        Err(_) => std::future::pending().await,
    }
}

fn late(address: &BmcAddress, after: Duration, maybe_sent: bool) -> BmcError {
    BmcError {
        kind: ErrorKind::Timeout,
        bmc: address.to_string(),
        message: format!("no answer within {after:?}"),
        retry_after: None,
        maybe_sent,
    }
}

fn fault(address: &BmcAddress, message: String) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
    }
}

fn unresolved(address: &BmcAddress, reason: &str) -> BmcError {
    BmcError {
        kind: ErrorKind::Unreachable,
        bmc: address.to_string(),
        message: format!("its name cannot be resolved: {reason}"),
        retry_after: None,
        maybe_sent: false,
    }
}

#[cfg(test)]
mod tests;
