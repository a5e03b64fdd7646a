//! All outlets of one host as a [`Bmc`].
//!
//! Owns: the outlets to read and to switch, and their order. Must never: switch an outlet before all outlets of
//! the host were read, read from a cache, or report a state while an outlet could not be read.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{task::JoinSet, time::Instant};

use super::{
    OutletCommand, OutletId, OutletReading, Pdu,
    host_reading::{self, Named},
};
use crate::{
    Acceptance, Accepted, Bmc, BmcError, BmcFuture, ErrorKind, PowerCommand, PowerReading,
    PowerSource, SystemIdentity, bmc::in_time, expected::Expected,
};

/// An outlet that feeds a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostOutlet {
    /// Name of the PDU.
    pub pdu: String,
    /// The outlet at this PDU.
    pub outlet: OutletId,
}

impl fmt::Display for HostOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pdu, self.outlet)
    }
}

/// One PDU with the outlets of the host at it.
#[derive(Debug)]
struct Feed {
    name: String,
    pdu: Arc<dyn Pdu>,
    outlets: Vec<OutletId>,
}

/// All outlets of one host, as a [`Bmc`] that switches off and on, and reads whether the host has power.
///
/// Off switches all PDUs in parallel. On switches one outlet after another, in the order of the list. Both
/// read all outlets first, and switch none if one cannot be read. Soft off, reset and diagnostic interrupt
/// are [`ErrorKind::Unsupported`].
#[derive(Debug)]
pub struct HostOutlets {
    address: String,
    feeds: Vec<Arc<Feed>>,
    /// In the order in which they are switched on: index of the feed, and the outlet.
    order: Vec<(usize, HostOutlet)>,
    on_delay: Duration,
    /// Number of hosts that each shared outlet feeds; an outlet that is not listed feeds one.
    hosts: BTreeMap<HostOutlet, usize>,
}

impl HostOutlets {
    /// Creates the device of a host from all of its outlets, in the order in which they are switched on, and
    /// the PDUs by name. `on_delay` is the time between the switch-on of two outlets.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Configuration`]: no outlet, an outlet twice, or the name of an unknown PDU.
    pub fn new(
        pdus: &BTreeMap<String, Arc<dyn Pdu>>,
        outlets: Vec<HostOutlet>,
        on_delay: Duration,
    ) -> Result<Self, BmcError> {
        let names: Vec<String> = outlets.iter().map(ToString::to_string).collect();
        let address = format!("outlets {}", names.join(", "));
        let wrong = |message: String| error(&address, ErrorKind::Configuration, message);
        if outlets.is_empty() {
            return Err(wrong("the host has no outlets".to_owned()));
        }
        let mut feeds: BTreeMap<&str, Vec<OutletId>> = BTreeMap::new();
        for outlet in &outlets {
            let known = feeds.entry(&outlet.pdu).or_default();
            if known.contains(&outlet.outlet) {
                return Err(wrong(format!("outlet {outlet} is listed twice")));
            }
            known.push(outlet.outlet.clone());
        }
        let feeds = feeds
            .into_iter()
            .map(|(name, outlets)| {
                let pdu = pdus.get(name);
                let pdu = pdu.ok_or_else(|| wrong(format!("there is no PDU {name:?}")))?;
                Ok(Arc::new(Feed {
                    name: name.to_owned(),
                    pdu: Arc::clone(pdu),
                    outlets,
                }))
            })
            .collect::<Result<Vec<_>, BmcError>>()?;
        let order = outlets
            .into_iter()
            .filter_map(|outlet| {
                let feed = feeds.iter().position(|feed| feed.name == outlet.pdu)?;
                Some((feed, outlet))
            })
            .collect();
        Ok(Self {
            address,
            feeds,
            order,
            on_delay,
            hosts: BTreeMap::new(),
        })
    }

    /// Sets the number of hosts that shared outlets feed. If an outlet feeds more systems than that, nothing is
    /// switched off: a host that the caller does not know would lose its power.
    #[must_use]
    pub fn shared(mut self, hosts: BTreeMap<HostOutlet, usize>) -> Self {
        self.hosts = hosts;
        self
    }

