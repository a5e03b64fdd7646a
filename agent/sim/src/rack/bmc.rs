//! The BMC of a [`SimHost`]: faults, accounts, sessions, and whether it listens.
//!
//! Owns: the protocol-independent state of a BMC. Must never: change the power of the machine
//! except by a command.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::config::BmcConfig;
use super::faults::{Action, Effects, FaultId, NamedRule, RequestFacts, Rule, RuleSet};
use super::host::SimHost;
use super::power::belief::Forgotten;
use super::power::{Answer, PowerState, ResetType};
use super::redfish::{AccountTable, SessionTable, refusal_body};

/// Time limit for opening or closing the listener.
const SWITCH_DEADLINE: Duration = Duration::from_secs(10);

/// A BMC reset in progress, on the host's clock.
#[derive(Clone, Copy, Debug)]
struct Restart {
    /// Time at which the BMC listens again.
    back: Instant,
    /// Time at which the BMC is ready again.
    ready: Instant,
}

#[derive(Debug)]
pub(super) struct Bmc {
    faults: Mutex<RuleSet>,
    pub(super) accounts: Mutex<AccountTable>,
    pub(super) sessions: Mutex<SessionTable>,
    /// Held while a resource is changed.
    pub(super) changing: Mutex<()>,
    restart: Mutex<Option<Restart>>,
    /// When its last reset was complete; `None`: long before the start.
    last_reset: Mutex<Option<Instant>>,
    /// The loss of the power state of its host.
    forgotten: Mutex<Option<Forgotten>>,
    /// Whether the BMC should listen.
    pub(super) wanted: watch::Sender<bool>,
    /// Current address of the listener.
    pub(super) listening: watch::Sender<Option<SocketAddr>>,
    /// First address of the listener: a BMC that is restarted uses it again.
    pub(super) address: watch::Sender<Option<SocketAddr>>,
}

impl Bmc {
    pub(super) fn new(config: &BmcConfig) -> Self {
        let profile = &config.profile;
        let accounts = AccountTable::new(&config.username, config.password.clone());
        Self {
            faults: Mutex::default(),
            accounts: Mutex::new(accounts),
            sessions: Mutex::new(SessionTable::new(
                profile.session_limit,
                profile.session_idle,
            )),
            changing: Mutex::default(),
            restart: Mutex::default(),
            last_reset: Mutex::default(),
            forgotten: Mutex::default(),
            wanted: watch::Sender::new(true),
            listening: watch::Sender::new(None),
            address: watch::Sender::new(None),
        }
    }

    pub(super) fn decide(&self, asked: &RequestFacts<'_>) -> Effects {
        self.faults.lock().decide(asked)
    }

    /// Records that a power-off command was accepted.
    pub(super) fn power_off_taken(&self) {
        self.faults.lock().power_off_taken();
    }

    /// When its last reset was complete; `None`: long before the start. A lost power state is the sign of
    /// one.
    pub(super) fn last_reset(&self, now: Instant) -> Option<Instant> {
        let forgotten = *self.forgotten.lock();
        let lost = forgotten.filter(|forgotten| forgotten.holds(now));
        lost.map(|forgotten| forgotten.since)
            .max(*self.last_reset.lock())
    }

    /// Time at which it listens again; `None` if it listens.
    pub(super) fn back_at(&self, now: Instant) -> Option<Instant> {
        let restart = *self.restart.lock();
        restart.map(|restart| restart.back).filter(|at| *at > now)
    }

    /// Whether no BMC reset is in progress.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        let restart = *self.restart.lock();
        restart.is_none_or(|restart| restart.ready <= now)
    }

    /// Time of its next change without a request.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let restart = *self.restart.lock();
        let restart = restart.map(|restart| [restart.back, restart.ready]);
        let restart = restart.into_iter().flatten().filter(|at| *at > now);
        restart.min()
    }
}

/// Faults of its BMC.
impl SimHost {
    /// Appends a fault rule.
    pub fn inject(&self, rule: Rule) -> FaultId {
        self.note(format!("fault: {:?}", rule.action));
        self.bmc().faults.lock().add(rule)
    }

    /// Removes a rule; `false` if it does not exist.
    pub fn clear_fault(&self, id: FaultId) -> bool {
        let removed = self.bmc().faults.lock().remove(id);
        if removed {
            self.note(format!("fault {} cleared", id.0));
        }
        removed
    }

