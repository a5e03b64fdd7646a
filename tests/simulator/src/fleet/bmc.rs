//! BMCs behind the driver interface of the agent.
//!
//! Protocols are tested elsewhere; here a BMC is what it does: it answers late or not at all, it takes
//! commands and carries them out later, and it may report a state that is not so before it took one.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rackhand_agent_service::{BmcSpec, Driver};
use rackhand_bmc::{
    Accepted, Bmc, BmcError, BmcFuture, ErrorKind, EventLog, EventMeaning, FirmwareUpdate,
    FirmwareUpdates, Identify, LogEntry, PowerCommand, PowerReading, PowerSource, PowerState,
    Severity, StateBefore, StopKind, SystemIdentity, UpdatePhase,
    pdu::{Pdu, PduConfig},
};
use tokio::sync::oneshot;

use super::{
    HostId,
    host::{Host, Os, Power, place_of},
    kubelet::text,
    pdu::SimulatedPdu,
};
use crate::{
    api::resource::NODES,
    breakage::Breakage,
    kernel::{ProcessId, Simulation, World},
};

/// Uptime of a BMC that has not restarted in the simulation.
const UPTIME: Duration = Duration::from_secs(86_400);

/// The driver of an agent.
#[derive(Debug, Clone)]
pub struct SimulatedBmcs {
    /// Where the BMCs are.
    pub simulation: Simulation,
    /// Whose driver it is.
    pub agent: ProcessId,
}

impl Driver for SimulatedBmcs {
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        let spec = specs.into_iter().next();
        let found = spec.as_ref().and_then(|spec| {
            let (rack, place) = place_of(*spec.resolved.first()?)?;
            let world = self.simulation.world();
            let addressed = world.fleet.at(rack, place)?;
            let breakage = world.fleet.breakage;
            let host = breakage.map_or(addressed, |broken| broken.reached(addressed));
            Some((addressed, host))
        });
        match (spec, found) {
            (Some(spec), Some((addressed, host))) => Ok(Arc::new(SimulatedBmc {
                driver: self.clone(),
                addressed,
                host,
                address: spec.address.to_string(),
                limit: spec.call_timeout,
            })),
            (spec, _) => Err(BmcError {
                kind: ErrorKind::Unreachable,
                bmc: spec.map_or_else(String::new, |s| s.address.to_string()),
                message: "no route".to_owned(),
                retry_after: None,
                maybe_sent: false,
                not_sent: false,
            }),
        }
    }

    fn connect_pdu(&self, config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
        let found = SimulatedPdu::connect(self, &config);
        let pdu: Arc<dyn Pdu> = Arc::new(found.ok_or_else(|| BmcError {
            kind: ErrorKind::Unreachable,
            bmc: config.address.to_string(),
            message: "no route".to_owned(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })?);
        Ok(pdu)
    }
}

#[derive(Debug)]
struct SimulatedBmc {
    driver: SimulatedBmcs,
    /// The host that this BMC is said to switch.
    addressed: HostId,
    /// The host that it switches.
    host: HostId,
    address: String,
    limit: Duration,
}

/// A request to a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    Log,
    Updates,
    Identify(Identify),
    Command(PowerCommand),
}

/// What a BMC answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    State(PowerState),
    /// Taken, with the state that it reported before.
    Taken(PowerState),
    /// Not in this form; the next one may be.
    NotYet,
    Refused,
    /// The BMC takes its host for off, and carries nothing out.
    AlreadyOff(Make),
    /// The event log: whether the operating system has stopped since the start.
    Log {
        stopped: bool,
    },
    /// Whether an update of firmware runs.
    Updating(bool),
    /// The locator LED is as it was asked for.
    Set,
    /// The document of another resource.
    Misnamed,
    /// The credentials are refused.
    Denied,
}

/// How a BMC refuses a power-off of a host that it takes for off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// With the message of its make for it, as Dell (409) and HPE (400) do.
    Documented,
    /// Not at all: it answers as if it had done it, as Lenovo does, and some BMCs by IPMI.
    Success,
    /// With an internal error, as Dell's R7525 does (500).
    Undocumented,
    /// With a completion code of IPMI.
    Code,
}

impl Make {
    /// The makes take turns.
    fn of(host: HostId) -> Self {
        match host.0 % 4 {
            0 => Self::Documented,
            1 => Self::Success,
            2 => Self::Undocumented,
            _ => Self::Code,
        }
    }
}

/// For how long a BMC that was reset may take its host for off: an assumption of Rackhand (docs/safety.md).
const LEARNS: Duration = Duration::from_secs(480);