    fn error(&self, kind: ErrorKind, message: String) -> BmcError {
        error(&self.address, kind, message)
    }

    /// The error of one PDU, as an error of this host.
    fn failed(&self, feed: &Feed, mut failed: BmcError) -> BmcError {
        failed.message = format!("PDU {} ({}): {}", feed.name, failed.bmc, failed.message);
        failed.bmc.clone_from(&self.address);
        failed
    }

    /// Reads every outlet, all PDUs in parallel; in the order of the list.
    async fn read(&self) -> Result<Vec<OutletReading>, BmcError> {
        let mut calls = JoinSet::new();
        for (index, feed) in self.feeds.iter().enumerate() {
            let feed = Arc::clone(feed);
            calls.spawn(async move { (index, feed.pdu.read(&feed.outlets).await) });
        }
        let mut readings: BTreeMap<(usize, OutletId), OutletReading> = BTreeMap::new();
        while let Some(result) = calls.join_next().await {
            let (index, result) = result.map_err(|stopped| {
                self.error(ErrorKind::Protocol, format!("stopped: {stopped}"))
            })?;
            if let Some(feed) = self.feeds.get(index) {
                let found = result.map_err(|failed| self.failed(feed, failed))?;
                let found = found.into_iter().map(|r| ((index, r.id.clone()), r));
                readings.extend(found);
            }
        }
        self.order
            .iter()
            .map(|(feed, outlet)| {
                let reading = readings.remove(&(*feed, outlet.outlet.clone()));
                reading.ok_or_else(|| {
                    self.error(ErrorKind::Protocol, format!("{outlet} was not reported"))
                })
            })
            .collect()
    }

    async fn power(&self) -> Result<PowerReading, BmcError> {
        Ok(self.power_and_draw().await?.0)
    }

    /// Reads the power state, and the power that all outlets carry together, in watts; `None`: not all of them
    /// measure it.
    ///
    /// # Errors
    ///
    /// Those of [`Bmc::power`].
    pub async fn power_and_draw(&self) -> Result<(PowerReading, Option<f64>), BmcError> {
        let readings = self.read().await?;
        let named: Vec<_> = self
            .order
            .iter()
            .zip(&readings)
            .map(|((_, outlet), reading)| Named {
                pdu: &outlet.pdu,
                reading,
            })
            .collect();
        let reading = PowerReading {
            state: host_reading::state(&named),
            raw: host_reading::words(&named),
            source: PowerSource::Outlets,
            identity: SystemIdentity::default(),
            at: Timestamp::now(),
            bmc: self.address.clone(),
            connection: None,
            identify_led: None,
        };
        Ok((reading, host_reading::draw(&named)))
    }

    /// Refuses an outlet that feeds more systems than are known.
    async fn check_systems(&self) -> Result<(), BmcError> {
        for (index, outlet) in &self.order {
            let Some(feed) = self.feeds.get(*index) else {
                continue;
            };
            let systems = feed.pdu.systems(&outlet.outlet).await;
            let systems = systems.map_err(|failed| self.failed(feed, failed))?;
            let known = self.hosts.get(outlet).copied().unwrap_or(1);
            if let Some(systems) = systems.filter(|systems| *systems > known) {
                let message = format!(
                    "{outlet} feeds {systems} systems, and the inventory names it for {known}; list it at every \
                     host that it feeds, as shared"
                );
                return Err(self.error(ErrorKind::Configuration, message));
            }
        }
        Ok(())
    }