    /// Removes all rules. Faults that are not rules remain: a dead BMC, a stuck power-off.
    pub fn clear_faults(&self) {
        self.bmc().faults.lock().clear();
        self.note("faults cleared");
    }

    /// All rules with their remaining counts.
    pub fn faults(&self) -> Vec<NamedRule> {
        self.bmc().faults.lock().rules().to_vec()
    }

    /// Reports `Off` in any state.
    pub fn report_off(&self) -> FaultId {
        self.report("Off")
    }

    /// Reports `Off` until a power-off command was accepted, as after a reset of the BMC.
    pub fn off_until_commanded(&self) -> FaultId {
        self.inject(Rule::always(Action::OffUntilCommanded))
    }

    /// Reports this power state in any state.
    pub fn report(&self, state: &str) -> FaultId {
        self.inject(Rule::always(Action::State {
            state: state.to_owned(),
        }))
    }

    /// Accepts connections, but never responds.
    pub fn silent(&self) -> FaultId {
        self.inject(Rule::always(Action::Hang))
    }

    /// Never answers reads of resources at this path, while it answers everything else.
    pub fn silent_at(&self, path: &str) -> FaultId {
        self.inject(Rule::always(Action::Hang).on("GET", path))
    }

    /// The documents of this path name another resource in `@odata.id`, as those of a web server do that mixes its
    /// answers up.
    pub fn misname(&self, path: &str, named: &str) -> FaultId {
        let body = serde_json::json!({"@odata.id": named});
        self.inject(Rule::always(Action::Merge { body }).on("GET", path))
    }

    /// Rejects the credentials of reads of this path (401), while they are accepted everywhere else.
    pub fn refuse_auth_at(&self, path: &str) -> FaultId {
        self.inject(Rule::always(Action::RefuseAuth).on("GET", path))
    }

    /// Sets the BMC clock ahead by this many seconds; negative: behind.
    pub fn wrong_clock(&self, ahead: i64) -> FaultId {
        self.inject(Rule::always(Action::Clock { ahead }))
    }

    /// Rejects all credentials.
    pub fn refuse_auth(&self) -> FaultId {
        self.inject(Rule::always(Action::RefuseAuth))
    }

    /// Rejects further sessions, with the message of the profile.
    pub fn session_table_full(&self) -> FaultId {
        let profile = &self.config().bmc.profile;
        let refusal = &profile.session_full;
        let body = refusal_body(profile, refusal);
        let action = Action::Status {
            status: refusal.status,
            body: Some(body),
            headers: [].into(),
        };
        self.inject(Rule::always(action).on("POST", "/redfish/v1/SessionService/Sessions"))
    }

    /// Reports the identity of another machine, as with wrong cabling or addresses.
    pub fn foreign_uuid(&self) -> FaultId {
        let uuid = Some("deadbeef-0000-4000-8000-00000000f00d".to_owned());
        self.inject(Rule::always(Action::Identity {
            uuid,
            serial: Some("FOREIGN".to_owned()),
        }))
    }

    /// The address leads to another BMC from now on, whose machine is off: its identity and state are reported, and
    /// commands do not reach this machine.
    pub fn address_moves(&self) {
        self.foreign_uuid();
        self.report("Off");
        self.ignore_commands();
    }

    /// Reports neither UUID nor serial number.
    pub fn anonymous(&self) -> FaultId {
        self.inject(Rule::always(Action::Identity {
            uuid: None,
            serial: None,
        }))
    }

    /// Accepts commands with the usual response, but does not execute them.
    pub fn ignore_commands(&self) -> FaultId {
        self.inject(Rule::always(Action::IgnoreCommands))
    }

    /// Executes the next reset, but sends no response.
    pub fn lose_next_answer(&self) -> FaultId {
        let rule = Rule::always(Action::Drop).on("POST", "**/Actions/ComputerSystem.Reset");
        self.inject(rule.times(1).afterwards())
    }

    /// Stops the BMC: its port is closed, and connections are reset. The machine is not affected.
    pub async fn bmc_dead(&self) -> Result<()> {
        self.bmc().wanted.send_replace(false);
        self.note("BMC dead");
        self.bmc_listens(false).await
    }

