//! The commands of the BMC.
//!
//! Owns: privileges, completion codes, and stored data other than sessions. Must never: execute a
//! command that the session's privilege does not allow.

mod app;
mod boot;
mod chassis;
mod dcmi;
mod fru;
mod hpm;
mod sdr;
mod sel;
mod storage;

use std::time::Instant;

use rackhand_bmc::ipmi::wire::{CompletionCode, Request, Response};

pub use chassis::ChassisControl;

use super::bmc::{Bmc, Framing, command_of};
use super::config::{IpmiConfig, Privilege};
use super::session::{Rights, Session};

const CHASSIS: u8 = 0x00;
const SENSOR: u8 = 0x04;
const APP: u8 = 0x06;
const STORAGE: u8 = 0x0a;
const GROUP: u8 = 0x2c;

/// A completion code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused(u8);

impl From<CompletionCode> for Refused {
    fn from(code: CompletionCode) -> Self {
        Self(code.number())
    }
}

type Reply = Result<Vec<u8>, Refused>;

struct Caller {
    rights: Option<Rights>,
    /// Whether off is reported in any state.
    reports_off: bool,
    now: Instant,
}

/// Stored data of a BMC other than sessions.
#[derive(Debug)]
pub(super) struct Stores {
    identify: Option<chassis::Identify>,
    boot: boot::BootOptions,
    sel: sel::Sel,
    sdr: sdr::Repository,
    fru: Vec<u8>,
    /// The session that was closed last, until the response to it was sent.
    pub(super) closing: Option<Session>,
}

impl Stores {
    pub(super) fn new(config: &IpmiConfig) -> Self {
        Self {
            identify: None,
            boot: boot::BootOptions::default(),
            sel: sel::Sel::default(),
            sdr: sdr::Repository::new(),
            fru: fru::image(&config.serial),
            closing: None,
        }
    }

    /// Drops data that a restart of the BMC loses.
    pub(super) fn restarted(&mut self) {
        self.identify = None;
        self.sel.cancel_reservation();
        self.sdr.cancel_reservation();
    }
}

/// The data as an array of exactly this length.
fn exactly<const N: usize>(data: &[u8]) -> Result<[u8; N], Refused> {
    data.try_into().map_err(|_| CompletionCode::LENGTH.into())
}

/// The first bytes of the data, which may be longer.
fn first<const N: usize>(data: &[u8]) -> Result<[u8; N], Refused> {
    let head = data.first_chunk::<N>().copied();
    head.ok_or_else(|| CompletionCode::LENGTH.into())
}

/// The privilege that a command requires; `None` if it needs no session (IPMI 2.0, appendix G).
fn needed(request: &Request) -> Option<Privilege> {
    Some(match (request.net_fn, request.command) {
        (APP, 0x37 | 0x38 | 0x54) => return None,
        (APP, 0x3b | 0x3c) => Privilege::Callback,
        (APP, 0x02) => Privilege::Administrator,
        (CHASSIS, 0x02 | 0x04 | 0x08 | 0x09) | (STORAGE, 0x44 | 0x47) => Privilege::Operator,
        _ => Privilege::User,
    })
}

fn allowed(rights: Option<Rights>, request: &Request) -> Result<(), Refused> {
    let allowed = match needed(request) {
        Some(needed) => rights.is_some_and(|rights| rights.privilege >= needed),
        None => true,
    };
    let refused = CompletionCode::PRIVILEGE;
    allowed.then_some(()).ok_or_else(|| refused.into())
}

impl Caller {
    fn session(&self) -> Option<u32> {
        self.rights.map(|rights| rights.session)
    }
}

impl Bmc {
    pub(super) fn execute(
        &mut self,
        framing: Framing,
        request: &Request,
        reports_off: bool,
        now: Instant,
    ) -> Response {
        let rights = match framing {
            Framing::Session(rights) => Some(rights),
            Framing::V15 | Framing::Plain => None,
        };
        let caller = Caller {
            rights,
            reports_off,
            now,
        };
        let reply = allowed(rights, request).and_then(|()| self.dispatch(&caller, request));
        if reply == Err(CompletionCode::INVALID_COMMAND.into()) {
            let unknown = self.counters.unknown.entry(command_of(request));
            *unknown.or_default() += 1;
        }
        match reply {
            Ok(data) => request.answer(0, data),
            Err(Refused(code)) => request.answer(code, Vec::new()),
        }
    }

    fn dispatch(&mut self, caller: &Caller, request: &Request) -> Reply {
        match request.net_fn {
            APP => self.app(caller, request),
            CHASSIS => self.chassis(caller, request),
            SENSOR => self.sensor(caller, request),
            STORAGE => self.storage(caller, request),
            GROUP if request.data.first() == Some(&hpm::PICMG) => self.picmg(request),
            GROUP => self.group(caller, request),
            _ => Err(CompletionCode::INVALID_COMMAND.into()),
        }
    }

    /// The BMC's clock, in seconds since 1970.
    fn clock(&self, now: Instant) -> u32 {
        let up = now.saturating_duration_since(self.started).as_secs();
        let clock = u64::from(self.config.clock).saturating_add(up);
        u32::try_from(clock).unwrap_or(u32::MAX)
    }
}
