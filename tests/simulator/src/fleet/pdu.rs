//! The two PDUs of a rack, behind the driver interface of the agent, and the outlets that feed its hosts.
//!
//! A host has power as long as one of its outlets lets it through, whatever the outlet reports; without
//! power its BMC does not answer either. Protocols are tested elsewhere.

use std::time::Duration;

use rackhand_bmc::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{NO_WATTS, OutletCommand, OutletId, OutletReading, OutletState, Pdu, PduConfig},
};
use tokio::sync::oneshot;

use super::{
    Host, HostId,
    bmc::SimulatedBmcs,
    host::{Power, place_of},
    kubelet::text,
};
use crate::{
    api::resource::NODES,
    breakage::Breakage,
    kernel::{ProcessId, World},
};

/// The names of the PDUs of a rack.
pub(crate) const PDUS: [&str; 2] = ["a", "b"];
/// The last octet of the address of the first PDU of a rack.
const FIRST_ADDRESS: usize = 241;
/// How long a BMC takes to start once it has power.
const BMC_STARTS: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(90));
/// How long after a call that its BMC did not serve the outlets of a host may be switched off: the
/// power-off by the BMC, and as long again for everything between.
const BMC_FAILED: Duration = Duration::from_secs(1800);

/// An outlet that feeds a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlet {
    /// What it reports, and what it was told.
    pub(crate) on: bool,
    /// Its relay is welded: it lets power through although it reports off. PDU a measures that.
    pub(crate) welded: bool,
}

impl Outlet {
    fn feeds(self) -> bool {
        self.on || self.welded
    }
}

/// How a host is fed: one outlet of each PDU of its rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feeds {
    pub(crate) outlets: [Outlet; 2],
    /// It comes on when power is back; otherwise its BMC has to switch it on.
    restores: bool,
}

impl Feeds {
    /// Of the host at a place of a rack with PDUs; each third one is fed by something that nobody knows.
    pub(super) fn at(place: usize) -> Option<Self> {
        let outlet = Outlet {
            on: true,
            welded: false,
        };
        (place % 3 != 2).then_some(Self {
            outlets: [outlet; 2],
            restores: place.is_multiple_of(3),
        })
    }
}

impl Host {
    /// Whether it has power from outside.
    pub(crate) fn is_fed(&self) -> bool {
        let feeds = |feeds: Feeds| feeds.outlets.into_iter().any(Outlet::feeds);
        self.feeds.is_none_or(feeds)
    }
}

/// The condition of a PDU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PduCondition {
    /// It answers nothing until then.
    pub(crate) silent_until: Duration,
    /// It takes commands until then and does nothing.
    pub(crate) ignores_until: Duration,
    /// It carries out the next command and loses its answer.
    pub(crate) loses_answer: bool,
}

/// A PDU: its rack, and its place among those of the rack.
pub(crate) type PduId = (usize, usize);

/// The address of a PDU of a rack.
pub(crate) fn address(rack: usize, pdu: usize) -> String {
    let (high, low) = (rack / 250, rack % 250);
    format!("10.{high}.{low}.{}", FIRST_ADDRESS + pdu)
}

/// The name of a host's outlet at each of its PDUs.
pub(crate) fn outlet_of(host: &Host) -> String {
    (host.place + 1).to_string()
}

#[derive(Debug)]
pub(super) struct SimulatedPdu {
    driver: SimulatedBmcs,
    id: PduId,
    address: String,
    limit: Duration,
}

