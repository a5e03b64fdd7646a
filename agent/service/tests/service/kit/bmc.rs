//! BMCs with configured behaviour that record commands.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use rackhand_agent_service::{BmcSpec, Driver};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, BmcFuture, BootDevice, BootOverride, BootPersistence, BootState,
    ErrorKind, EventLog, Facts, FirmwareUpdate, FirmwareUpdates, HealthRollup, Identify, LogEntry,
    PowerCommand, PowerReading, PowerSource, PowerState, Sensor, SensorHealth, SensorKind,
    SensorRole, Severity, SystemIdentity, UpdatePhase,
    pdu::{Pdu, PduConfig, PduCredentials},
};
use secrecy::{ExposeSecret, SecretString};
use tokio::{sync::watch, time::Instant};

use super::pdu::{FakePdu, FakePduClient};

#[derive(Debug)]
pub(crate) struct FakeBmc {
    pub(crate) power: Mutex<PowerState>,
    pub(crate) identity: Mutex<SystemIdentity>,
    /// Passwords of accounts; that of every other account is `secret`.
    pub(crate) accounts: Mutex<BTreeMap<String, String>>,
    /// Accounts whose passwords cannot be changed.
    pub(crate) fixed: Mutex<Vec<String>>,
    /// Does not respond at all while true.
    pub(crate) dead: watch::Sender<bool>,
    /// Accepts commands, but does not execute them.
    pub(crate) stubborn: Mutex<bool>,
    /// Readings fail while true.
    pub(crate) unreadable: Mutex<bool>,
    /// The host ignores a soft off.
    pub(crate) deaf: Mutex<bool>,
    /// It has only the power button.
    pub(crate) button: Mutex<bool>,
    /// Error of non-idempotent commands, and whether the command may have arrived.
    pub(crate) refuses: Mutex<Option<(ErrorKind, bool)>>,
    /// The update of firmware that it reports; `None`: it reports none at all.
    pub(crate) update: Mutex<Option<FirmwareUpdate>>,
    /// That update runs only once a power-off was received.
    pub(crate) flashes_later: AtomicBool,
    /// Time that readings of the updates were given.
    pub(crate) updates_limits: Mutex<Vec<Duration>>,
    /// Why its updates cannot be read, if they cannot.
    pub(crate) updates_unread: Mutex<Option<&'static str>>,
    /// Uptime of the BMC; `None`: the BMC does not report it.
    pub(crate) uptime: Mutex<Option<Duration>>,
    /// How long it takes to show its manager.
    pub(crate) manager_delay: Mutex<Duration>,
    /// An update that waits begins while the manager is shown.
    pub(crate) flashes_meanwhile: AtomicBool,
    /// It refuses a power-off of a host that is off as already off.
    pub(crate) refuses_as_off: Mutex<bool>,
    /// Every received command.
    pub(crate) log: Mutex<Vec<PowerCommand>>,
    /// Neither responds to commands nor executes them while true.
    pub(crate) mute: Mutex<bool>,
    pub(crate) commanded: watch::Sender<u32>,
    pub(crate) offs: AtomicU32,
    pub(crate) ons: AtomicU32,
    pub(crate) reads: watch::Sender<u32>,
    pub(crate) closed: AtomicU32,
    /// Number of clients, each with a session of its own.
    pub(crate) clients: AtomicU32,
    pub(crate) boot: Mutex<BootOverride>,
    /// Every received change other than power.
    pub(crate) changes: Mutex<Vec<String>>,
    pub(crate) changed: watch::Sender<u32>,
    /// The LED has no timer.
    pub(crate) no_timer: Mutex<bool>,
    /// Sensor reads hang while true.
    pub(crate) slow: watch::Sender<bool>,
    /// Event log reads hang while true.
    pub(crate) log_hangs: watch::Sender<bool>,
    /// Entries of the event log, oldest first.
    pub(crate) events: Mutex<Vec<LogEntry>>,
    /// Health of the host with all components; `None`: not reported.
    pub(crate) health: Mutex<Option<Severity>>,
    /// The identify LED.
    pub(crate) led: Mutex<Option<bool>>,
    /// Number of sensor reads that were started.
    pub(crate) sensed: watch::Sender<u32>,
    /// Duration of each call.
    pub(crate) delay: Mutex<Duration>,
    busy: AtomicU32,
    pub(crate) most_at_once: AtomicU32,
}

