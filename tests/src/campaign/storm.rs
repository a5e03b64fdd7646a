//! Injects faults chosen by a seed, and ends them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use nix::sys::signal::Signal;
use parking_lot::Mutex;

use super::{
    CONTROLLERS,
    fault::{Fault, Part},
};
use crate::{
    cluster::Server,
    rack::{FaultId, OsState, PowerState},
    stage::{Stage, TcpProxy},
    udp_proxy::Faults,
};

/// Maximum number of lasting faults at one time.
const OPEN: usize = 4;
/// How long an answer of the API server is waited for, which may be stopped until [`Storm::end`] continues it.
const ANSWER: Duration = Duration::from_secs(2);
/// Delay of slow connections.
const LATE: Duration = Duration::from_millis(400);
/// Maximum step of a clock in seconds, forwards or backwards.
const CONTROLLER_CLOCK: i64 = 12;
/// The most by which the time of a controller's Event is wrong.
pub(super) const CLOCK_ERROR: Duration = Duration::from_secs(CONTROLLER_CLOCK.unsigned_abs() + 1);
const AGENT_CLOCK: i64 = 600;
/// Probability of each fault of a datagram.
const DATAGRAMS: f64 = 0.05;
/// The path of the system of a BMC.
const SYSTEMS: &str = "/redfish/v1/Systems/*";

/// A fault in progress.
struct Open {
    fault: Fault,
    target: String,
    until: Instant,
    rule: Option<FaultId>,
}

/// An injected fault.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    /// Which fault was injected.
    pub(super) fault: Fault,
    /// Name of the target.
    pub(super) target: String,
    /// When the fault began.
    pub(super) at: Instant,
}

/// The fault injection into one system.
pub(super) struct Storm<'a> {
    stage: &'a Stage,
    api: &'a TcpProxy,
    agents: &'a BTreeMap<String, TcpProxy>,
    hosts: Vec<String>,
    rng: Mutex<fastrand::Rng>,
    open: Mutex<Vec<Open>>,
    begun: Mutex<Vec<Begun>>,
}

impl<'a> Storm<'a> {
    /// Creates the fault injection for these hosts.
    pub(super) fn new(
        stage: &'a Stage,
        api: &'a TcpProxy,
        agents: &'a BTreeMap<String, TcpProxy>,
        hosts: Vec<String>,
        seed: u64,
    ) -> Self {
        Self {
            stage,
            api,
            agents,
            hosts,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            open: Mutex::default(),
            begun: Mutex::default(),
        }
    }

    /// All injected faults.
    pub(super) fn begun(&self) -> Vec<Begun> {
        self.begun.lock().clone()
    }

