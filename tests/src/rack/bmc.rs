//! The BMC's side of a [`SimHost`]: faults, sessions, and whether it listens.
//!
//! Owns what a BMC is apart from its protocol. Must never change the machine except by a command.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::config::BmcConfig;
use super::faults::{Action, Effects, FaultId, NamedRule, Report, Rule, RuleBook};
use super::host::SimHost;
use super::redfish::SessionTable;

/// How long opening or closing the listener may take before a test is told that it failed.
const SWITCH_DEADLINE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Bmc {
    faults: Mutex<RuleBook>,
    pub(super) sessions: Mutex<SessionTable>,
    /// Whether it is to listen.
    pub(super) wanted: watch::Sender<bool>,
    /// Where it listens now.
    pub(super) listening: watch::Sender<Option<SocketAddr>>,
    /// Where it listened first: kept when it is dead, so that it comes back in its place.
    pub(super) address: watch::Sender<Option<SocketAddr>>,
}

impl Bmc {
    pub(super) fn new(config: &BmcConfig) -> Self {
        let profile = &config.profile;
        Self {
            faults: Mutex::default(),
            sessions: Mutex::new(SessionTable::new(
                profile.session_limit,
                profile.session_idle,
            )),
            wanted: watch::Sender::new(true),
            listening: watch::Sender::new(None),
            address: watch::Sender::new(None),
        }
    }

    pub(super) fn decide(&self, method: &str, path: &str) -> Effects {
        self.faults.lock().decide(method, path)
    }
}

/// Faults of its BMC.
impl SimHost {
    /// Adds a rule behind the others.
    pub fn inject(&self, rule: Rule) -> FaultId {
        self.note(format!("fault: {:?}", rule.action));
        self.bmc().faults.lock().add(rule)
    }

    /// Removes a rule; false if it is not there.
    pub fn clear_fault(&self, id: FaultId) -> bool {
        let removed = self.bmc().faults.lock().remove(id);
        if removed {
            self.note(format!("fault {} cleared", id.0));
        }
        removed
    }

    /// Removes all rules. What is not a rule stays: a dead BMC, a stuck power-off.
    pub fn clear_faults(&self) {
        self.bmc().faults.lock().clear();
        self.note("faults cleared");
    }

    /// The rules as they are.
    pub fn faults(&self) -> Vec<NamedRule> {
        self.bmc().faults.lock().rules().to_vec()
    }

    /// Reports `Off`, whatever is so.
    pub fn lie_off(&self) -> FaultId {
        self.report("Off")
    }

    /// Reports this power state, whatever is so.
    pub fn report(&self, state: &str) -> FaultId {
        self.inject(Rule::always(Action::State {
            state: state.to_owned(),
        }))
    }

    /// Goes on reporting what is so now.
    pub fn freeze_report(&self) -> FaultId {
        self.report(&self.real_power().to_string())
    }

    /// Reports what was so this long ago, as a BMC does that caches its readings.
    pub fn stale(&self, age: Duration) -> FaultId {
        self.inject(Rule::always(Action::Stale { age }))
    }

    /// Accepts connections and never answers.
    pub fn silent(&self) -> FaultId {
        self.inject(Rule::always(Action::Hang))
    }

    /// Answers everything this late.
    pub fn slow(&self, takes: Duration) -> FaultId {
        self.inject(Rule::always(Action::Latency { takes }))
    }

    /// Refuses every credential.
    pub fn refuse_auth(&self) -> FaultId {
        self.inject(Rule::always(Action::RefuseAuth))
    }

    /// Has no room for another session.
    pub fn session_table_full(&self) -> FaultId {
        let message = "The maximum number of user sessions is reached.";
        let body = json!({"error": {
            "code": "Base.1.18.SessionLimitExceeded",
            "message": message,
            "@Message.ExtendedInfo": [{
                "MessageId": "Base.1.18.SessionLimitExceeded",
                "Message": message,
                "Severity": "Critical",
                "Resolution": "Reduce the number of other sessions.",
            }],
        }});
        let action = Action::Status {
            status: 503,
            body: Some(body),
            headers: [].into(),
        };
        self.inject(Rule::always(action).on("POST", "/redfish/v1/SessionService/Sessions"))
    }

    /// Says that it is another machine, as a wrong cable or a wrong address does.
    pub fn foreign_uuid(&self) -> FaultId {
        let uuid = Some("deadbeef-0000-4000-8000-00000000f00d".to_owned());
        self.inject(Rule::always(Action::Identity {
            uuid,
            serial: Some("FOREIGN".to_owned()),
        }))
    }

    /// Says neither UUID nor serial.
    pub fn anonymous(&self) -> FaultId {
        self.inject(Rule::always(Action::Identity {
            uuid: None,
            serial: None,
        }))
    }

    /// Takes commands with the usual answer, and does nothing.
    pub fn ignore_commands(&self) -> FaultId {
        self.inject(Rule::always(Action::IgnoreCommands))
    }

    /// Carries out the next reset and loses the answer.
    pub fn lose_next_answer(&self) -> FaultId {
        let rule = Rule::always(Action::Drop).on("POST", "**/Actions/ComputerSystem.Reset");
        self.inject(rule.times(1).afterwards())
    }

    /// The BMC dies: nothing listens, what was connected is cut. The machine goes on as it was.
    pub async fn bmc_dead(&self) -> Result<()> {
        self.bmc().wanted.send_replace(false);
        self.note("BMC dead");
        self.bmc_listens(false).await
    }

    /// The BMC comes back in its old place, with its sessions forgotten.
    pub async fn bmc_alive(&self) -> Result<()> {
        if !self.bmc().wanted.send_replace(true) {
            self.bmc().sessions.lock().forget();
            self.note("BMC alive");
        }
        self.bmc_listens(true).await
    }

    async fn bmc_listens(&self, up: bool) -> Result<()> {
        let mut listening = self.bmc().listening.subscribe();
        let reached = listening.wait_for(|address| address.is_some() == up);
        match tokio::time::timeout(SWITCH_DEADLINE, reached).await {
            Ok(reached) => reached.map(|_| ()).context("the BMC's server has ended"),
            Err(_) => bail!(
                "{}: the BMC's listener did not become {up} in time",
                self.name()
            ),
        }
    }

    /// Where its BMC listens, or listened before it died.
    pub fn bmc_address(&self) -> Result<SocketAddr> {
        let address = *self.bmc().address.borrow();
        address.with_context(|| format!("{}: its BMC has not listened yet", self.name()))
    }

    /// The URL of its BMC, without a path.
    pub fn bmc_url(&self) -> Result<String> {
        let scheme = if self.config().bmc.tls {
            "https"
        } else {
            "http"
        };
        Ok(format!("{scheme}://{}", self.bmc_address()?))
    }

    /// The URL of its System, as a BareMetalHost would name it.
    pub fn system_url(&self) -> Result<String> {
        let id = &self.config().bmc.profile.system_id;
        Ok(format!("{}/redfish/v1/Systems/{id}", self.bmc_url()?))
    }

    /// How many sessions are open now.
    pub fn sessions_open(&self) -> usize {
        self.bmc().sessions.lock().open()
    }

    /// How many sessions were ever opened.
    pub fn sessions_opened(&self) -> u64 {
        self.bmc().sessions.lock().opened()
    }

    /// What the BMC says of the power, faults considered.
    pub(super) fn reported_power(&self, effects: &Effects) -> String {
        match &effects.report {
            Some(Report::Fixed(state)) => state.clone(),
            Some(Report::Stale(age)) => self.power_before(*age).to_string(),
            None => self.real_power().to_string(),
        }
    }
}
