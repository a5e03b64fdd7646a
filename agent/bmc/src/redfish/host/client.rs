//! The Redfish driver as a [`Bmc`].
//!
//! Owns: state shared by all calls, and the time limit of each call. Must never: have two changes
//! in flight at once.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};
use url::Url;

use super::discovery::Locator;
use crate::{
    Accepted, Bmc, BmcError, BmcFuture, BootOverride, BootState, ErrorKind, EventLog, Facts,
    Identify, PowerCommand, PowerReading, PowerSource, Sensor, SystemIdentity, Topology,
    redfish::{
        RedfishConfig, Timeouts,
        protocol::{
            auth::Access,
            call_budget::{Call, bounded},
            document::{self, Action},
            errors,
            response::Body,
        },
    },
};

/// One Redfish BMC.
pub(in crate::redfish) struct Redfish {
    pub(super) access: Access,
    pub(super) locator: Locator,
    /// Reset types of each ActionInfo, by its link; they do not change while a BMC runs. Two
    /// entries at most: the system's and the manager's.
    action_info: Mutex<BTreeMap<String, Vec<String>>>,
    /// Held while a change is in flight: from the reading that it depends on, if any, to its
    /// response.
    pub(super) changing: Mutex<()>,
    /// When the BMC accepted the last power-off, unless another command followed.
    off_accepted: std::sync::Mutex<Option<Instant>>,
    pub(super) timeouts: Timeouts,
    pub(super) soft_off_by_button: bool,
    ignore_system_uuid: bool,
}

impl Redfish {
    pub(in crate::redfish) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let locator = Locator::new(config.address.system().map(str::to_owned));
        let (timeouts, soft_off_by_button) = (config.timeouts, config.soft_off_by_button);
        let ignore_system_uuid = config.ignore_system_uuid;
        Ok(Self {
            access: Access::new(config)?,
            locator,
            action_info: Mutex::new(BTreeMap::new()),
            changing: Mutex::new(()),
            off_accepted: std::sync::Mutex::new(None),
            timeouts,
            soft_off_by_button,
            ignore_system_uuid,
        })
    }

    pub(super) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.access.http.reporter.error(kind, message)
    }

    fn note_off(&self, command: PowerCommand, is_accepted: bool) {
        let mut off = self
            .off_accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *off = match command {
            // A repeated power-off does not start the time again.
            PowerCommand::Off => off.or_else(|| is_accepted.then(Instant::now)),
            _ => None,
        };
    }

    /// Whether the BMC accepted a power-off that should have had its effect by now.
    pub(super) fn is_off_late(&self) -> bool {
        let off = self
            .off_accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        off.is_some_and(|accepted| accepted.elapsed() >= self.timeouts.late_off)
    }

    /// Runs a call within its time limit.
    fn bounded<'a, T, F>(&'a self, work: impl FnOnce(&'a Self, Arc<Call>) -> F) -> BmcFuture<'a, T>
    where
        F: Future<Output = Result<T, BmcError>> + Send + 'a,
        T: Send + 'a,
    {
        let reporter = &self.access.http.reporter;
        bounded(self.timeouts.call, reporter, |call| work(self, call))
    }

    async fn read(&self, call: &Call) -> Result<PowerReading, BmcError> {
        let found = self.locator.read(&self.access, call).await?;
        let (state, raw) = self.host_power(call, &found).await?;
        Ok(PowerReading {
            state,
            raw,
            source: PowerSource::Redfish,
            identity: self.identity_of(found.system),
            at: Timestamp::now(),
            bmc: self.address().to_owned(),
            connection: None,
        })
    }

    fn identity_of(&self, system: document::System) -> SystemIdentity {
        match self.ignore_system_uuid {
            true => SystemIdentity {
                system_uuid: None,
                ..system.identity
            },
            false => system.identity,
        }
    }

    /// Reads a document.
    pub(super) async fn fetch(
        &self,
        call: &Call,
        url: &Url,
        doing: &str,
    ) -> Result<Value, BmcError> {
        let answer = self.access.get(call, url).await?;
        errors::document(&self.access.http.reporter, doing, answer)
    }

    /// The reset types that the BMC allows; `None` if it does not report them.
    pub(super) async fn allowed(
        &self,
        call: &Call,
        action: &Action,
    ) -> Result<Option<Vec<String>>, BmcError> {
        let (None, Some(link)) = (&action.allowed, &action.action_info) else {
            return Ok(action.allowed.clone());
        };
        if let Some(words) = self.action_info.lock().await.get(link) {
            return Ok(Some(words.clone()));
        }
        let answer = self
            .access
            .get(call, &self.access.http.resolve(link)?)
            .await?;
        let words = match &answer.body {
            Body::Json(body) if answer.status.is_success() => document::action_info(body),
            // The ActionInfo is optional: without it the standard type is tried.
            _ => None,
        };
        if let Some(words) = &words {
            let mut known = self.action_info.lock().await;
            if known.len() > 1 {
                known.clear();
            }
            known.insert(link.clone(), words.clone());
        }
        Ok(words)
    }
}

impl Bmc for Redfish {
    fn address(&self) -> &str {
        self.access.http.reporter.bmc()
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.bounded(|this, call| async move { this.read(&call).await })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move {
            let result = this.switch(&call, command).await;
            this.note_off(command, result.is_ok());
            result
        })
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        self.bounded(|this, call| async move {
            let found = this.locator.read(&this.access, &call).await?;
            Ok(this.identity_of(found.system))
        })
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        self.bounded(|this, call| async move { this.read_boot(&call).await })
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        self.bounded(|this, call| async move { this.read_boot_state(&call).await })
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move { this.write_boot(&call, wanted).await })
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move { this.set_identify_led(&call, wanted).await })
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        self.bounded(|this, call| async move { this.read_sensors(&call).await })
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        self.bounded(move |this, call| async move { this.read_log(&call, limit).await })
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        self.bounded(|this, call| async move { this.clear_log(&call).await })
    }

    fn topology(&self) -> BmcFuture<'_, Topology> {
        self.bounded(|this, call| async move { this.read_topology(&call).await })
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        self.bounded(|this, call| async move { this.read_facts(&call).await })
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        self.bounded(|this, call| async move { this.manager_uptime(&call).await })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        self.bounded(|this, call| async move { this.reset_manager(&call).await })
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        self.bounded(move |this, call| async move { this.write_password(&call, &password).await })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.bounded(|this, _| async move { this.access.close().await })
    }
}

impl fmt::Debug for Redfish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redfish")
            .field("bmc", &self.address())
            .finish_non_exhaustive()
    }
}