    /// Injects faults for this time, then ends all faults in progress.
    ///
    /// # Errors
    /// A signal cannot be sent.
    pub(super) async fn run(&self, duration: Duration, tell: &(dyn Fn(&str) + Sync)) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < duration {
            let pause = self.rng.lock().u64(200..1_200);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            self.end(|open| open.until <= Instant::now())?;
            let Some((fault, target)) = self.choose() else {
                continue;
            };
            if self.begin(fault, &target).await? {
                tell(&format!(
                    "{:>6.1} s  {fault}: {target}",
                    started.elapsed().as_secs_f64()
                ));
                let at = Instant::now();
                self.begun.lock().push(Begun { fault, target, at });
            }
        }
        self.end(|_| true)
    }

    /// The pause before a restart, like that of a kubelet or systemd.
    pub(super) fn downtime(&self) -> Duration {
        Duration::from_millis(self.rng.lock().u64(200..2_500))
    }

    fn choose(&self) -> Option<(Fault, String)> {
        let mut rng = self.rng.lock();
        let all: u32 = Fault::SHARES.iter().map(|(_, share)| share).sum();
        let mut left = rng.u32(..all);
        let (fault, _) = Fault::SHARES.into_iter().find(|(_, share)| {
            let found = left < *share;
            left = left.saturating_sub(*share);
            found
        })?;
        let targets: Vec<String> = match fault.part() {
            Part::Host => self.hosts.clone(),
            Part::IpmiHost => {
                let ipmi = |host: &&String| self.stage.ipmi(host).is_some();
                self.hosts.iter().filter(ipmi).cloned().collect()
            }
            Part::Controller => CONTROLLERS.map(str::to_owned).to_vec(),
            Part::Api => vec!["api".to_owned()],
            Part::Agent => self.agents.keys().cloned().collect(),
        };
        let target = rng.choice(targets)?;
        drop(rng);
        if fault == Fault::DiskFull && !self.stage.config().faults.disks {
            return None;
        }
        let open = self.open.lock();
        let same_part = |o: &Open| o.fault.part() == fault.part() && o.target == target;
        let busy = open.iter().any(same_part) && fault != Fault::HostHangs;
        let full = fault.lasts().is_some() && open.len() >= OPEN;
        (!busy && !full).then_some((fault, target))
    }

    /// Begins a fault; false if it is not applicable now.
    async fn begin(&self, fault: Fault, target: &str) -> Result<bool> {
        let stage = self.stage;
        let mut rule = None;
        match fault {
            Fault::HostHangs => {
                let running = |name: &&String| {
                    let host = stage.host(name);
                    host.is_ok_and(|host| host.os() == OsState::Running)
                };
                // Enough hosts must run the pods.
                let enough = self.hosts.iter().filter(running).count() * 2 > self.hosts.len();
                return Ok(enough && stage.host(target)?.hang());
            }
            Fault::RemediationDeleted => {
                let withdrawn = tokio::time::timeout(ANSWER, stage.withdraw(target)).await;
                return Ok(matches!(withdrawn, Ok(Ok(()))));
            }
            Fault::ControllerKilled => return Ok(stage.kill_controller(target).is_ok()),
            Fault::ControllerStopped => {
                if stage.signal_controller(target, Signal::SIGSTOP).is_err() {
                    return Ok(false);
                }
            }
            Fault::ApiCut => self.api.cut(),
            Fault::ApiSilent => self.api.silence(),
            Fault::ApiSlow => self.api.slow(LATE),
            Fault::ApiServerStopped => stage.plane().signal(Server::ApiServer, Signal::SIGSTOP)?,
            Fault::EtcdStopped => stage.plane().signal(Server::Etcd, Signal::SIGSTOP)?,
            Fault::ApiServerKilled => stage.plane().kill(Server::ApiServer)?,
            Fault::EtcdKilled => stage.plane().kill(Server::Etcd)?,
            Fault::ControllerClockSet => {
                let seconds = self.rng.lock().i64(-CONTROLLER_CLOCK..=CONTROLLER_CLOCK);
                stage.set_clock(target, seconds)?;
            }
            Fault::AgentClockSet => {
                let seconds = self.rng.lock().i64(-AGENT_CLOCK..=AGENT_CLOCK);
                stage.set_clock(&format!("agent-{target}"), seconds)?;
            }
            Fault::DiskFull => stage.fill_disk(target)?,
            Fault::DatagramsBad => {
                stage.set_datagram_faults(target, Faults::all(DATAGRAMS))?;
            }
            Fault::AgentKilled => return Ok(stage.kill_agent(target).is_ok()),
            Fault::JournalLost => {
                let killed = stage.kill_agent(target).is_ok();
                return Ok(killed && stage.lose_agent_state(target).is_ok());
            }
            Fault::AgentStopped => {
                if stage.signal_agent(target, Signal::SIGSTOP).is_err() {
                    return Ok(false);
                }
            }
            Fault::AgentCut => self.agents[target].cut(),
            Fault::AgentSilent => self.agents[target].silence(),
            Fault::AgentSlow => self.agents[target].slow(LATE),
            Fault::BmcSilent => rule = Some(stage.host(target)?.silent()),
            Fault::BmcMisnames => {
                let other = "/redfish/v1/Systems/other";
                rule = Some(stage.host(target)?.misname(SYSTEMS, other));
            }
            Fault::BmcRefusesSystem => {
                rule = Some(stage.host(target)?.refuse_auth_at(SYSTEMS));
            }
            Fault::BmcReportsOff => rule = Some(stage.host(target)?.off_until_commanded()),
            Fault::BmcForgets => {
                let host = stage.host(target)?;
                if host.real_power() != PowerState::On {
                    return Ok(false);
                }
                host.forget_power(None);
            }
            Fault::BmcIgnoresCommands => rule = Some(stage.host(target)?.ignore_commands()),
            Fault::BmcLosesAnswer => {
                stage.host(target)?.lose_next_answer();
            }
            Fault::BmcRestarts => stage.host(target)?.restart_bmc("campaign"),
        }
        if let Some(lasts) = fault.lasts() {
            let lasts = Duration::from_millis(self.rng.lock().u64(lasts));
            self.open.lock().push(Open {
                fault,
                target: target.to_owned(),
                until: Instant::now() + lasts,
                rule,
            });
        }
        Ok(true)
    }

    /// Ends the faults that are due.
    fn end(&self, due: impl Fn(&Open) -> bool) -> Result<()> {
        let ended: Vec<Open> = {
            let mut open = self.open.lock();
            let (ended, left) = open.drain(..).partition(|o| due(o));
            *open = left;
            ended
        };
        for Open {
            fault,
            target,
            rule,
            ..
        } in ended
        {
            let stage = self.stage;
            match fault {
                // The controller may have been killed meanwhile.
                Fault::ControllerStopped => {
                    stage.signal_controller(&target, Signal::SIGCONT).ok();
                }
                Fault::AgentStopped => {
                    stage.signal_agent(&target, Signal::SIGCONT).ok();
                }
                Fault::ApiServerStopped => {
                    stage.plane().signal(Server::ApiServer, Signal::SIGCONT)?;
                }
                Fault::EtcdStopped => stage.plane().signal(Server::Etcd, Signal::SIGCONT)?,
                Fault::ApiServerKilled => stage.plane().restart(Server::ApiServer)?,
                Fault::EtcdKilled => stage.plane().restart(Server::Etcd)?,
                Fault::ControllerClockSet => stage.set_clock(&target, 0)?,
                Fault::AgentClockSet => stage.set_clock(&format!("agent-{target}"), 0)?,
                // The agent may have lost its journal meanwhile, and the filler file with it.
                Fault::DiskFull => {
                    stage.free_disk(&target).ok();
                }
                Fault::DatagramsBad => stage.set_datagram_faults(&target, Faults::default())?,
                Fault::BmcForgets => stage.host(&target)?.recall_power(),
                Fault::ApiCut | Fault::ApiSilent | Fault::ApiSlow => self.api.mend(),
                Fault::AgentCut | Fault::AgentSilent | Fault::AgentSlow => {
                    self.agents[&target].mend();
                }
                _ => {
                    if let Some(rule) = rule {
                        stage.host(&target)?.clear_fault(rule);
                    }
                }
            }
        }
        Ok(())
    }
}