impl SimulatedBmc {
    async fn ask(&self, request: Request) -> Result<Answer, BmcError> {
        let (answer, answered) = oneshot::channel();
        let (id, host, agent) = (&self.driver.simulation, self.host, self.driver.agent);
        id.world()
            .ask_bmc(host, Asker::Agent(agent), request, Some(answer));
        match tokio::time::timeout(self.limit, answered).await {
            Ok(Ok(Answer::Misnamed)) => {
                Err(self.error(ErrorKind::Protocol, "a document of another name", false))
            }
            Ok(Ok(Answer::Denied)) => Err(self.error(ErrorKind::Authentication, "401", false)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(self.error(
                ErrorKind::Timeout,
                "no answer",
                matches!(request, Request::Command(_)),
            )),
        }
    }

    fn error(&self, kind: ErrorKind, message: &str, maybe_sent: bool) -> BmcError {
        BmcError {
            kind,
            bmc: self.address.clone(),
            message: message.to_owned(),
            retry_after: None,
            maybe_sent,
            not_sent: false,
        }
    }

    fn identity(&self) -> SystemIdentity {
        let world = self.driver.simulation.world();
        let is_forged = world.fleet.breakage == Some(Breakage::ForgedIdentities);
        let host = if is_forged { self.addressed } else { self.host };
        SystemIdentity {
            system_uuid: Some(world.fleet.host(host).system_uuid()),
            ..SystemIdentity::default()
        }
    }
}

impl Bmc for SimulatedBmc {
    fn address(&self) -> &str {
        &self.address
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async move {
            match self.ask(Request::Read).await? {
                Answer::State(state) => Ok(PowerReading {
                    state,
                    raw: format!("{state:?}"),
                    source: PowerSource::Redfish,
                    identity: self.identity(),
                    at: Timestamp::now(),
                    bmc: self.address.clone(),
                    connection: None,
                    identify_led: None,
                }),
                _ => Err(self.error(ErrorKind::Protocol, "not a reading", false)),
            }
        })
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            let simulation = &self.driver.simulation;
            simulation.world().judge_identity(self.addressed, self.host);
            match self.ask(Request::Command(command)).await? {
                Answer::Taken(before) => Ok(Accepted {
                    before: Some(StateBefore {
                        state: before,
                        same_connection: true,
                    }),
                    ..Accepted::taken(command.words(), "204")
                }),
                Answer::AlreadyOff(Make::Documented) => {
                    Ok(Accepted::already_there(command.words(), "409: already off"))
                }
                Answer::AlreadyOff(Make::Success) => Ok(Accepted {
                    before: Some(StateBefore {
                        state: PowerState::Off,
                        same_connection: true,
                    }),
                    ..Accepted::taken(command.words(), "204")
                }),
                Answer::AlreadyOff(Make::Undocumented) => {
                    Err(self.error(ErrorKind::Protocol, "500", false))
                }
                Answer::NotYet => Err(self.error(ErrorKind::Busy, "not taken yet", false)),
                _ => Err(self.error(ErrorKind::Refused, "not in this state", false)),
            }
        })
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        Box::pin(async move {
            self.ask(Request::Read).await?;
            Ok(SimulatedBmc::identity(self))
        })
    }

    fn uptime(&self) -> BmcFuture<'_, Duration> {
        Box::pin(async move {
            self.ask(Request::Read).await?;
            let world = self.driver.simulation.world();
            let restarted = world.fleet.host(self.host).bmc.restarted;
            Ok(restarted.map_or(UPTIME, |at| world.now().saturating_sub(at)))
        })
    }

    fn event_log(&self, _limit: usize) -> BmcFuture<'_, EventLog> {
        Box::pin(async move {
            let Answer::Log { stopped } = self.ask(Request::Log).await? else {
                return Err(self.error(ErrorKind::Protocol, "not a log", false));
            };
            let entry = |id: &str, message: &str, meaning| LogEntry {
                id: id.to_owned(),
                at: None,
                severity: Severity::Unknown,
                message: message.to_owned(),
                sensor: None,
                meaning,
            };
            let start = entry("1", "System boot initiated", EventMeaning::Start);
            let stop = EventMeaning::Stop(StopKind::OperatingSystem);
            let stop = stopped.then(|| entry("2", "Run-time critical stop", stop));
            Ok(EventLog {
                entries: std::iter::once(start).chain(stop).collect(),
                total: None,
            })
        })
    }

    /// Every second BMC has no timer for its LED.
    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        Box::pin(async move {
            if matches!(wanted, Identify::For(_)) && self.host.0 % 2 == 1 {
                return Err(self.error(ErrorKind::Unsupported, "no timer", false));
            }
            self.ask(Request::Identify(wanted)).await?;
            Ok(Accepted::taken("identify", "204"))
        })
    }

    fn firmware_updates(&self, _: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        Box::pin(async move {
            let Answer::Updating(is_updating) = self.ask(Request::Updates).await? else {
                return Err(self.error(ErrorKind::Protocol, "not a list of updates", false));
            };
            let update = FirmwareUpdate {
                source: "task 1".to_owned(),
                name: "firmware".to_owned(),
                phase: UpdatePhase::Running,
                state: "Running".to_owned(),
                percent: None,
                message: String::new(),
            };
            Ok(FirmwareUpdates {
                updates: is_updating.then_some(update).into_iter().collect(),
                read: vec!["tasks".to_owned()],
                ..FirmwareUpdates::default()
            })
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Who sends to a BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Agent(ProcessId),
    Ironic,
}

type Reply = Option<oneshot::Sender<Answer>>;

fn state(host: &Host, now: Duration) -> PowerState {
    match host.power {
        _ if host.bmc.reports_off || now < host.bmc.believes_off_until => PowerState::Off,
        Power::On => PowerState::On,
        Power::Falling => PowerState::PoweringOff,
        Power::Off => PowerState::Off,
    }
}

impl World {
    /// Sends a request to a BMC. Without an answer it is silent.
    pub(super) fn ask_bmc(&mut self, id: HostId, asker: Asker, request: Request, reply: Reply) {
        self.fleet.oracle.counts.bmc_calls += 1;
        let rack = self.fleet.host(id).rack;
        self.fleet.bmc_requests.begin(rack);
        let now = self.now();
        let slow = now < self.fleet.host(id).bmc.slow_until;
        let most = if slow { 8_000 } else { 60 };
        if slow {
            self.fleet.host_mut(id).bmc.failed_at = Some(now);
        }
        let delay = self.between(Duration::from_millis(5), Duration::from_millis(most));
        self.after(delay, move |world| {
            world.fleet.bmc_requests.end(rack);
            world.serve_bmc(id, asker, request, reply);
        });
    }

    fn serve_bmc(&mut self, id: HostId, asker: Asker, request: Request, reply: Reply) {
        let now = self.now();
        let host = self.fleet.host_mut(id);
        if now < host.bmc.silent_until || host.bmc.dead || !host.is_fed() {
            host.bmc.failed_at = Some(now);
            return;
        }
        if let (Request::Command(_), Some(lasts)) = (request, host.bmc.resets_at_command.take()) {
            host.bmc.failed_at = Some(now);
            let name = host.name.clone();
            self.log(format_args!("BMC of {name} is reset as a command arrives"));
            self.reset_bmc(id, lasts);
            return;
        }
        let bmc = &self.fleet.host(id).bmc;
        let is_read = matches!(request, Request::Read | Request::Log | Request::Updates);
        let (misnames, denies) = (now < bmc.misnames_until, now < bmc.refuses_reads_until);
        // Every other read, by chance.
        let fails = is_read && (misnames || denies) && self.rng.bool();
        if fails {
            self.fleet.host_mut(id).bmc.failed_at = Some(now);
        }
        let answer = match request {
            _ if fails && misnames => Answer::Misnamed,
            _ if fails => Answer::Denied,
            Request::Read if self.fleet.breakage == Some(Breakage::LyingBmcs) => {
                Answer::State(PowerState::Off)
            }
            Request::Read => Answer::State(state(self.fleet.host(id), now)),
            Request::Log => Answer::Log {
                stopped: self.fleet.host(id).os == Os::Panicked,
            },
            Request::Updates => {
                let is_unread = self.fleet.breakage == Some(Breakage::UpdatesUnseen);
                Answer::Updating(!is_unread && self.fleet.host(id).is_flashed(now))
            }
            Request::Identify(wanted) => {
                self.set_led(id, wanted);
                Answer::Set
            }
            Request::Command(command) => {
                let answer = self.take_command(id, asker, command);
                let bmc = &mut self.fleet.host_mut(id).bmc;
                if std::mem::take(&mut bmc.loses_answer) {
                    bmc.failed_at = Some(now);
                    return;
                }
                answer
            }
        };
        let Some(reply) = reply else {
            return;
        };
        let delay = self.between(Duration::from_millis(2), Duration::from_millis(30));
        self.after(delay, move |world| {
            reply.send(answer).ok();
            if let Asker::Agent(process) = asker {
                world.wake(process, None);
            }
        });
    }

    fn set_led(&mut self, id: HostId, wanted: Identify) {
        let host = self.fleet.host_mut(id);
        host.is_lit = wanted != Identify::Off;
        host.lit += 1;
        let this = host.lit;
        if let Identify::For(time) = wanted {
            self.after(time, move |world| {
                let host = world.fleet.host_mut(id);
                host.is_lit &= host.lit != this;
            });
        }
    }

    /// A BMC is reset: it is silent, and has lost the state of its host, if that runs.
    pub(crate) fn reset_bmc(&mut self, id: HostId, silent: Duration) {
        let learns = self.between(Duration::from_secs(1), LEARNS);
        let now = self.now();
        let host = self.fleet.host_mut(id);
        host.bmc.silent_until = now + silent;
        host.bmc.restarted = Some(now + silent);
        if host.power == Power::On {
            host.bmc.believes_off_until = now + silent + learns;
        }
    }

    fn take_command(&mut self, id: HostId, asker: Asker, command: PowerCommand) -> Answer {
        let by = match asker {
            Asker::Agent(process) => self.name(process).to_owned(),
            Asker::Ironic => "ironic".to_owned(),
        };
        let (now, lying) = (self.now(), self.fleet.breakage == Some(Breakage::LyingBmcs));
        let before = match lying {
            true => PowerState::Off,
            false => state(self.fleet.host(id), now),
        };
        // It has begun also where the BMC does not take it.
        if command == PowerCommand::Off {
            self.judge_begin(id);
        }
        let host = self.fleet.host_mut(id);
        let switches_off = matches!(command, PowerCommand::Off | PowerCommand::SoftOff);
        if now < host.bmc.believes_off_until && switches_off {
            host.bmc.failed_at = Some(now);
            let name = host.name.clone();
            let words = command.words();
            self.log(format_args!(
                "BMC of {name} refuses {words} from {by}: it takes the host for off"
            ));
            return Answer::AlreadyOff(Make::of(id));
        }
        // What it takes while it reports off already proves nothing.
        if before == PowerState::Off && switches_off {
            host.bmc.failed_at = Some(now);
        }
        (host.bmc.reports_off, host.bmc.believes_off_until) = (false, Duration::ZERO);
        let is_agent = matches!(asker, Asker::Agent(_));
        if is_agent
            && switches_off
            && host.power == Power::On
            && let Some(lasts) = host.bmc.flashes_at_command.take()
        {
            host.bmc.flash = Some((now, now + lasts));
            host.bmc.is_flash_told = true;
            let (name, words) = (host.name.clone(), command.words());
            self.log(format_args!(
                "BMC of {name} does not take {words} from {by} in this form, and begins to write firmware"
            ));
            return Answer::NotYet;
        }
        let ignored = now < host.bmc.ignores_until || lying;
        let name = host.name.clone();
        let note = if ignored { " and ignores it" } else { "" };
        let words = command.words();
        self.log(format_args!("BMC of {name} takes {words} from {by}{note}"));
        self.fleet.oracle.counts.commands += 1;
        if command == PowerCommand::Off {
            let node = self.api.get(NODES, "", &name);
            let host = self.fleet.host_mut(id);
            host.last_off = now;
            host.node_at_off = node.map(|node| text(&node, "uid"));
        }
        if ignored {
            self.fleet.host_mut(id).bmc.failed_at = Some(now);
            return Answer::Taken(before);
        }
        if matches!(asker, Asker::Agent(_)) && command.leads_to() != Some(PowerState::On) {
            self.judge_flash(id, &by);
        }
        match command {
            PowerCommand::Off => {
                self.judge_power_off(id, &by);
                self.begin_power_off(id, by);
            }
            PowerCommand::On | PowerCommand::OnByButton => {
                self.judge_power_on(id, &by);
                self.begin_power_on(id, by);
            }
            PowerCommand::SoftOff | PowerCommand::SoftOffByButton
                if self.fleet.host(id).os == Os::Running =>
            {
                self.judge_power_off(id, &by);
                self.begin_power_off(id, by);
            }
            PowerCommand::SoftOff | PowerCommand::SoftOffByButton | PowerCommand::Nmi => {}
            PowerCommand::Reset => {
                if self.fleet.host(id).power != Power::On {
                    return Answer::Refused;
                }
                self.judge_power_off(id, &by);
                self.fleet.oracle.counts.power_offs += 1;
                self.boot(id);
            }
        }
        Answer::Taken(before)
    }

    fn begin_power_off(&mut self, id: HostId, by: String) {
        let host = self.fleet.host_mut(id);
        // A power-on that was taken before does not happen any more.
        host.power_ons += 1;
        if host.power != Power::On {
            return;
        }
        host.power = Power::Falling;
        self.fleet.oracle.counts.power_offs += 1;
        let time = self.between(Duration::from_millis(300), Duration::from_secs(6));
        self.after(time, move |world| {
            if world.fleet.host(id).power == Power::Falling {
                world.cut_power(id, &by);
            }
        });
    }

    fn begin_power_on(&mut self, id: HostId, by: String) {
        let time = self.between(Duration::from_millis(300), Duration::from_secs(4));
        let host = self.fleet.host_mut(id);
        if host.power != Power::Off {
            return;
        }
        host.power_ons += 1;
        let this = host.power_ons;
        self.after(time, move |world| {
            let host = world.fleet.host(id);
            if host.power == Power::Off && host.power_ons == this {
                world.give_power(id, &by);
            }
        });
    }
}