impl FakeBmc {
    fn new() -> Self {
        Self {
            power: Mutex::new(PowerState::On),
            identity: Mutex::default(),
            accounts: Mutex::default(),
            fixed: Mutex::default(),
            dead: watch::channel(false).0,
            stubborn: Mutex::new(false),
            unreadable: Mutex::new(false),
            deaf: Mutex::new(false),
            button: Mutex::new(false),
            refuses: Mutex::new(None),
            update: Mutex::new(None),
            flashes_later: AtomicBool::new(false),
            updates_limits: Mutex::default(),
            updates_unread: Mutex::new(None),
            manager_delay: Mutex::default(),
            flashes_meanwhile: AtomicBool::default(),
            uptime: Mutex::new(Some(Duration::from_secs(86_400))),
            refuses_as_off: Mutex::new(false),
            log: Mutex::default(),
            mute: Mutex::new(false),
            commanded: watch::channel(0).0,
            offs: AtomicU32::new(0),
            ons: AtomicU32::new(0),
            reads: watch::channel(0).0,
            closed: AtomicU32::new(0),
            clients: AtomicU32::default(),
            boot: Mutex::new(BootOverride {
                device: BootDevice::Normal,
                persistence: BootPersistence::Once,
                mode: None,
            }),
            changes: Mutex::default(),
            changed: watch::channel(0).0,
            no_timer: Mutex::new(false),
            slow: watch::channel(false).0,
            log_hangs: watch::channel(false).0,
            events: Mutex::default(),
            health: Mutex::default(),
            led: Mutex::default(),
            sensed: watch::channel(0).0,
            delay: Mutex::default(),
            busy: AtomicU32::new(0),
            most_at_once: AtomicU32::new(0),
        }
    }

    pub(crate) fn set(&self, state: PowerState) {
        *self.power.lock().unwrap() = state;
    }

    pub(crate) fn commands(&self) -> (u32, u32) {
        (
            self.offs.load(Ordering::SeqCst),
            self.ons.load(Ordering::SeqCst),
        )
    }

    /// Waits for this number of readings.
    pub(crate) async fn read_times(&self, times: u32) {
        self.reads
            .subscribe()
            .wait_for(|reads| *reads >= times)
            .await
            .unwrap();
    }

    /// Waits for this number of commands.
    pub(crate) async fn commanded_times(&self, times: u32) {
        let mut commanded = self.commanded.subscribe();
        commanded
            .wait_for(|commanded| *commanded >= times)
            .await
            .unwrap();
    }

    async fn command(&self, command: PowerCommand) {
        self.log.lock().unwrap().push(command);
        self.commanded.send_modify(|commanded| *commanded += 1);
        if *self.mute.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        let is_deaf = command == PowerCommand::SoftOff && *self.deaf.lock().unwrap();
        let state = command.leads_to().filter(|_| !is_deaf);
        self.call(|| {
            if let Some(state) = state {
                self.follow(state);
            }
        })
        .await;
    }

