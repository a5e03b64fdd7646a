//! Clients of BMCs, one call at a time to each BMC.

mod locate;
mod specs;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_bmc::{Accepted, Bmc, BmcError, BmcFuture, ErrorKind, PowerCommand, PowerReading};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{
    bmc_queue::{BmcQueue, BmcQueues, Class},
    resolver::Resolver,
    target::{Access, Target},
};
use crate::{
    config::{Config, Inventory},
    driver::{BmcSpec, Driver},
    metrics::Metrics,
};
pub(crate) use locate::Located;
use specs::{fault, late, pin, specs};

/// A client that nobody has used for so long gives its session back.
const IDLE: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct Entry {
    specs: Vec<BmcSpec>,
    bmc: Arc<dyn Bmc>,
    used: Instant,
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A reading of power.
    Read,
    /// A power command.
    Command,
    /// A reading of something else.
    Look,
    /// A change of something else.
    Change,
}

impl Asked {
    /// Whether it may have had an effect where no answer came.
    fn changes(self) -> bool {
        matches!(self, Self::Command | Self::Change)
    }

    /// For metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Command => "command",
            Self::Look => "look",
            Self::Change => "change",
        }
    }
}

/// One of the ways to a BMC, with a client of its own. It is to be closed.
pub(crate) struct Way {
    pub(crate) spec: BmcSpec,
    /// The addresses of its host, which the client connects to; or why there are none. They may lie
    /// outside of the allowed networks: who asks looks first.
    pub(crate) found: Result<Vec<IpAddr>, String>,
    pub(crate) bmc: Result<Arc<dyn Bmc>, BmcError>,
}

impl Way {
    pub(crate) async fn close(self) {
        if let Ok(bmc) = self.bmc {
            close(bmc).await;
        }
    }
}

/// A password that a BMC refuses. Each further try counts towards locking the account, so tries
/// become rare until somebody changes the password here.
#[derive(Debug)]
struct Rejected {
    specs: Vec<BmcSpec>,
    times: u32,
    again: Instant,
    /// What the BMC said.
    error: BmcError,
}

/// Stands behind each refusal, of the BMC and of ours. The words must not change from one to the
/// other, nor count down: whoever watches takes changed words for news.
const RESTS: &str = "; so as not to lock the account it is tried again only now and then, or when \
                     it is changed";

/// How long a password is not tried after so many refusals. The second try comes within minutes:
/// BMCs that start up refuse everybody for a moment. Then there are at most two in any half hour:
/// accounts are locked after three at the earliest, and counted for that long at the most.
fn patience(times: u32) -> Duration {
    Duration::from_secs(match times {
        0 | 1 => 60,
        _ => 1800,
    })
}