    /// Switches all outlets off, all PDUs in parallel. Every outlet gets its command, even after another has
    /// failed: the host loses as many feeds as possible. None is asked
    /// for after `until`.
    async fn switch_off(&self, until: Option<Instant>) -> Result<Accepted, BmcError> {
        self.read().await?;
        self.check_systems().await?;
        in_time(&self.address, until)?;
        let mut calls = JoinSet::new();
        for (index, feed) in self.feeds.iter().enumerate() {
            let feed = Arc::clone(feed);
            calls.spawn(async move {
                let mut results = Vec::new();
                for outlet in &feed.outlets {
                    let result = feed.pdu.switch(outlet, OutletCommand::Off).await;
                    results.push((index, outlet.clone(), result));
                }
                results
            });
        }
        let mut results = Vec::new();
        while let Some(result) = calls.join_next().await {
            results.extend(result.map_err(|stopped| BmcError {
                maybe_sent: true,
                ..self.error(ErrorKind::Protocol, format!("stopped: {stopped}"))
            })?);
        }
        results.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut switched = Vec::new();
        let mut acceptance = Acceptance::Taken;
        let mut first_failure = None;
        for (index, outlet, result) in results {
            let Some(feed) = self.feeds.get(index) else {
                continue;
            };
            match result {
                Ok(accepted) => {
                    acceptance = acceptance.and(accepted.acceptance);
                    switched.push(format!("{}/{outlet}: {}", feed.name, accepted.answer));
                }
                Err(failed) => {
                    first_failure.get_or_insert(self.failed(feed, failed));
                }
            }
        }
        let accepted = Self::summary(OutletCommand::Off, &switched, first_failure)?;
        Ok(Accepted {
            acceptance,
            ..accepted
        })
    }

    /// Switches the outlets on, in the order of the list; ends with the first that fails.
    async fn switch_on(&self) -> Result<Accepted, BmcError> {
        self.read().await?;
        let mut switched = Vec::new();
        let mut failure = None;
        for (index, outlet) in &self.order {
            let Some(feed) = self.feeds.get(*index) else {
                continue;
            };
            if !switched.is_empty() {
                tokio::time::sleep(self.on_delay).await;
            }
            match feed.pdu.switch(&outlet.outlet, OutletCommand::On).await {
                Ok(accepted) => switched.push(format!("{outlet}: {}", accepted.answer)),
                Err(failed) => {
                    failure = Some(self.failed(feed, failed));
                    break;
                }
            }
        }
        Self::summary(OutletCommand::On, &switched, failure)
    }

    fn summary(
        command: OutletCommand,
        switched: &[String],
        failure: Option<BmcError>,
    ) -> Result<Accepted, BmcError> {
        let word = command.word();
        let Some(failure) = failure else {
            let command = format!("outlets {word}");
            return Ok(Accepted::taken(command, switched.join("; ")));
        };
        if switched.is_empty() {
            return Err(failure);
        }
        let message = format!(
            "{}; {word} was accepted by {}",
            failure.message,
            switched.join("; ")
        );
        Err(BmcError {
            message,
            maybe_sent: true,
            ..failure
        })
    }

    async fn close(&self) -> Result<(), BmcError> {
        let mut result = Ok(());
        for feed in &self.feeds {
            let closed = feed.pdu.close().await;
            result = result.and(closed.map_err(|failed| self.failed(feed, failed)));
        }
        result
    }
}

fn error(address: &str, kind: ErrorKind, message: String) -> BmcError {
    BmcError {
        kind,
        bmc: address.to_owned(),
        message,
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

impl Bmc for HostOutlets {
    fn address(&self) -> &str {
        &self.address
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(self.power())
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        self.command_until(command, Expected::default(), None)
    }

    fn command_until(
        &self,
        command: PowerCommand,
        _expected: Expected,
        until: Option<Instant>,
    ) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            match command {
                PowerCommand::Off => self.switch_off(until).await,
                PowerCommand::On => self.switch_on().await,
                PowerCommand::SoftOff
                | PowerCommand::Reset
                | PowerCommand::Nmi
                | PowerCommand::OnByButton
                | PowerCommand::SoftOffByButton => {
                    let message = format!("{}: an outlet can only be switched", command.words());
                    Err(self.error(ErrorKind::Unsupported, message))
                }
            }
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(self.close())
    }
}

#[cfg(test)]
mod tests;