    async fn call<T>(&self, done: impl FnOnce() -> T) -> T {
        struct Busy<'a>(&'a AtomicU32);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
        let _busy = Busy(&self.busy);
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        tokio::task::yield_now().await;
        self.dead.subscribe().wait_for(|dead| !dead).await.unwrap();
        done()
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.changes.lock().unwrap().clone()
    }

    /// Applies a change other than power.
    async fn change(&self, what: String) -> Accepted {
        self.call(|| self.changes.lock().unwrap().push(what.clone()))
            .await;
        self.changed.send_modify(|changed| *changed += 1);
        FakeClient::accepted(&what)
    }

    fn follow(&self, state: PowerState) {
        if !*self.stubborn.lock().unwrap() {
            self.set(state);
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FakeRack {
    bmcs: Arc<Vec<Arc<FakeBmc>>>,
    /// `a` at 10.0.0.201, and `b` at 10.0.0.202.
    pdus: [Arc<FakePdu>; 2],
}

impl FakeRack {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            bmcs: Arc::new((0..hosts).map(|_| Arc::new(FakeBmc::new())).collect()),
            pdus: std::array::from_fn(|_| Arc::new(FakePdu::new())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bmcs.len()
    }

    /// The BMC of `node-<n>`, at 10.0.0.<n>.
    pub(crate) fn of(&self, n: usize) -> &FakeBmc {
        &self.bmcs[n - 1]
    }

    /// The PDU `a` or `b`.
    pub(crate) fn pdu(&self, name: &str) -> &FakePdu {
        &self.pdus[usize::from(name == "b")]
    }
}

#[derive(Debug)]
struct FakeClient {
    address: String,
    username: String,
    password: String,
    bmc: Arc<FakeBmc>,
}

impl Driver for FakeRack {
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        let spec = specs.first().unwrap();
        let ip = spec.resolved.first().unwrap().to_string();
        let last: usize = ip.rsplit('.').next().unwrap().parse().unwrap();
        let address = spec.address.to_string();
        // Further systems of a chassis share one address.
        let system = address.rsplit_once("/Systems/").map(|(_, id)| id);
        let system = system.and_then(|id| id.parse().ok()).unwrap_or(1);
        let last = last.max(system);
        self.bmcs[last - 1].clients.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(FakeClient {
            address: spec.address.to_string(),
            username: spec.username.clone(),
            password: spec.password.expose_secret().to_owned(),
            bmc: self.bmcs[last - 1].clone(),
        }))
    }

    fn connect_pdu(&self, config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
        let ip = config.resolved.first().unwrap().to_string();
        let pdu = &self.pdus[usize::from(ip == "10.0.0.202")];
        let PduCredentials::Community { read, .. } = &config.credentials else {
            panic!("{config:?}")
        };
        let is_right = read.expose_secret() == "private";
        Ok(Arc::new(FakePduClient(pdu.clone(), is_right)))
    }
}

impl FakeClient {
    fn check(&self) -> Result<(), BmcError> {
        let accounts = self.bmc.accounts.lock().unwrap();
        let password = accounts
            .get(&self.username)
            .map_or("secret", String::as_str);
        if self.password == password {
            return Ok(());
        }
        Err(self.error(ErrorKind::Authentication, "401", false))
    }

    fn error(&self, kind: ErrorKind, message: &str, maybe_sent: bool) -> BmcError {
        BmcError {
            kind,
            bmc: self.address.clone(),
            message: message.into(),
            retry_after: None,
            maybe_sent,
            not_sent: false,
        }
    }

    fn accepted(command: &str) -> Accepted {
        Accepted::taken(command, "204")
    }
}