#[derive(Debug)]
pub(crate) struct Clients {
    driver: Arc<dyn Driver>,
    metrics: Arc<Metrics>,
    resolver: Resolver,
    queues: Mutex<BmcQueues>,
    cache: Mutex<HashMap<String, Entry>>,
    rejected: Mutex<HashMap<String, Rejected>>,
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
            rejected: Mutex::default(),
        }
    }

    pub(crate) fn queue(&self, target: &Target) -> Arc<BmcQueue> {
        self.queues.lock().of(&self.known(target).keys.endpoints())
    }

    /// Goes by another inventory from now on, and then `taken` is called, before anybody takes
    /// another queue.
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

    /// Reads power, waiting for the BMC's other callers within `limit`.
    pub(crate) async fn read(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<PowerReading, BmcError> {
        let queue = self.queue(target);
        let reading = async {
            let _call = queue.call(Class::Reader).await;
            self.read_now(target).await
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, false)),
        }
    }

    /// Reads power; the caller has the BMC's turn.
    pub(crate) async fn read_now(&self, target: &Target) -> Result<PowerReading, BmcError> {
        self.ask(target, wall(&target.config), Asked::Read, |bmc| bmc.power())
            .await
    }

    /// Sends a command; the caller has the BMC's turn and has written down that it does.
    pub(crate) async fn command(
        &self,
        target: &Target,
        command: PowerCommand,
    ) -> Result<Accepted, BmcError> {
        let limit = wall(&target.config);
        self.ask(target, limit, Asked::Command, move |bmc| {
            bmc.command(command)
        })
        .await
    }

    /// Any call; the caller has the BMC's turn. `limit` is for a driver that does not come back.
    pub(crate) async fn ask<T>(
        &self,
        target: &Target,
        limit: Duration,
        asked: Asked,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send,
    ) -> Result<T, BmcError> {
        let bmc = self.client(target).await?;
        let begun = Instant::now();
        let result = match timeout(limit, call(bmc.as_ref())).await {
            Ok(result) => result,
            Err(_) => Err(late(&target.address, limit, asked.changes())),
        };
        let kind = result.as_ref().err().map(|error| error.kind);
        self.metrics.call(asked.label(), kind, begun.elapsed());
        self.settle(target, result)
    }

    /// After a refused password the next call starts from the beginning, with the file as it is
    /// then.
    fn settle<T>(&self, target: &Target, result: Result<T, BmcError>) -> Result<T, BmcError> {
        let mut cache = self.cache.lock();
        let mut rejected = self.rejected.lock();
        match result {
            Err(error) if error.kind == ErrorKind::Authentication => {
                let error = BmcError {
                    message: format!("{}{RESTS}", error.message),
                    retry_after: None,
                    ..error
                };
                if let Access::Inventory(host) = &target.access {
                    for bmc in host.bmcs() {
                        bmc.password.forget();
                    }
                }
                if let Some(mut entry) = cache.remove(&target.key) {
                    // A password is refused by the account, wherever its name leads just now.
                    for spec in &mut entry.specs {
                        spec.resolved.clear();
                    }
                    let before = rejected
                        .get(&target.key)
                        .filter(|known| known.specs == entry.specs);
                    let times = before.map_or(0, |known| known.times) + 1;
                    let known = Rejected {
                        specs: entry.specs,
                        times,
                        again: Instant::now() + patience(times),
                        error: error.clone(),
                    };
                    rejected.insert(target.key.clone(), known);
                }
                Err(error)
            }
            result => {
                if result.is_ok() {
                    rejected.remove(&target.key);
                }
                if let Some(entry) = cache.get_mut(&target.key) {
                    entry.used = Instant::now();
                }
                result
            }
        }
    }

    /// Spares the account while the same password was refused a moment ago, and says for how
    /// long.
    fn check_rejected(&self, target: &Target, specs: &[BmcSpec]) -> Result<(), BmcError> {
        let rejected = self.rejected.lock();
        let now = Instant::now();
        match rejected.get(&target.key) {
            Some(known) if known.specs == specs && now < known.again => Err(BmcError {
                retry_after: Some(known.again.duration_since(now)),
                maybe_sent: false,
                ..known.error.clone()
            }),
            _ => Ok(()),
        }
    }

    async fn client(&self, target: &Target) -> Result<Arc<dyn Bmc>, BmcError> {
        let mut specs = specs(target).await?;
        self.check_rejected(target, &specs)?;
        // Each time, because a name may lead elsewhere tomorrow: that is another client then.
        for spec in &mut specs {
            pin(&self.resolver, &target.config, spec).await?;
        }
        let old = {
            let mut cache = self.cache.lock();
            match cache.get_mut(&target.key) {
                Some(entry) if entry.specs == specs => {
                    entry.used = Instant::now();
                    return Ok(entry.bmc.clone());
                }
                _ => cache.remove(&target.key),
            }
        };
        if let Some(old) = old {
            close(old.bmc).await;
        }
        let (driver, wanted) = (self.driver.clone(), specs.clone());
        let bmc = tokio::task::spawn_blocking(move || driver.connect(wanted))
            .await
            .map_err(|error| fault(&target.address, error.to_string()))??;
        let entry = Entry {
            specs,
            bmc: bmc.clone(),
            used: Instant::now(),
        };
        self.cache.lock().insert(target.key.clone(), entry);
        Ok(bmc)
    }

    /// A client for each way to the BMC alone, for a diagnosis. A password that was refused a
    /// moment ago is not tried again.
    pub(crate) async fn ways(&self, target: &Target) -> Result<Vec<Way>, BmcError> {
        let specs = specs(target).await?;
        let refused = self.check_rejected(target, &specs).err();
        let mut ways = Vec::with_capacity(specs.len());
        for mut spec in specs {
            let limit = spec.connect_timeout;
            let found = self.resolver.addresses(&spec.address.host(), limit).await;
            if let Ok(ips) = &found {
                spec.resolved.clone_from(ips);
            }
            let bmc = match (&refused, &found) {
                (Some(error), _) => Err(error.clone()),
                (None, Err(why)) => Err(fault(&spec.address, why.clone())),
                (None, Ok(_)) => {
                    let (driver, only) = (self.driver.clone(), vec![spec.clone()]);
                    tokio::task::spawn_blocking(move || driver.connect(only))
                        .await
                        .map_err(|error| fault(&spec.address, error.to_string()))?
                }
            };
            ways.push(Way { spec, found, bmc });
        }
        Ok(ways)
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
        self.queues.lock().sweep();
    }
}

/// The driver keeps the time itself and knows better what it was waiting for; this is for a
/// driver that does not come back.
fn wall(config: &Config) -> Duration {
    config.times.call + Duration::from_secs(1)
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
