//! Configuration of a simulated IPMI BMC: users, cipher suites, identity.
//!
//! Owns: the defaults: a BMC that follows the specification, with one administrator. Must never:
//! print a password or K_g.

use std::time::Duration;

use rackhand_bmc::ipmi::wire::Suite;
use secrecy::{SecretSlice, SecretString};

use crate::rack::{GuidSource, HostConfig};

/// Privilege levels (IPMI 2.0, section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Privilege {
    /// May open a session only.
    Callback = 1,
    User = 2,
    /// May switch power.
    Operator = 3,
    /// May restart the BMC.
    Administrator = 4,
}

impl Privilege {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
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
    /// Name, at most 16 bytes.
    pub name: String,
    /// Password, at most 20 bytes.
    pub password: SecretString,
    /// The highest privilege of this user's sessions.
    pub limit: Privilege,
}

impl User {
    pub fn new(name: &str, password: &str, limit: Privilege) -> Self {
        Self {
            name: name.to_owned(),
            password: SecretString::from(password),
            limit,
        }
    }
}

#[derive(Clone, Debug)]
pub struct IpmiConfig {
    pub users: Vec<User>,
    /// Cipher suites that the simulated BMC accepts.
    pub suites: Vec<Suite>,
    /// K_g; `None`: not configured.
    pub kg: Option<SecretSlice<u8>>,
    /// System GUID in wire format.
    pub guid: [u8; 16],
    /// Serial number of product and board.
    pub serial: String,
    /// Maximum number of sessions, including half-open ones.
    pub session_limit: usize,
    /// Time limit for opening a session.
    pub setup_limit: Duration,
    /// Whether to drop a session sequence number that was received before, or is far from the last.
    /// Some BMCs do not, and execute the same datagram twice.
    pub strict_sequence: bool,
    /// Completion code of a command for the state that the BMC already assumes; `None`: success.
    pub already: Option<u8>,
    /// Whether the BMC supports upgrades by HPM.1, and reports an update of firmware as one.
    pub hpm: bool,
    /// Whether a refusal in RAKP message 2 has tag and console session id 0 (OpenBMC).
    pub refuses_with_tag_zero: bool,
    /// Whether a payload that is aligned already is padded by a whole block (OpenBMC).
    pub pads_whole_blocks: bool,
    /// Seed of session ids and random numbers. Not for secrets.
    pub seed: u64,
    /// Clock at the start, in seconds since 1970.
    pub clock: u32,
}

impl Default for IpmiConfig {
    fn default() -> Self {
        Self {
            users: vec![User::new("admin", "secret", Privilege::Administrator)],
            suites: Suite::ALL.to_vec(),
            kg: None,
            guid: *b"\x01\x23\x45\x67\x89\xab\x4d\xef\x81\x23\x45\x67\x89\xab\xcd\xef",
            serial: "SIM-1".to_owned(),
            session_limit: 8,
            setup_limit: Duration::from_secs(10),
            strict_sequence: false,
            already: None,
            hpm: false,
            refuses_with_tag_zero: false,
            pads_whole_blocks: false,
            seed: 1,
            clock: 1_780_000_000,
        }
    }
}

/// The GUID of every OpenBMC that finds no UUID on its bus.
pub const CANNED_GUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

impl IpmiConfig {
    /// A BMC with the habits of OpenBMC (phosphor-net-ipmid).
    pub fn openbmc() -> Self {
        Self {
            guid: CANNED_GUID,
            refuses_with_tag_zero: true,
            pads_whole_blocks: true,
            ..Self::default()
        }
    }

    /// The IPMI BMC of a host of the rack: with its UUID and serial number, and the account of its
    /// Redfish BMC.
    pub fn of_host(host: &HostConfig) -> Self {
        let mut config = Self::default();
        config.guid = match host.bmc.guid {
            GuidSource::System => guid_of(&host.uuid).unwrap_or(config.guid),
            GuidSource::NewAtStart => uuid::Uuid::new_v4().into_bytes(),
            GuidSource::Canned => std::array::from_fn(|i| u8::try_from(i + 1).unwrap_or(u8::MAX)),
        };
        config.serial.clone_from(&host.serial);
        config.hpm = host.bmc.hpm;
        config.users = vec![User {
            name: host.bmc.username.clone(),
            password: host.bmc.password.clone(),
            limit: Privilege::Administrator,
        }];
        config
    }
}

/// A UUID as most BMCs send it: in SMBIOS order, with the first three fields little-endian.
pub fn guid_of(uuid: &str) -> Option<[u8; 16]> {
    let uuid = uuid::Uuid::parse_str(uuid).ok()?;
    Some(uuid.to_bytes_le())
}
