//! A simulated host: the machine, its processes, its log and its counters behind one handle.
//!
//! Owns: the clock of the machine (advanced by a task, or by a test: `single_step.rs`). A power
//! change and the end of the processes that it stops happen under one lock. BMC and kubelet observe
//! the machine through [`SimHost::subscribe`] and [`SimHost::view`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::bmc::Bmc;
use super::clock::Clock;
use super::config::HostConfig;
use super::observation::{Counters, HostView, LogEntry, LogEvent, Switched};
use super::power::{
    Answer, Flash, FlashState, Machine, OsState, PowerState, PowerTimings, ResetType, Transition,
};
use super::process::{HostProcess, PodIdentity, PodProcess, Stamp, StopReason};
use super::settings::HostSettings;
use super::state::State;

#[derive(Debug)]
struct Inner {
    config: HostConfig,
    clock: Mutex<Clock>,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    bmc: Bmc,
    /// The name under which the kubelet registers from the next boot on, if it is not that of the host.
    node_name: Mutex<Option<String>>,
}

/// A handle to a simulated host. Clones refer to the same host.
#[derive(Clone, Debug)]
pub struct SimHost {
    inner: Arc<Inner>,
}

impl SimHost {
    /// A host in a stable state. Its time advances while [`SimHost::drive`] runs and whenever it is
    /// read.
    pub fn new(config: HostConfig) -> Self {
        let world = world();
        let machine = Machine::new(config.timings, config.starts_on);
        let state = State::new(machine, world);
        let bmc = Bmc::new(&config.bmc);
        let inner = Inner {
            config,
            clock: Mutex::new(Clock::new(world)),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            bmc,
            node_name: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    pub fn config(&self) -> &HostConfig {
        &self.inner.config
    }

    /// Makes the kubelet register under another name from the next boot on, like a kubelet without a fixed name
    /// after its host was renamed.
    pub fn rename_node(&self, name: &str) {
        *self.inner.node_name.lock() = Some(name.to_owned());
    }

    /// The name under which the kubelet registers at the next boot, if it is not that of the host.
    pub fn node_name(&self) -> Option<String> {
        self.inner.node_name.lock().clone()
    }

    pub(super) fn bmc(&self) -> &Bmc {
        &self.inner.bmc
    }

    /// Its current state.
    pub fn view(&self) -> HostView {
        self.with(|_, state, _| HostView {
            name: self.inner.config.name.clone(),
            uuid: self.inner.config.uuid.clone(),
            power: state.machine.power(),
            os: state.machine.os(),
            boot_id: state.boot_id.clone(),
            counters: state.counters.clone(),
            pods: state
                .processes
                .running()
                .iter()
                .map(|process| full_name(&process.pod))
                .collect(),
        })
    }

    /// Its real power state.
    pub fn real_power(&self) -> PowerState {
        self.with(|_, state, _| state.machine.power())
    }

    /// State of its operating system.
    pub fn os(&self) -> OsState {
        self.with(|_, state, _| state.machine.os())
    }

    /// The real power state of `age` ago; the initial one for a time before the start.
    pub fn power_before(&self, age: Duration) -> PowerState {
        self.with(|now, state, _| state.power_at(now.at.checked_sub(age)))
    }

    /// Time since the power really went off; `None` if it never did.
    pub fn off_since(&self) -> Option<Duration> {
        self.with(|now, state, _| {
            let mut history = state.power_history.iter().skip(1).rev();
            let (at, _) = history.find(|(_, power)| *power == PowerState::Off)?;
            Some(now.at.saturating_duration_since(*at))
        })
    }

    /// Counters of real events.
    pub fn counters(&self) -> Counters {
        self.with(|_, state, _| state.counters.clone())
    }

    /// Every real power change and real reset, with its cause.
    pub fn switched(&self) -> Vec<Switched> {
        self.with(|_, state, _| state.switched.clone())
    }

    /// The boot source of every boot, in Redfish's values; `None` is the firmware's order.
    pub fn boots(&self) -> Vec<String> {
        self.with(|_, state, _| state.boots.clone())
    }

    /// Accesses its boot source, identify LED and event log.
    pub fn with_settings<T>(&self, act: impl FnOnce(Stamp, &mut HostSettings) -> T) -> T {
        self.with(|now, state, _| act(now, &mut state.settings))
    }

    /// Its log so far.
    pub fn log(&self) -> Vec<LogEntry> {
        self.with(|_, state, _| state.log.clone())
    }

    /// The pods whose processes really run.
    pub fn running_pods(&self) -> Vec<PodProcess> {
        self.with(|_, state, _| state.processes.running())
    }

    /// Every process that ever ran on it.
    pub fn processes(&self) -> Vec<HostProcess> {
        self.with(|_, state, _| {
            let all = state.processes.records().iter().cloned();
            all.map(|process| HostProcess {
                host: self.name().to_owned(),
                process,
            })
            .collect()
        })
    }

    /// Sends a command without the BMC, as an operator at the rack or another controller would.
    pub fn switch(&self, reset: ResetType, by: &str) -> Answer {
        self.with(|now, state, out| {
            let answer = state.machine.command(now.at, reset, out);
            state.received(now, reset, by, Some(answer));
            if answer == Answer::Accepted {
                state.caused_by(reset, by);
            }
            answer
        })
    }

    /// Records a command that a fault kept from the machine.
    pub fn record_ignored(&self, reset: ResetType, by: &str) {
        self.with(|now, state, _| state.received(now, reset, by, None));
    }

    /// Hangs the operating system while the power stays on. `false` if it was not running.
    pub fn hang(&self) -> bool {
        self.with(|now, state, out| state.machine.hang(now.at, out))
    }

    /// Stops the operating system by a panic, which it reports to the event log, while the power stays on. `false`
    /// if it was not running.
    pub fn panic(&self) -> bool {
        self.with(|now, state, out| {
            let stopped = state.machine.hang(now.at, out);
            if stopped {
                state.happened(now, out);
                state.panicked(now);
            }
            stopped
        })
    }

    /// The host loses its power at once, as by a supply that fails; its BMC has power and sees it. `false` if it had
    /// none.
    pub fn lose_power(&self) -> bool {
        let lost = self.with(|now, state, out| state.machine.lose_power(now.at, out));
        if lost {
            self.note("the power is lost");
        }
        lost
    }

    /// While set, a power-off never completes: the state stays `PoweringOff`, and processes keep
    /// running.
    pub fn stuck_powering_off(&self, stuck: bool) {
        self.with(|now, state, out| state.machine.set_stuck(now.at, stuck, out));
        self.note(format!("stuck powering off: {stuck}"));
    }

    /// While set, the operating system never boots after power-on.
    pub fn never_boots(&self, never: bool) {
        self.with(|now, state, out| state.machine.set_boots(now.at, !never, out));
        self.note(format!("never boots: {never}"));
    }

    /// Begins an update of firmware, which ends after a time, or hangs.
    pub fn flash(&self, takes: Option<Duration>) {
        self.with(|now, state, _| state.flash = Some(Flash::running(now.at, takes)));
        self.note(format!("an update of firmware begins: {takes:?}"));
    }

    /// Schedules an update of firmware for the next start of the host.
    pub fn schedule_flash(&self, takes: Option<Duration>) {
        self.with(|_, state, _| state.flash = Some(Flash::scheduled(takes)));
        self.note("an update of firmware is scheduled");
    }

    /// Begins an update of firmware with the next power-off or shutdown that the host takes, as an update does that
    /// waits until its operating system goes down.
    pub fn flash_at_power_off(&self, takes: Option<Duration>) {
        self.with(|_, state, _| state.flash_at_power_off = Some(takes));
        self.note("an update of firmware begins with the next power-off");
    }

    /// Ends an update that hangs, as the support of the vendor would.
    pub fn end_flash(&self) {
        self.with(|_, state, _| state.flash = None);
        self.note("the update of firmware has ended");
    }

    /// The update of firmware, if one was begun or scheduled.
    pub fn flash_state(&self) -> Option<FlashState> {
        self.with(|now, state, _| state.flash.map(|flash| flash.state(now.at)))
    }

    /// Sets the durations of later transitions.
    pub fn set_timings(&self, timings: PowerTimings) {
        self.with(|_, state, _| state.machine.set_timings(timings));
    }

    /// Starts the processes of a pod, if the operating system of this boot is running; `false`
    /// otherwise, and if they already run. Called by the kubelet.
    pub fn start_process(&self, boot_id: &str, pod: PodIdentity) -> bool {
        self.with(|now, state, _| {
            let up =
                state.machine.os() == OsState::Running && state.boot_id.as_deref() == Some(boot_id);
            let started = up && state.processes.start(pod.clone(), boot_id, now);
            if started {
                state.log(now, LogEvent::Started(pod));
            }
            started
        })
    }

    /// Stops the processes of a pod, if the operating system of this boot is running.
    pub fn stop_process(&self, boot_id: &str, pod: &PodIdentity, why: StopReason) -> bool {
        self.with(|now, state, _| {
            let up =
                state.machine.os() == OsState::Running && state.boot_id.as_deref() == Some(boot_id);
            let stopped = up && state.processes.stop(&pod.uid, now, why);
            if stopped {
                state.log(
                    now,
                    LogEvent::Stopped {
                        pod: pod.clone(),
                        why,
                    },
                );
            }
            stopped
        })
    }

    /// Adds a line to the log.
    pub fn note(&self, text: impl Into<String>) {
        self.with(|now, state, _| state.log(now, LogEvent::Note(text.into())));
    }

    pub(super) fn count_request(&self) {
        self.with(|_, state, _| state.counters.requests += 1);
    }

    /// Notifies of every change; the value is a counter.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Waits until the host matches `wanted`; fails with its actual state.
    pub async fn wait_for(
        &self,
        within: Duration,
        what: &str,
        wanted: impl Fn(&HostView) -> bool,
    ) -> Result<HostView> {
        let mut changes = self.subscribe();
        let end = tokio::time::sleep(within);
        tokio::pin!(end);
        loop {
            let view = self.view();
            if wanted(&view) {
                return Ok(view);
            }
            tokio::select! {
                changed = changes.changed() => changed?,
                () = &mut end => bail!("{}: not {what} within {within:?}: {view:?}", self.name()),
            }
        }
    }

    /// Advances the host's time until cancelled.
    pub async fn drive(self, stop: CancellationToken) {
        let mut changes = self.subscribe();
        loop {
            let next = self.with(|_, state, _| state.machine.next_change());
            tokio::select! {
                () = stop.cancelled() => return,
                _ = changes.changed() => {}
                () = self.reaches(next) => {}
            }
        }
    }

    /// Waits until the host's clock shows `at`; forever if there is no such time, or the clock is
    /// stopped.
    pub(super) async fn reaches(&self, at: Option<Instant>) {
        match at.and_then(|at| self.clock(|_, clock| clock.world_at(at))) {
            Some(world) => tokio::time::sleep_until(world.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Current time of the host's clock.
    pub(super) fn now(&self) -> Instant {
        self.clock(|world, clock| clock.now(world))
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            at: self.now(),
            wall: Timestamp::now(),
        }
    }

    pub(super) fn clock<T>(&self, act: impl FnOnce(Instant, &mut Clock) -> T) -> T {
        act(world(), &mut self.inner.clock.lock())
    }

    /// Notifies all subscribers.
    pub(super) fn changed(&self) {
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// Runs `act` on the current state, and records the changes until now.
    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(Stamp, &mut State, &mut Vec<Transition>) -> T,
    ) -> T {
        let mut state = self.inner.state.lock();
        let now = self.stamp();
        let logged = state.log.len();
        let mut out = Vec::new();
        state.machine.advance(now.at, &mut out);
        state.happened(now, &mut out);
        let result = act(now, &mut state, &mut out);
        state.happened(now, &mut out);
        if state.log.len() != logged {
            self.changed();
        }
        result
    }
}

/// Current time of tokio's clock, so that tests with paused time control it.
fn world() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn full_name(pod: &PodIdentity) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}