    /// Starts the BMC again on the same address, without its earlier sessions.
    pub async fn bmc_alive(&self) -> Result<()> {
        if !self.bmc().wanted.send_replace(true) {
            self.bmc().sessions.lock().forget();
            self.note("BMC alive");
        }
        self.bmc_listens(true).await
    }

    /// Resets the BMC, as `Manager.Reset` does: for a while its port is closed, then it is not
    /// ready; its sessions are lost. The machine is not affected.
    pub fn restart_bmc(&self, by: &str) {
        let forgets = self.config().bmc.profile.restart.forgets_power;
        self.restart_bmc_that_forgets(by, forgets);
    }

    /// Resets the BMC, which reports off for so long after it is ready again.
    pub fn restart_bmc_lying(&self, lies: Duration) {
        self.restart_bmc_that_forgets("itself", Some(lies));
    }

    fn restart_bmc_that_forgets(&self, by: &str, forgets: Option<Duration>) {
        let facts = &self.config().bmc.profile.restart;
        let back = self.now() + facts.refuses;
        let ready = back + facts.not_ready;
        *self.bmc().restart.lock() = Some(Restart { back, ready });
        *self.bmc().last_reset.lock() = Some(back);
        if !facts.keeps_sessions {
            self.bmc().sessions.lock().forget();
        }
        if let Some(lasts) = forgets {
            *self.bmc().forgotten.lock() = Some(Forgotten {
                since: back,
                until: Some(ready + lasts),
            });
        }
        self.note(format!("BMC restarted by {by}"));
    }

    /// Makes the BMC lose the power state of its host, as its own reset may do: it assumes off, and refuses
    /// commands by that, for this long or until it carries out a command.
    pub fn forget_power(&self, lasts: Option<Duration>) {
        let since = self.now();
        let until = lasts.map(|lasts| since + lasts);
        *self.bmc().forgotten.lock() = Some(Forgotten { since, until });
        self.note("the BMC loses the power state of its host");
    }

    /// Makes the BMC learn the true power state of its host.
    pub fn recall_power(&self) {
        *self.bmc().forgotten.lock() = None;
    }

    /// The power state that the BMC assumes for its host.
    pub fn believed_power(&self) -> PowerState {
        let forgotten = *self.bmc().forgotten.lock();
        if forgotten.is_some_and(|forgotten| forgotten.holds(self.now())) {
            return PowerState::Off;
        }
        self.power_before(self.config().bmc.profile.state_lag)
    }

    /// Carries out a command of the BMC, which learns the true state by it.
    pub(super) fn carry_out(&self, reset: ResetType, by: &str) -> Answer {
        self.recall_power();
        self.switch(reset, by)
    }

    /// The power state that the BMC assumes, with faults. A BMC that only reports a wrong state refuses by the
    /// true one.
    pub(super) fn believed_with(&self, effects: &Effects) -> PowerState {
        match &effects.report {
            Some(Action::Stale { age }) => self.power_before(*age),
            Some(_) => self.real_power(),
            None => self.believed_power(),
        }
    }

    /// Waits until the BMC listens (`up`), or does not: a reset starts shortly after its response.
    /// Fails after ten seconds.
    pub async fn bmc_listens(&self, up: bool) -> Result<()> {
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

    /// Current or last address of its BMC.
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

    /// The URL of its system, as in a BareMetalHost.
    pub fn system_url(&self) -> Result<String> {
        let id = &self.config().bmc.profile.system_id;
        Ok(format!("{}/redfish/v1/Systems/{id}", self.bmc_url()?))
    }

    /// Number of open sessions.
    pub fn sessions_open(&self) -> usize {
        self.bmc().sessions.lock().open()
    }

    /// Total number of sessions opened.
    pub fn sessions_opened(&self) -> u64 {
        self.bmc().sessions.lock().opened()
    }

    /// The power state that the BMC reports, including faults.
    pub(super) fn reported_power(&self, effects: &Effects) -> String {
        let real = self.real_power();
        match &effects.report {
            Some(Action::State { state }) => state.clone(),
            Some(Action::OffUntilCommanded) => PowerState::Off.to_string(),
            Some(Action::Stale { age }) => self.power_before(*age).to_string(),
            Some(Action::PoweringOff { takes })
                if real == PowerState::Off
                    && self.off_since().is_some_and(|since| since < *takes) =>
            {
                PowerState::PoweringOff.to_string()
            }
            Some(_) => real.to_string(),
            None => self.believed_power().to_string(),
        }
    }
}