impl Bmc for FakeClient {
    fn address(&self) -> &str {
        &self.address
    }

    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            self.bmc.updates_limits.lock().unwrap().push(limit);
            if let Some(why) = *self.bmc.updates_unread.lock().unwrap() {
                return Ok(FirmwareUpdates {
                    unread: vec![why.to_owned()],
                    ..FirmwareUpdates::default()
                });
            }
            let mut update = self.bmc.update.lock().unwrap().clone();
            if self.bmc.flashes_later.load(Ordering::SeqCst) && self.bmc.commands().0 == 0 {
                update = update.map(|update| FirmwareUpdate {
                    phase: UpdatePhase::AtNextStart,
                    ..update
                });
            }
            match update {
                Some(update) => Ok(FirmwareUpdates {
                    updates: vec![update],
                    read: vec!["tasks".to_owned()],
                    ..FirmwareUpdates::default()
                }),
                None => Err(self.error(ErrorKind::Unsupported, "no updates", false)),
            }
        })
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async {
            self.bmc.reads.send_modify(|reads| *reads += 1);
            self.bmc.call(|| {}).await;
            self.check()?;
            if *self.bmc.unreadable.lock().unwrap() {
                return Err(self.error(ErrorKind::Unreachable, "no route", false));
            }
            let state = *self.bmc.power.lock().unwrap();
            Ok(PowerReading {
                state,
                raw: format!("{state:?}"),
                source: PowerSource::Redfish,
                identity: self.bmc.identity.lock().unwrap().clone(),
                at: jiff::Timestamp::now(),
                bmc: self.address.clone(),
                connection: None,
                identify_led: *self.bmc.led.lock().unwrap(),
            })
        })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            if *self.bmc.button.lock().unwrap()
                && matches!(command, PowerCommand::On | PowerCommand::SoftOff)
            {
                return Err(self.error(ErrorKind::ButtonOnly, "only the button", false));
            }
            match command {
                PowerCommand::On => self.bmc.ons.fetch_add(1, Ordering::SeqCst),
                PowerCommand::Off => self.bmc.offs.fetch_add(1, Ordering::SeqCst),
                _ => 0,
            };
            let is_off = *self.bmc.power.lock().unwrap() == PowerState::Off;
            self.bmc.command(command).await;
            if command == PowerCommand::Off && is_off && *self.bmc.refuses_as_off.lock().unwrap() {
                return Ok(Accepted::already_there(command.words(), "409: already off"));
            }
            let refuses = *self.bmc.refuses.lock().unwrap();
            if let Some((kind, maybe_sent)) = refuses.filter(|_| !command.is_idempotent()) {
                return Err(self.error(kind, "not like this", maybe_sent));
            }
            Ok(Self::accepted(command.words()))
        })
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        Box::pin(async {
            let uptime = *self.bmc.uptime.lock().unwrap();
            uptime.ok_or_else(|| self.error(ErrorKind::Unsupported, "no LastResetTime", false))
        })
    }

    fn set_password(&self, password: SecretString) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            self.bmc.call(|| {}).await;
            self.check()?;
            if self.bmc.fixed.lock().unwrap().contains(&self.username) {
                return Err(self.error(ErrorKind::Refused, "a fixed account", false));
            }
            let (name, password) = (self.username.clone(), password.expose_secret().to_owned());
            self.bmc.accounts.lock().unwrap().insert(name, password);
            Ok(Self::accepted("set password"))
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async {
            self.bmc.closed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        Box::pin(async {
            self.bmc.call(|| {}).await;
            Ok(*self.bmc.boot.lock().unwrap())
        })
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        Box::pin(async {
            self.bmc.call(|| {}).await;
            Ok(BootState {
                restart_cause: Some("watchdog".into()),
                ..BootState::default()
            })
        })
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let accepted = self.bmc.change(format!("boot {:?}", wanted.device)).await;
            *self.bmc.boot.lock().unwrap() = wanted;
            Ok(accepted)
        })
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            if *self.bmc.no_timer.lock().unwrap() && matches!(wanted, Identify::For(_)) {
                return Err(self.error(ErrorKind::Unsupported, "no timer", false));
            }
            Ok(self.bmc.change(format!("LED {wanted:?}")).await)
        })
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        Box::pin(async {
            self.bmc.sensed.send_modify(|sensed| *sensed += 1);
            self.bmc.call(|| {}).await;
            let mut slow = self.bmc.slow.subscribe();
            slow.wait_for(|slow| !slow).await.unwrap();
            Ok(vec![Sensor {
                name: "Draw".into(),
                kind: SensorKind::Power,
                role: Some(SensorRole::PowerDraw),
                value: Some(312.0),
                unit: "W".into(),
                health: SensorHealth::Unknown,
            }])
        })
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        Box::pin(async move {
            let mut hangs = self.bmc.log_hangs.subscribe();
            hangs.wait_for(|hangs| !hangs).await.unwrap();
            self.bmc.call(|| {}).await;
            Ok(EventLog {
                entries: self.bmc.events.lock().unwrap().clone(),
                total: Some(limit),
            })
        })
    }

    fn health(&self) -> BmcFuture<'_, HealthRollup> {
        Box::pin(async {
            self.bmc.call(|| {}).await;
            match *self.bmc.health.lock().unwrap() {
                Some(severity) => Ok(HealthRollup { severity }),
                None => Err(self.error(ErrorKind::Unsupported, "no rollup", false)),
            }
        })
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        Box::pin(async { Ok(self.bmc.change("log cleared".into()).await) })
    }

    fn facts(&self) -> BmcFuture<'_, Facts> {
        Box::pin(async {
            self.bmc.call(|| {}).await;
            Ok(Facts {
                firmware: Some("2.1".into()),
                clock: Some(jiff::Timestamp::UNIX_EPOCH),
                ..Facts::default()
            })
        })
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        self.reset_bmc_until(None)
    }

    fn reset_bmc_until(&self, until: Option<Instant>) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let delay = *self.bmc.manager_delay.lock().unwrap();
            tokio::time::sleep(delay).await;
            if self.bmc.flashes_meanwhile.load(Ordering::SeqCst) {
                self.bmc.flashes_later.store(false, Ordering::SeqCst);
            }
            if until.is_some_and(|until| Instant::now() > until) {
                return Err(BmcError {
                    not_sent: true,
                    ..self.error(ErrorKind::Busy, "too late", false)
                });
            }
            Ok(self.bmc.change("BMC reset".into()).await)
        })
    }
}