impl SimulatedPdu {
    /// The PDU at the address of a configuration.
    pub(super) fn connect(driver: &SimulatedBmcs, config: &PduConfig) -> Option<Self> {
        let (rack, place) = place_of(*config.resolved.first()?)?;
        let pdu = (place + 1).checked_sub(FIRST_ADDRESS)?;
        (pdu < PDUS.len()).then(|| Self {
            driver: driver.clone(),
            id: (rack, pdu),
            address: config.address.to_string(),
            limit: config.call_timeout,
        })
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

    async fn ask(&self, request: Request) -> Result<Vec<OutletReading>, BmcError> {
        let is_command = matches!(request, Request::Switch(..));
        let (answer, answered) = oneshot::channel();
        let agent = self.driver.agent;
        self.driver
            .simulation
            .world()
            .ask_pdu(self.id, agent, request, answer);
        match tokio::time::timeout(self.limit, answered).await {
            Ok(Ok(Some(readings))) => Ok(readings),
            Ok(Ok(None)) => Err(self.error(ErrorKind::System, "no such outlet", false)),
            Ok(Err(_)) | Err(_) => Err(self.error(ErrorKind::Timeout, "no answer", is_command)),
        }
    }
}

impl Pdu for SimulatedPdu {
    fn address(&self) -> &str {
        &self.address
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        Box::pin(self.ask(Request::ReadAll))
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        Box::pin(self.ask(Request::Read(outlets.to_vec())))
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        Box::pin(async move {
            self.ask(Request::Switch(outlet.clone(), command)).await?;
            Ok(Accepted::taken(format!("{command:?}"), "set"))
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// A request to a PDU.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    ReadAll,
    Read(Vec<OutletId>),
    Switch(OutletId, OutletCommand),
}

/// The outlets that were read; `None`: there is no such outlet.
type Reply = oneshot::Sender<Option<Vec<OutletReading>>>;

impl World {
    /// Sends a request to a PDU. Without an answer it is silent.
    fn ask_pdu(&mut self, id: PduId, agent: ProcessId, request: Request, reply: Reply) {
        self.fleet.oracle.counts.pdu_calls += 1;
        let delay = self.between(Duration::from_millis(5), Duration::from_millis(200));
        self.after(delay, move |world| {
            world.serve_pdu(id, agent, request, reply);
        });
    }

    fn serve_pdu(&mut self, id: PduId, agent: ProcessId, request: Request, reply: Reply) {
        let now = self.now();
        if now < self.fleet.pdu(id).silent_until {
            return;
        }
        let answer = match request {
            Request::ReadAll => {
                let all = self.fleet.ids().filter(|host| self.is_at(*host, id));
                Some(all.filter_map(|host| self.read_outlet(host, id)).collect())
            }
            Request::Read(outlets) => outlets
                .iter()
                .map(|outlet| self.read_outlet(self.host_at(id, outlet)?, id))
                .collect(),
            Request::Switch(outlet, command) => {
                let host = self.host_at(id, &outlet);
                if let Some(host) = host {
                    self.take_outlet_command(host, id, agent, command);
                }
                if std::mem::take(&mut self.fleet.pdu_mut(id).loses_answer) {
                    return;
                }
                host.map(|_| Vec::new())
            }
        };
        let delay = self.between(Duration::from_millis(2), Duration::from_millis(30));
        self.after(delay, move |world| {
            reply.send(answer).ok();
            world.wake(agent, None);
        });
    }

    fn is_at(&self, host: HostId, pdu: PduId) -> bool {
        let host = self.fleet.host(host);
        host.rack == pdu.0 && host.feeds.is_some()
    }

    fn host_at(&self, pdu: PduId, outlet: &OutletId) -> Option<HostId> {
        let place = outlet.0.parse::<usize>().ok()?.checked_sub(1)?;
        let host = self.fleet.at(pdu.0, place)?;
        self.is_at(host, pdu).then_some(host)
    }

    fn read_outlet(&self, host: HostId, (_, pdu): PduId) -> Option<OutletReading> {
        let host = self.fleet.host(host);
        let outlet = host.feeds?.outlets.get(pdu).copied()?;
        let draws = match host.power {
            _ if !outlet.feeds() => 0.0,
            Power::On | Power::Falling => 0.9,
            Power::Off => 0.1,
        };
        let measures = pdu == 0 && self.fleet.breakage != Some(Breakage::LyingPdus);
        Some(OutletReading {
            id: OutletId(outlet_of(host)),
            label: None,
            state: if outlet.on {
                OutletState::On
            } else {
                OutletState::Off
            },
            raw: if outlet.on { "on" } else { "off" }.to_owned(),
            amperes: measures.then_some(draws),
            watts: None,
            none_watts: NO_WATTS,
        })
    }

    fn take_outlet_command(
        &mut self,
        id: HostId,
        pdu: PduId,
        agent: ProcessId,
        command: OutletCommand,
    ) {
        let (now, by) = (self.now(), self.name(agent).to_owned());
        let is_ignored = now < self.fleet.pdu(pdu).ignores_until;
        let name = self.fleet.host(id).name.clone();
        let note = if is_ignored { " and ignores it" } else { "" };
        let on = command == OutletCommand::On;
        let (word, pdu_name) = (if on { "on" } else { "off" }, PDUS[pdu.1.min(1)]);
        self.log(format_args!(
            "outlet {pdu_name} of {name} takes {word} from {by}{note}"
        ));
        self.fleet.oracle.counts.commands += 1;
        if on {
            if !self.fleet.host(id).is_fed() {
                self.judge_power_on(id, &by);
            }
        } else {
            let node = self.api.get(NODES, "", &name);
            let host = self.fleet.host_mut(id);
            host.last_off = now;
            host.node_at_off = node.map(|node| text(&node, "uid"));
            self.judge_begin(id);
            self.judge_power_off(id, &by);
            self.judge_outlets_off(id, &by);
        }
        if !is_ignored {
            self.set_outlet(id, pdu.1, &by, |outlet| outlet.on = on);
        }
    }

    /// F8: outlets are switched off only after the BMC did not do what it was asked for.
    fn judge_outlets_off(&mut self, id: HostId, by: &str) {
        let host = self.fleet.host(id);
        let failed = host.bmc.failed_at;
        if failed.is_none_or(|at| self.now().saturating_sub(at) > BMC_FAILED) {
            let name = host.name.clone();
            self.violate(format!(
                "F8: an outlet of {name} is switched off by {by} although its BMC works"
            ));
        }
    }

    /// Changes an outlet of a host, which gets or loses its power by that.
    pub(crate) fn set_outlet(
        &mut self,
        id: HostId,
        pdu: usize,
        by: &str,
        change: impl FnOnce(&mut Outlet),
    ) {
        let host = self.fleet.host_mut(id);
        let (was_fed, was_on) = (host.is_fed(), host.power != Power::Off);
        let Some(feeds) = &mut host.feeds else {
            return;
        };
        let restores = feeds.restores;
        if let Some(outlet) = feeds.outlets.get_mut(pdu) {
            change(outlet);
        }
        match (was_fed, host.is_fed()) {
            (true, false) => {
                // A power-on that the BMC took before does not happen any more.
                host.power_ons += 1;
                self.fleet.oracle.counts.outlet_cuts += u64::from(was_on);
                self.cut_power(id, &format!("its outlets, by {by}"));
            }
            (false, true) => {
                let starts = self.between(BMC_STARTS.0, BMC_STARTS.1);
                let until = self.now() + starts;
                let bmc = &mut self.fleet.host_mut(id).bmc;
                bmc.silent_until = bmc.silent_until.max(until);
                if restores {
                    self.give_power(id, &format!("its outlets, by {by}"));
                }
            }
            _ => {}
        }
    }

    /// All PDUs are well again.
    pub(crate) fn heal_pdus(&mut self) {
        for condition in self.fleet.pdus.values_mut() {
            *condition = PduCondition::default();
        }
        for id in self.fleet.ids() {
            for pdu in 0..PDUS.len() {
                self.set_outlet(id, pdu, "the repair", |outlet| outlet.welded = false);
            }
        }
    }
}
