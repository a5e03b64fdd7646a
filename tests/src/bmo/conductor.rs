//! Ironic's conductor: carries out power requests and syncs through the BMC.
//!
//! Reads over Redfish like the agent, so that faults of a BMC affect Ironic too. Commands go to the simulated
//! host under Ironic's own name, so that a test can identify the sender.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::{
    Access, Managed, Shared,
    ironic::{Command, Power, Send},
};
use crate::rack::{Action, ResetType, SimHost};

/// The sender of Ironic's commands in the logs of hosts.
pub(crate) const NAME: &str = "ironic";
/// Timeout of a request to a BMC.
const ANSWER: Duration = Duration::from_secs(2);
/// Interval of readings during a request.
const POLL: Duration = Duration::from_millis(200);

/// Ironic's connection to a BMC.
pub(super) struct Bmc {
    client: reqwest::Client,
    url: String,
    user: String,
    password: SecretString,
}

impl Bmc {
    pub(super) fn new(sim: &SimHost, access: &Access<'_>) -> Result<Self> {
        let ca = reqwest::Certificate::from_pem(access.ca).context("the CA of the BMCs")?;
        let client = reqwest::Client::builder()
            .tls_certs_only([ca])
            .timeout(ANSWER)
            .build()?;
        Ok(Self {
            client,
            url: sim.system_url()?,
            user: access.user.to_owned(),
            password: access.password.clone(),
        })
    }

    /// The power state by Ironic's mapping; `None` if it cannot be read.
    pub(super) async fn read(&self) -> Option<Power> {
        let asked = self.client.get(&self.url);
        let asked = asked.basic_auth(&self.user, Some(self.password.expose_secret()));
        let answer = asked.send().await.ok()?.error_for_status().ok()?;
        let system: Value = answer.json().await.ok()?;
        Power::of_redfish(system["PowerState"].as_str()?)
    }
}

/// Manages one host until it is dropped.
pub(super) async fn run(shared: Arc<Shared>, name: String) {
    let Some(host) = shared.hosts.get(&name) else {
        return;
    };
    let mut next_sync = Instant::now() + shared.settings.sync;
    loop {
        if host.record.lock().node.is_busy() {
            advance(&shared, host).await;
            tokio::time::sleep(POLL).await;
            continue;
        }
        tokio::select! {
            () = host.work.notified() => continue,
            () = tokio::time::sleep_until(next_sync.into()) => {}
        }
        sync(&shared, host).await;
        next_sync = Instant::now() + shared.settings.sync;
    }
}

async fn advance(shared: &Shared, host: &Managed) {
    let read = host.bmc.read().await;
    let mut record = host.record.lock();
    if record.refusing {
        record.node.fail("the BMC refuses the change of power");
    } else {
        let now = shared.begun.elapsed();
        if let Some(send) = record.node.advance(read, now, &shared.settings) {
            record.sent.count(send);
            command(&host.sim, send);
        }
    }
    if !record.node.is_busy() {
        host.news.notify_one();
    }
}

async fn sync(shared: &Shared, host: &Managed) {
    if !host.record.lock().node.enrolled {
        return;
    }
    let read = host.bmc.read().await;
    let mut record = host.record.lock();
    record.sent.syncs += 1;
    let refusing = record.refusing;
    let send = record.node.sync(read, &shared.settings);
    if let Some(send) = send.filter(|_| !refusing) {
        record.sent.count(send);
        command(&host.sim, send);
    }
}

/// Sends a command, which a BMC with the fault "ignore commands" ignores too.
fn command(sim: &SimHost, send: Send) {
    let reset = match send.command {
        Command::On => ResetType::On,
        Command::HardOff => ResetType::ForceOff,
        Command::SoftOff => ResetType::GracefulShutdown,
    };
    let ignored = |action: &Action| matches!(action, Action::IgnoreCommands);
    if sim.faults().iter().any(|named| ignored(&named.rule.action)) {
        sim.record_ignored(reset, NAME);
    } else {
        sim.switch(reset, NAME);
    }
}
