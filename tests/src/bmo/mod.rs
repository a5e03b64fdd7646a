//! A stand-in for baremetal-operator and Ironic, which manage power in Metal3.
//!
//! ```text
//!  BareMetalHost --> operator.rs --asks--> ironic.rs's Node --> conductor.rs --> BMC
//!   status     <--   (decide.rs)  <--its database--  (syncs and forces, on its own)
//! ```
//!
//! Behaves as documented in docs/reference/baremetal-operator.md, with the periods as settings: the desired
//! power is `spec.online` without any reboot annotation, `status.poweredOn` is the state in Ironic's database
//! and lags, and Ironic forces hosts back to that state. It shares no code with the code under test, and
//! counts every power command. Its webhook ([`webhook`]) answers while baremetal-operator runs.

pub mod acknowledge;
mod conductor;
pub mod decide;
pub mod host;
pub mod ironic;
mod operator;
pub mod real;
mod settings;
#[cfg(test)]
mod tests;
pub mod webhook;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use anyhow::{Context as _, Result};
use kube::{Api, api::DynamicObject};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinSet};

pub(crate) use conductor::NAME as IRONIC;
pub use ironic::Send;
pub use settings::Settings;

use self::{
    conductor::Bmc,
    decide::Memory,
    ironic::{Node, Sent},
    webhook::Webhook,
};
use crate::rack::SimHost;

/// One host of both.
struct Managed {
    sim: SimHost,
    bmc: Bmc,
    record: Mutex<Record>,
    /// Wakes the conductor.
    work: Notify,
    /// Wakes baremetal-operator.
    news: Notify,
}

/// The mutable state of a host.
#[derive(Default)]
struct Record {
    node: Node,
    memory: Memory,
    sent: Sent,
    servicing: bool,
    refusing: bool,
}

struct Shared {
    hosts: BTreeMap<String, Managed>,
    objects: Api<DynamicObject>,
    settings: Settings,
    begun: Instant,
    /// The Ironic that is used instead of this module's own.
    real: Option<real::Ironic>,
}

/// A running baremetal-operator and Ironic for some hosts. Dropping it stops them.
pub struct Metal3 {
    shared: Arc<Shared>,
    conductors: Mutex<JoinSet<()>>,
    operator: Mutex<Option<JoinSet<()>>>,
    webhook: Option<Webhook>,
}

/// Access to the BMCs.
pub struct Access<'a> {
    /// User name.
    pub user: &'a str,
    /// Password.
    pub password: &'a secrecy::SecretString,
    /// The CA of the BMCs' certificates, PEM.
    pub ca: &'a [u8],
}

impl Metal3 {
    /// Enrols hosts in Ironic with their current power and starts both, without a webhook.
    ///
    /// # Errors
    /// The CA cannot be parsed, or a BMC has never listened.
    pub fn start(
        objects: Api<DynamicObject>,
        hosts: &[&SimHost],
        access: &Access<'_>,
        settings: Settings,
    ) -> Result<Self> {
        Self::start_with(objects, hosts, access, settings, None, None)
    }

    /// The same, with a registered webhook, and with a real Ironic that has adopted the hosts.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        objects: Api<DynamicObject>,
        hosts: &[&SimHost],
        access: &Access<'_>,
        settings: Settings,
        real: Option<real::Ironic>,
        webhook: Option<Webhook>,
    ) -> Result<Self> {
        let mut managed = BTreeMap::new();
        for sim in hosts {
            let record = Record {
                node: Node::enrolled(ironic::Power::of_redfish(&sim.real_power().to_string())),
                ..Record::default()
            };
            let one = Managed {
                bmc: Bmc::new(sim, access)?,
                sim: (*sim).clone(),
                record: Mutex::new(record),
                work: Notify::new(),
                news: Notify::new(),
            };
            managed.insert(sim.name().to_owned(), one);
        }
        let shared = Arc::new(Shared {
            hosts: managed,
            objects,
            settings,
            begun: Instant::now(),
            real,
        });
        let metal3 = Self {
            conductors: Mutex::default(),
            operator: Mutex::default(),
            webhook,
            shared,
        };
        metal3.start_ironic();
        metal3.start_operator();
        Ok(metal3)
    }

    /// Starts Ironic if it does not run.
    pub fn start_ironic(&self) {
        let mut conductors = self.conductors.lock();
        if conductors.is_empty() && self.shared.real.is_none() {
            for name in self.shared.hosts.keys() {
                conductors.spawn(conductor::run(self.shared.clone(), name.clone()));
            }
        }
    }

    /// Stops Ironic, and with it the power sync; its database is kept.
    pub fn stop_ironic(&self) {
        *self.conductors.lock() = JoinSet::new();
    }

    /// The real Ironic, if it is used.
    pub fn real(&self) -> Option<&real::Ironic> {
        self.shared.real.as_ref()
    }

    /// The webhook, if one is registered.
    pub fn webhook(&self) -> Option<&Webhook> {
        self.webhook.as_ref()
    }

    /// Starts baremetal-operator if it does not run: its webhook at once, its reconcile loops too.
    pub fn start_operator(&self) {
        if let Some(webhook) = &self.webhook {
            webhook.start();
        }
        let mut operator = self.operator.lock();
        if operator.is_none() {
            let mut tasks = JoinSet::new();
            tasks.spawn(operator::watch(self.shared.clone()));
            for name in self.shared.hosts.keys() {
                tasks.spawn(operator::run(self.shared.clone(), name.clone()));
            }
            *operator = Some(tasks);
        }
    }

    /// Stops baremetal-operator at once, with its webhook; Ironic keeps running.
    pub fn stop_operator(&self) {
        self.stop_reconciling();
        if let Some(webhook) = &self.webhook {
            webhook.stop();
        }
    }

    /// Lets baremetal-operator do nothing, while its webhook answers, as one without the Lease of the leader.
    pub fn stop_reconciling(&self) {
        *self.operator.lock() = None;
    }

    /// Begins or ends the servicing of a host (firmware, for example), during which baremetal-operator does
    /// not change its power.
    ///
    /// # Errors
    /// The host is not managed here.
    pub fn servicing(&self, host: &str, on: bool) -> Result<()> {
        let one = self.managed(host)?;
        one.record.lock().servicing = on;
        one.news.notify_one();
        Ok(())
    }

    /// Sets whether every power action of Ironic on a host fails, so that baremetal-operator backs off.
    ///
    /// # Errors
    /// The host is not managed here.
    pub fn refusing(&self, host: &str, on: bool) -> Result<()> {
        self.managed(host)?.record.lock().refusing = on;
        Ok(())
    }

    /// Counters of the power commands sent to a host.
    ///
    /// # Errors
    /// The host is not managed here.
    pub fn sent(&self, host: &str) -> Result<Sent> {
        Ok(self.managed(host)?.record.lock().sent.clone())
    }

    /// Ironic's record of a host.
    ///
    /// # Errors
    /// The host is not managed here.
    pub fn node(&self, host: &str) -> Result<Node> {
        Ok(self.managed(host)?.record.lock().node.clone())
    }

    fn managed(&self, host: &str) -> Result<&Managed> {
        let found = self.shared.hosts.get(host);
        found.with_context(|| format!("host {host} is not enrolled in Ironic"))
    }
}
