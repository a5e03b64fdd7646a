//! The leader Lease and the writes that only its holder may send.
//!
//! Maintains the Lease object as decided by `rackhand_core::lease`. A process acts as leader only while the
//! core confirms its leadership at that moment (F7).

pub(crate) mod events;
#[cfg(test)]
pub(crate) mod fixture;
mod metrics;
pub(crate) mod node_conditions;
mod thread;
pub(crate) mod writer;

pub(crate) use metrics::LeaderMetrics;
pub(crate) use thread::Election;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use parking_lot::Mutex;
use rackhand_api::names::{SERVING_CERTIFICATE_ANNOTATION, SETTINGS_ANNOTATION};
use rackhand_core::lease::{
    Decision, LeadershipLost, LeaseConfig, LeaseRecord, LeaseView, LeaseWrite, TermOutlier,
    evaluate,
};
use rackhand_transport::WebTls;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::store::{
    api::{ApiError, call, optional},
    clock::boottime,
    watch::pause,
};

/// A clock with any origin that also runs while the machine is suspended.
type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

struct Shared {
    view: Mutex<LeaseView>,
    /// The Lease that the API server returned last. A renewal keeps what others have written to it, and its uid,
    /// without which the API server would create a deleted Lease again.
    lease: Mutex<Option<Lease>>,
    config: LeaseConfig,
    clock: Clock,
    me: String,
    /// The settings of the controller, as written to an annotation of the Lease.
    settings: String,
    /// The certificate of the HTTPS server, whose fingerprint is written to the Lease.
    serving: Option<Arc<WebTls>>,
    bell: Notify,
}

/// A handle to the leadership of this process.
#[derive(Clone)]
pub(crate) struct Leader(Arc<Shared>);

/// Why the election ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElectionEnd {
    #[error("leadership lost: {0}")]
    Lost(LeadershipLost),
    #[error("the Lease has no higher term left; delete it while no controller runs")]
    Exhausted,
}

