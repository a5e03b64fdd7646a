//! What a simulated IPMI BMC is like: users, cipher suites, identity, and the habits of its make.
//!
//! Owns the defaults: a BMC that answers as the specification says, with one administrator. Must
//! never show a password or K_g.

use std::time::Duration;

use rackhand_bmc::ipmi::wire::Suite;
use secrecy::{SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use super::sensors::Sensor;
use crate::rack::HostConfig;

/// Privilege levels (IPMI 2.0, section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// May open a session, no more.
    Callback,
    User,
    /// May switch power.
    Operator,
    /// May change users.
    Administrator,
}

impl Privilege {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Callback => 1,
            Self::User => 2,
            Self::Operator => 3,
            Self::Administrator => 4,
        }
    }

    /// The level of this number; the OEM level is none.
    pub fn of(number: u8) -> Option<Self> {
        [
            Self::Callback,
            Self::User,
            Self::Operator,
            Self::Administrator,
        ]
        .into_iter()
        .find(|level| level.number() == number)
    }
}

#[derive(Clone, Debug)]
pub struct User {
    /// Name, 16 bytes at most.
    pub name: String,
    /// Password, 20 bytes at most.
    pub password: SecretString,
    /// The most that a session of this user may have.
    pub limit: Privilege,
    /// Whether the user may log in.
    pub enabled: bool,
}

impl User {
    /// A user that may log in.
    pub fn new(name: &str, password: &str, limit: Privilege) -> Self {
        Self {
            name: name.to_owned(),
            password: SecretString::from(password),
            limit,
            enabled: true,
        }
    }
}

/// How a BMC refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// With the status that IPMI 2.0 has for it.
    Status,
    /// Not at all: the client waits.
    Silent,
}

/// Who made the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// IANA enterprise number of the BMC's maker.
    pub enterprise: u32,
    /// Product id of the BMC.
    pub id: u16,
    /// Firmware: major and minor.
    pub firmware: (u8, u8),
    /// Maker, in the FRU inventory.
    pub manufacturer: String,
    /// Model, in the FRU inventory.
    pub model: String,
    /// Serial number of product and board.
    pub serial: String,
}

impl Default for Product {
    fn default() -> Self {
        Self {
            // For examples (RFC 5612): nobody's OEM code knows it.
            enterprise: 32473,
            id: 0x0100,
            firmware: (4, 20),
            manufacturer: "Rackhand".to_owned(),
            model: "Simulated 1U".to_owned(),
            serial: "SIM-1".to_owned(),
        }
    }
}

/// Habits in which BMCs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Answers an RMCP presence ping; many do not.
    pub answers_ping: bool,
    /// Answers Get Channel Cipher Suites; many do not, and ipmitool then waits for 10 s.
    pub lists_suites: bool,
    /// Drops a session sequence number that it has seen, or that is far from the last. Others,
    /// measured, execute the same datagram twice.
    pub strict_sequence: bool,
    /// To a wrong password.
    pub wrong_password: Refusal,
    /// To a user that is not there or may not log in.
    pub unknown_user: Refusal,
    /// Says the granted privilege in the Open Session Response; some say 0.
    pub echoes_privilege: bool,
    /// Answers 0xD5 to On when it is on, and to Off when it is off.
    pub refuses_already: bool,
    /// Forgets boot flags that no chassis command follows within this time (28.13).
    pub boot_flags_last: Duration,
    /// How long a cold reset takes.
    pub restart_takes: Duration,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            answers_ping: false,
            lists_suites: true,
            strict_sequence: false,
            wrong_password: Refusal::Status,
            unknown_user: Refusal::Status,
            echoes_privilege: true,
            refuses_already: false,
            boot_flags_last: Duration::from_secs(60),
            restart_takes: Duration::from_secs(5),
        }
    }
}

#[derive(Clone, Debug)]
pub struct IpmiConfig {
    /// Its users; the first has id 2, as the first of a real BMC that has a name.
    pub users: Vec<User>,
    /// The cipher suites that it allows.
    pub suites: Vec<Suite>,
    /// K_g, if it has one.
    pub kg: Option<SecretSlice<u8>>,
    /// System GUID as it stands on the wire.
    pub guid: [u8; 16],
    /// Who made it.
    pub product: Product,
    pub sensors: Vec<Sensor>,
    /// How many sessions there may be, half-open ones included.
    pub session_limit: usize,
    /// How long a session may be idle.
    pub session_idle: Duration,
    /// How long setting one up may take.
    pub setup_limit: Duration,
    pub behaviour: Behaviour,
    /// Where its session ids and random numbers come from. Not for secrets.
    pub seed: u64,
    /// Its clock at the start, in seconds since 1970.
    pub clock: u32,
}

impl Default for IpmiConfig {
    fn default() -> Self {
        Self {
            users: vec![User::new("admin", "secret", Privilege::Administrator)],
            suites: Suite::ALL.to_vec(),
            kg: None,
            guid: *b"\x01\x23\x45\x67\x89\xab\x4d\xef\x81\x23\x45\x67\x89\xab\xcd\xef",
            product: Product::default(),
            sensors: Sensor::usual(),
            session_limit: 8,
            session_idle: Duration::from_secs(60),
            setup_limit: Duration::from_secs(10),
            behaviour: Behaviour::default(),
            seed: 1,
            clock: 1_780_000_000,
        }
    }
}

impl IpmiConfig {
    /// The IPMI BMC of a host of the rack: its UUID and serial, and the user of its Redfish BMC.
    pub fn of_host(host: &HostConfig) -> Self {
        let mut config = Self::default();
        config.guid = guid_of(&host.uuid).unwrap_or(config.guid);
        config.product.serial.clone_from(&host.serial);
        config.users = vec![User {
            name: host.bmc.username.clone(),
            password: host.bmc.password.clone(),
            limit: Privilege::Administrator,
            enabled: true,
        }];
        config
    }
}

/// A UUID as most BMCs send it: in SMBIOS order, the first three fields little-endian.
pub fn guid_of(uuid: &str) -> Option<[u8; 16]> {
    let uuid = uuid::Uuid::parse_str(uuid).ok()?;
    Some(uuid.to_bytes_le())
}
