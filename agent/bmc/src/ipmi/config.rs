//! Connection settings of one IPMI BMC.
//!
//! Owns: settings, their defaults and their limits. Must never: print a secret.

use std::{net::IpAddr, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::wire::Suite;
use crate::{BmcAddress, BmcError, ErrorKind, Protocol};

/// Maximum length of a user name, in bytes (IPMI 2.0, table 13-11).
pub const MAX_USER: usize = 16;
/// Maximum length of a password and of K_g, in bytes (IPMI 2.0, tables 22-29 and 22-30).
pub const MAX_KEY: usize = 20;

/// Cipher suites that may be used. Nothing weaker than suite 3 is ever proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SuiteChoice {
    /// Suite 17, and suite 3 if the BMC rejects 17. The client remembers the suite that worked.
    #[default]
    Auto,
    /// Offers this cipher suite and no other.
    Only(Suite),
}

/// How long an IPMI session waits for the BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit of name resolution, and separately of the handshake from its first packet to its last.
    pub connect: Duration,
    /// Limit of one call of [`Bmc`](crate::Bmc); four times as long for calls that read many
    /// records (identity, sensors, event log).
    pub call: Duration,
}

impl Default for Timeouts {
    /// A loaded BMC takes seconds for a handshake; 20 s is ipmitool's limit for a command.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
        }
    }
}

/// Intervals at which an unanswered packet is sent again. Each interval is twice the previous one.
///
/// On an existing session the first interval is halved: a BMC that has lost its sessions does not
/// respond, and after two unanswered packets the client opens a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// Wait before the first retransmission.
    pub first: Duration,
    /// Upper bound of the wait, which grows with each retransmission.
    pub most: Duration,
}

impl Default for Retransmission {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            most: Duration::from_secs(4),
        }
    }
}

/// Settings of one IPMI BMC.
#[derive(Debug, Clone)]
pub struct IpmiConfig {
    /// Address of the BMC. Its `privilegelevel` is the maximum that a session requests. A session
    /// requests the privilege that the command needs, but at least OPERATOR if that is allowed, so
    /// that one session serves status and power commands.
    pub address: BmcAddress,
    /// IP addresses that the caller has resolved; the client connects to no others. Empty: the
    /// client resolves the host name.
    pub resolved: Vec<IpAddr>,
    /// The GUID that the BMC reports identifies nothing: readings and identity have no system UUID.
    pub ignore_system_uuid: bool,
    /// User name, at most 16 bytes.
    pub username: String,
    /// Password, at most 20 bytes; never printed.
    pub password: SecretString,
    /// The BMC key K_g, for BMCs with two-key login: at most 20 bytes, or `0x` and 40 hexadecimal
    /// digits; never printed.
    pub kg: Option<SecretString>,
    /// Cipher suites that may be used.
    pub suite: SuiteChoice,
    /// Minimum time from the end of one call to the start of the next; none by default. A BMC that
    /// hangs on rapid commands may need 5 s, which is Ironic's default for every BMC.
    pub min_interval: Duration,
    /// How long the session waits for the BMC.
    pub timeouts: Timeouts,
    /// Intervals at which an unanswered packet is sent again.
    pub retransmission: Retransmission,
    /// Time for which an idle session is kept open. BMCs end an idle session after 60 s (IPMI 2.0,
    /// section 6.12.15), and most support only a few sessions.
    pub idle: Duration,
}

impl IpmiConfig {
    /// Creates settings with defaults.
    pub fn new(address: BmcAddress, username: impl Into<String>, password: SecretString) -> Self {
        Self {
            address,
            resolved: Vec::new(),
            ignore_system_uuid: false,
            username: username.into(),
            password,
            kg: None,
            suite: SuiteChoice::default(),
            min_interval: Duration::ZERO,
            timeouts: Timeouts::default(),
            retransmission: Retransmission::default(),
            idle: Duration::from_secs(30),
        }
    }

    /// Validates the settings without contacting the BMC.
    pub(super) fn check(&self) -> Result<(), BmcError> {
        let wrong = if self.address.protocol() != Protocol::Ipmi {
            "not an IPMI address; use ipmi://"
        } else if self.username.len() > MAX_USER {
            "the user name is longer than 16 bytes, the most that IPMI 2.0 has"
        } else if self.password.expose_secret().len() > MAX_KEY {
            "the password is longer than 20 bytes, the most that IPMI 2.0 has; set a shorter one \
             on the BMC"
        } else if self.kg_bytes().is_none() {
            "K_g is longer than 20 bytes, and not 0x with 40 hexadecimal digits"
        } else {
            return Ok(());
        };
        Err(BmcError {
            kind: ErrorKind::Configuration,
            bmc: self.address.to_string(),
            message: wrong.to_owned(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        })
    }

    /// K_g as bytes, empty if there is none; `None` if it is invalid.
    pub(super) fn kg_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        kg(self.kg.as_ref().map_or("", |kg| kg.expose_secret()))
    }
}

/// Whether a text is a valid K_g: at most 20 bytes, or `0x` and 40 hexadecimal digits for any 20
/// bytes.
pub fn is_kg(text: &str) -> bool {
    kg(text).is_some()
}

fn kg(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() <= MAX_KEY {
        return Some(Zeroizing::new(text.as_bytes().to_vec()));
    }
    let digits = text.strip_prefix("0x")?;
    if digits.len() != 2 * MAX_KEY || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEY));
    for at in (0..digits.len()).step_by(2) {
        bytes.push(u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(address: &str) -> IpmiConfig {
        let address = address.parse().expect("address");
        IpmiConfig::new(address, "admin", "hunter2-hunter2".into())
    }

    fn refusal(config: &IpmiConfig) -> String {
        let error = config.check().expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        error.message
    }

    #[test]
    fn overlong_user_password_and_key_are_rejected() {
        let good = config("ipmi://h");
        assert_eq!(good.check(), Ok(()));
        assert!(refusal(&config("redfish://h")).contains("not an IPMI address"));
        let mut long = good.clone();
        long.username = "seventeen-bytes-x".to_owned();
        assert!(refusal(&long).contains("16 bytes"));
        let mut long = good.clone();
        long.password = "hunter2-hunter2-hunter2".into();
        assert!(refusal(&long).contains("20 bytes"));
        let mut long = good;
        long.kg = Some("hunter2-hunter2-hunter2".into());
        assert!(refusal(&long).contains("K_g"));
    }

    #[test]
    fn kg_is_text_or_20_bytes_in_hexadecimal() {
        let mut config = config("ipmi://h");
        let mut bytes = |text: &str| {
            config.kg = Some(text.into());
            config.kg_bytes().map(|bytes| bytes.to_vec())
        };
        assert_eq!(bytes(""), Some(Vec::new()));
        assert_eq!(bytes("0x12"), Some(b"0x12".to_vec()));
        assert_eq!(bytes(&format!("0x{}", "0a".repeat(20))), Some(vec![10; 20]));
        assert_eq!(bytes(&format!("0x{}", "0a".repeat(19))), None);
        assert_eq!(bytes(&format!("0x{}", "0g".repeat(20))), None);
        assert_eq!(bytes(&format!("0x{}", "é".repeat(20))), None);
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let mut config = config("ipmi://h");
        config.kg = Some("hunter3".into());
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("hunter3"),
            "{shown}"
        );
    }
}
