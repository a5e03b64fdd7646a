//! What a simulated BMC counts.
//!
//! Owns the shapes, which `bmc-farm` prints as JSON. Must never hold a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::ChassisControl;
use crate::rack::power::Answer;

/// A command by its numbers; written `00/02`, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Command {
    /// Network function of the request.
    pub net_fn: u8,
    pub command: u8,
}

impl Command {
    /// Get Chassis Status.
    pub const CHASSIS_STATUS: Self = Self::new(0x00, 0x01);
    /// Chassis Control.
    pub const CHASSIS_CONTROL: Self = Self::new(0x00, 0x02);
    /// Get Device ID.
    pub const DEVICE_ID: Self = Self::new(0x06, 0x01);
    /// Set Session Privilege Level.
    pub const SET_PRIVILEGE: Self = Self::new(0x06, 0x3b);
    /// Close Session.
    pub const CLOSE_SESSION: Self = Self::new(0x06, 0x3c);

    /// The command of these numbers.
    pub const fn new(net_fn: u8, command: u8) -> Self {
        Self { net_fn, command }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}/{:02x}", self.net_fn, self.command)
    }
}

impl FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let wrong = || anyhow::anyhow!("not a command as 00/02: {text}");
        let (net_fn, command) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self {
            net_fn: u8::from_str_radix(net_fn, 16).map_err(|_| wrong())?,
            command: u8::from_str_radix(command, 16).map_err(|_| wrong())?,
        })
    }
}

impl From<Command> for String {
    fn from(command: Command) -> Self {
        command.to_string()
    }
}

impl TryFrom<String> for Command {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

/// Why a packet got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// Not a packet, or of a kind that is not spoken.
    Malformed,
    /// A presence ping, and the BMC answers none.
    Ping,
    /// For a session that is not there.
    UnknownSession,
    /// Not signed with the session's keys, or not encrypted.
    Integrity,
    /// A session sequence number seen before, or far from the last.
    Sequence,
    /// Refused in silence.
    Refused,
    /// The BMC is dead or starting.
    Down,
    /// A rule wants it so.
    Rule,
}

/// A Chassis Control that arrived in a session with enough privilege.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Controlled {
    /// When it was carried out, after the BMC's start.
    pub after: Duration,
    /// What was asked.
    pub control: ChassisControl,
    /// Of which user.
    pub user: String,
    /// The BMC's session id.
    pub session: u32,
    /// What the machine said; none if a rule kept the command from it.
    pub answer: Option<Answer>,
}

/// What a BMC did since it was made; a restart of it does not clear them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Datagrams that arrived.
    pub packets: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that were not answered.
    pub dropped: BTreeMap<Dropped, u64>,
    /// Commands that were carried out or refused; not those that a rule answered in their place.
    pub commands: BTreeMap<Command, u64>,
    /// Commands that the BMC does not know.
    pub unknown: BTreeMap<Command, u64>,
    /// Sessions whose set-up was completed.
    pub sessions_opened: u64,
    /// Sessions that were closed by their client.
    pub sessions_closed: u64,
    /// Sessions, half-open ones included, that timed out.
    pub sessions_expired: u64,
    /// Restarts of the BMC.
    pub restarts: u64,
    /// Every Chassis Control.
    pub controls: Vec<Controlled>,
}

impl Counters {
    /// How many commands of this kind were carried out or refused.
    pub fn of(&self, command: Command) -> u64 {
        self.commands.get(&command).copied().unwrap_or(0)
    }

    /// How many datagrams were not answered for this reason.
    pub fn dropped(&self, why: Dropped) -> u64 {
        self.dropped.get(&why).copied().unwrap_or(0)
    }

    /// How many Chassis Controls of this kind reached the machine.
    pub fn controlled(&self, control: ChassisControl) -> usize {
        let reached = self.controls.iter().filter(|one| one.answer.is_some());
        reached.filter(|one| one.control == control).count()
    }

    pub(super) fn drop(&mut self, why: Dropped) {
        *self.dropped.entry(why).or_default() += 1;
    }
}
