//! The state of one simulated host, and the record of its changes.
//!
//! Pure: changes of the machine are inputs. Must never: remove a record, except for old entries of
//! the event log.

use std::time::{Duration, Instant};

use super::observation::{Cause, Counters, LogEntry, LogEvent, Switched};
use super::power::{Answer, Change, Flash, Machine, OsState, PowerState, ResetType, Transition};
use super::process::{ProcessTable, Stamp, StopReason};
use super::settings::{HostSettings, Severity};

/// The sensor of starts of the host.
const STARTED: &str = "SystemBoot/Restart";

#[derive(Debug)]
pub(super) struct State {
    pub(super) machine: Machine,
    pub(super) boot_id: Option<String>,
    pub(super) processes: ProcessTable,
    pub(super) counters: Counters,
    pub(super) log: Vec<LogEntry>,
    pub(super) power_history: Vec<(Instant, PowerState)>,
    pub(super) switched: Vec<Switched>,
    pub(super) boots: Vec<String>,
    pub(super) settings: HostSettings,
    pub(super) flash: Option<Flash>,
    /// How long the update takes that begins with the next power-off; it hangs if it takes no certain time.
    pub(super) flash_at_power_off: Option<Option<Duration>>,
    cause: Option<Cause>,
}

impl State {
    pub(super) fn new(machine: Machine, now: Instant) -> Self {
        let power = machine.power();
        Self {
            boot_id: (power == PowerState::On).then(new_boot_id),
            power_history: vec![(now, power)],
            machine,
            processes: ProcessTable::default(),
            counters: Counters::default(),
            log: Vec::new(),
            switched: Vec::new(),
            boots: Vec::new(),
            settings: HostSettings::default(),
            flash: None,
            flash_at_power_off: None,
            cause: None,
        }
    }

    /// The power state at that time; the first one for an earlier time.
    pub(super) fn power_at(&self, then: Option<Instant>) -> PowerState {
        let mut history = self.power_history.iter().rev();
        let at_that_time = history.find(|(at, _)| then.is_some_and(|then| *at <= then));
        let known = at_that_time.or(self.power_history.first());
        known.map_or(self.machine.power(), |(_, power)| *power)
    }

    /// Records the changes of the machine.
    pub(super) fn happened(&mut self, now: Stamp, out: &mut Vec<Transition>) {
        for Transition { at, change } in out.drain(..) {
            let late = now.at.saturating_duration_since(at);
            let wall = now.wall.checked_sub(late).unwrap_or(now.wall);
            let stamp = Stamp { at, wall };
            match change {
                Change::Power(power) => {
                    self.power_history.push((at, power));
                    self.counters.offs += u64::from(power == PowerState::Off);
                    self.counters.ons += u64::from(power == PowerState::On);
                    self.log(stamp, LogEvent::Power(power));
                    self.switched(stamp, change, format!("The power state is {power}."));
                    if !power.is_powered() {
                        self.interrupts_flash(stamp);
                        self.kill_all(stamp, StopReason::PowerOff);
                    }
                    if power == PowerState::On {
                        self.boots();
                        if let Some(flash) = &mut self.flash {
                            flash.host_starts(at);
                        }
                    }
                }
                Change::Reset => {
                    self.counters.resets += 1;
                    self.interrupts_flash(stamp);
                    self.log(stamp, LogEvent::Reset);
                    self.switched(stamp, change, "The system was reset.".to_owned());
                    self.kill_all(stamp, StopReason::Reset);
                    self.boots();
                }
                Change::Os(os) => {
                    self.log(stamp, LogEvent::Os(os));
                    if os == OsState::Booting
                        && let Some(flash) = self.flash.filter(|flash| flash.is_running(at))
                    {
                        self.machine.boot_waits(flash.ends());
                    }
                    if os == OsState::Running {
                        let id = new_boot_id();
                        self.counters.boots += 1;
                        self.boot_id = Some(id.clone());
                        self.log(stamp, LogEvent::Booted(id));
                    }
                }
            }
        }
    }

    /// The operating system panicked: nothing of it runs on, and its driver has added an entry to the event log.
    pub(super) fn panicked(&mut self, now: Stamp) {
        self.kill_all(now, StopReason::Reset);
        self.settings.events.add_of_sensor(
            now.wall,
            Severity::Critical,
            "OS Stop/Shutdown: Run-time critical stop",
            Some("OS Stop/Shutdown"),
        );
    }

    /// A host whose firmware is half written never boots again.
    fn interrupts_flash(&mut self, stamp: Stamp) {
        if self.flash.is_some_and(|flash| flash.is_running(stamp.at)) {
            self.flash = None;
            self.counters.bricked += 1;
            self.machine.boot_waits(None);
            self.machine.is_bricked();
            self.log(
                stamp,
                LogEvent::Note("bricked: cut while its firmware was written".into()),
            );
        }
    }

    fn switched(&mut self, stamp: Stamp, change: Change, message: String) {
        let starts = matches!(change, Change::Reset | Change::Power(PowerState::On));
        let sensor_type = starts.then_some(STARTED);
        self.settings
            .events
            .add_of_sensor(stamp.wall, Severity::Ok, message, sensor_type);
        self.switched.push(Switched {
            stamp,
            change,
            cause: self.cause.clone(),
        });
    }

    fn boots(&mut self) {
        self.boots.push(self.settings.boot.boots());
    }

    fn kill_all(&mut self, stamp: Stamp, why: StopReason) {
        self.boot_id = None;
        for pod in self.processes.stop_all(stamp, why) {
            self.log(stamp, LogEvent::Stopped { pod, why });
        }
    }

    /// Records a received command.
    pub(super) fn received(
        &mut self,
        now: Stamp,
        reset: ResetType,
        by: &str,
        answer: Option<Answer>,
    ) {
        *self.counters.commands.entry(reset).or_default() += 1;
        let is_off = matches!(
            reset,
            ResetType::ForceOff | ResetType::GracefulShutdown | ResetType::PushPowerButton
        );
        if is_off
            && answer == Some(Answer::Accepted)
            && let Some(takes) = self.flash_at_power_off.take()
        {
            self.flash = Some(Flash::running(now.at, takes));
        }
        self.log(
            now,
            LogEvent::Command {
                reset,
                by: by.to_owned(),
                answer,
            },
        );
    }

    /// Sets the cause of changes from now on.
    pub(super) fn caused_by(&mut self, reset: ResetType, by: &str) {
        let by = by.to_owned();
        self.cause = Some(Cause { reset, by });
    }

    pub(super) fn log(&mut self, stamp: Stamp, event: LogEvent) {
        self.log.push(LogEntry { stamp, event });
    }
}

fn new_boot_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