/// Parses a Lease into the record of the core.
fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec
        .lease_duration_seconds
        .and_then(|s| u64::try_from(s).ok())
        .unwrap_or(0);
    LeaseRecord {
        holder: spec.holder_identity.unwrap_or_default(),
        transitions: spec
            .lease_transitions
            .and_then(|t| u64::try_from(t).ok())
            .unwrap_or(0),
        duration: Duration::from_secs(seconds),
        renewed: spec.renew_time.map(|t| t.0),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

impl Leader {
    /// Creates a candidate. `me` must be unique per process; `settings` are written to the Lease, and the
    /// fingerprint of the certificate that this process serves with.
    pub(crate) fn new(
        me: String,
        config: LeaseConfig,
        settings: &BTreeMap<String, String>,
        serving: Option<Arc<WebTls>>,
    ) -> Self {
        Self::with_clock(me, config, settings, serving, Box::new(boottime))
    }

    fn with_clock(
        me: String,
        config: LeaseConfig,
        settings: &BTreeMap<String, String>,
        serving: Option<Arc<WebTls>>,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Shared {
            view: Mutex::new(LeaseView::new(me.clone(), None, clock())),
            lease: Mutex::new(None),
            config,
            clock,
            me,
            settings: serde_json::to_string(settings).unwrap_or_default(),
            serving,
            bell: Notify::new(),
        }))
    }

    fn now(&self) -> Duration {
        (self.0.clock)()
    }

    /// The term in which this process may act now; `None` if it does not lead.
    pub(crate) fn term(&self) -> Option<u64> {
        self.0.view.lock().term(&self.0.config, self.now())
    }

    pub(crate) fn leads(&self) -> bool {
        self.term().is_some()
    }

    pub(crate) fn identity(&self) -> &str {
        &self.0.me
    }

    /// Raises the term of the next renewal above `highest`, which an agent reported when it refused the term
    /// `claimed`.
    ///
    /// # Errors
    /// The term of the agent is an outlier, so the leader does not raise its own.
    pub(crate) fn raise_term(
        &self,
        agent: &str,
        claimed: u64,
        highest: u64,
    ) -> Result<(), TermOutlier> {
        let raised = self.0.view.lock().raise_term(agent, claimed, highest);
        self.0.bell.notify_one();
        raised
    }

    /// Takes part in the election until leadership is lost or `cancel`. `leads` shows whether this process
    /// leads.
    pub(crate) async fn run(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
        leads: tokio::sync::watch::Sender<bool>,
        cancel: CancellationToken,
    ) -> Result<(), ElectionEnd> {
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let what = format!("Lease {namespace}/{name}");
        self.read_lease(&leases, name, &what).await;
        loop {
            let now = self.now();
            let decision = evaluate(&self.0.view.lock(), &self.0.config, now);
            let wait = match decision {
                Decision::Hold { renew_at, .. } => renew_at.saturating_sub(now),
                Decision::Renew { write, renew_by } => {
                    let attempt = self.attempt(&leases, name, &what, &write);
                    // A hanging call must not outlast the leadership, because the replacement process waits
                    // for the end of this one.
                    match tokio::time::timeout(renew_by.saturating_sub(now), attempt).await {
                        Ok(false) => self.0.config.retry(),
                        Ok(true) | Err(_) => continue,
                    }
                }
                Decision::Acquire { write } => {
                    if self.attempt(&leases, name, &what, &write).await {
                        let (term, identity) = (write.transitions, &self.0.me);
                        tracing::info!(term, identity, "leading");
                        leads.send_if_modified(|l| !std::mem::replace(l, true));
                        continue;
                    }
                    self.0.config.retry()
                }
                Decision::StepDown { why } => {
                    leads.send_replace(false);
                    let now = self.now();
                    self.0.view.lock().step_down(now);
                    return Err(ElectionEnd::Lost(why));
                }
                Decision::Wait { until, .. } => {
                    let wait = until.saturating_sub(now).min(self.0.config.retry());
                    if pause(&cancel, wait).await {
                        return Ok(());
                    }
                    self.read_lease(&leases, name, &what).await;
                    continue;
                }
                Decision::Exhausted => return Err(ElectionEnd::Exhausted),
            };
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
                () = self.0.bell.notified() => {}
            }
        }
    }

    /// Releases the Lease, so that another replica leads at once. Called only after every task that acts as
    /// leader has stopped.
    pub(crate) async fn release(&self, client: &Client, namespace: &str, name: &str) {
        let now = self.now();
        let Some(write) = self.0.view.lock().release(now) else {
            return;
        };
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let what = format!("Lease {namespace}/{name}");
        if self.write(&leases, name, &what, &write).await {
            tracing::info!("the Lease is released");
        }
    }

    async fn read_lease(&self, leases: &Api<Lease>, name: &str, what: &str) {
        match optional(call(what, leases.get(name)).await) {
            Ok(lease) => {
                let now = self.now();
                self.0.view.lock().observe(lease.as_ref().map(record), now);
                *self.0.lease.lock() = lease;
            }
            Err(error) => tracing::warn!(%error, "cannot read the Lease"),
        }
    }

    /// Writes the Lease; if that fails, reads it.
    async fn attempt(
        &self,
        leases: &Api<Lease>,
        name: &str,
        what: &str,
        write: &LeaseWrite,
    ) -> bool {
        let written = self.write(leases, name, what, write).await;
        if !written {
            self.read_lease(leases, name, what).await;
        }
        written
    }

    async fn write(&self, leases: &Api<Lease>, name: &str, what: &str, write: &LeaseWrite) -> bool {
        let sent = self.now();
        let result = self.send(leases, name, what, write).await;
        match result {
            Ok(lease) => {
                let now = self.now();
                self.0.view.lock().written(record(&lease), sent, now);
                *self.0.lease.lock() = Some(lease);
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the Lease could not be written");
                false
            }
        }
    }

    async fn send(
        &self,
        leases: &Api<Lease>,
        name: &str,
        what: &str,
        write: &LeaseWrite,
    ) -> Result<Lease, ApiError> {
        let wall = MicroTime(jiff::Timestamp::now());
        let mut lease = match &write.replaces {
            Some(version) => self.replaced(leases, name, what, version).await?,
            None => Lease {
                metadata: ObjectMeta {
                    name: Some(name.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: None,
            },
        };
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(SETTINGS_ANNOTATION.to_owned(), self.0.settings.clone());
        let serving = SERVING_CERTIFICATE_ANNOTATION.to_owned();
        match &self.0.serving {
            Some(tls) => annotations.insert(serving, tls.fingerprint()),
            None => annotations.remove(&serving),
        };
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(write.holder.clone());
        spec.lease_transitions = i32::try_from(write.transitions).ok();
        spec.lease_duration_seconds = i32::try_from(write.duration.as_secs()).ok();
        spec.renew_time = Some(wall.clone());
        if write.acquires {
            spec.acquire_time = Some(wall);
        }
        match &write.replaces {
            Some(version) => {
                // The version that the core has observed, so that a write after a change in between fails.
                lease.metadata.resource_version = Some(version.clone());
                call(what, leases.replace(name, &PostParams::default(), &lease)).await
            }
            None => call(what, leases.create(&PostParams::default(), &lease)).await,
        }
    }

    /// The Lease of this version, which is read again only if it is not the Lease returned last.
    async fn replaced(
        &self,
        leases: &Api<Lease>,
        name: &str,
        what: &str,
        version: &str,
    ) -> Result<Lease, ApiError> {
        let last = self.0.lease.lock().clone();
        match last.filter(|lease| lease.metadata.resource_version.as_deref() == Some(version)) {
            Some(lease) => Ok(lease),
            None => call(what, leases.get(name)).await,
        }
    }
}

#[cfg(test)]
mod tests;
