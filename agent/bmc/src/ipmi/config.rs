//! What one BMC needs to be reached.
//!
//! Owns: settings, their defaults and their limits. Must never: print a secret.

use std::{net::IpAddr, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use super::wire::Suite;
use crate::{BmcAddress, BmcError, ErrorKind, Protocol};

/// Longest user name, in bytes (IPMI 2.0, table 13-11).
pub const MAX_USER: usize = 16;
/// Longest password and longest K_g, in bytes (IPMI 2.0, tables 22-29 and 22-30).
pub const MAX_KEY: usize = 20;

/// Which cipher suites may be used. Nothing weaker than suite 3 is ever proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SuiteChoice {
    /// Suite 17, and suite 3 where the BMC refuses 17. What worked is remembered per client.
    #[default]
    Auto,
    /// This one only.
    Only(Suite),
}

/// Limits of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Finding the name, and again the handshake from its first packet to its last.
    pub connect: Duration,
    /// One call of [`Bmc`](crate::Bmc), whatever it takes; four times that for what reads a record
    /// at a time (identity, sensors, event log).
    pub call: Duration,
}

impl Default for Timeouts {
    /// A BMC under load takes seconds for a handshake; 20 s is what ipmitool gives a command.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            call: Duration::from_secs(20),
        }
    }
}

/// When a packet without an answer goes out again. Each wait is twice the one before.
///
/// On a session that was kept, the first wait is half as long: a BMC that has lost its sessions
/// is silent, and two silent tries begin a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
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

/// One IPMI BMC.
#[derive(Debug, Clone)]
pub struct IpmiConfig {
    /// Where it is. Its `privilegelevel` is the most that a session asks for; what is asked for
    /// is what the command needs, and OPERATOR at least where that is allowed, so that one
    /// session serves status and power.
    pub address: BmcAddress,
    /// The IP addresses of its host, where the caller has looked them up: only these are spoken
    /// to, and no name is resolved. Empty: the client resolves the name.
    pub resolved: Vec<IpAddr>,
    /// User name, 16 bytes at most.
    pub username: String,
    /// Password, 20 bytes at most; never shown.
    pub password: SecretString,
    /// The BMC key K_g, for BMCs with two-key log-in: 20 bytes at most, or `0x` and 40
    /// hexadecimal digits; never shown.
    pub kg: Option<SecretString>,
    /// Cipher suites that may be used.
    pub suite: SuiteChoice,
    /// Time from the end of one call to the beginning of the next. None by default; a BMC that
    /// hangs under a fast row of commands may need 5 s, which is Ironic's setting for all.
    pub min_interval: Duration,
    /// Limits of time.
    pub timeouts: Timeouts,
    /// When a packet goes out again.
    pub retransmission: Retransmission,
    /// How long a session is kept after its last use. BMCs end an idle session after 60 s
    /// (IPMI 2.0, section 6.12.15); most have room for few.
    pub idle: Duration,
}

impl IpmiConfig {
    /// Settings with every default.
    pub fn new(address: BmcAddress, username: impl Into<String>, password: SecretString) -> Self {
        Self {
            address,
            resolved: Vec::new(),
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

    /// Checks what can be checked without the BMC.
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
        })
    }

    /// K_g as bytes, empty where there is none; `None` if it is not one.
    pub(super) fn kg_bytes(&self) -> Option<Zeroizing<Vec<u8>>> {
        kg(self.kg.as_ref().map_or("", |kg| kg.expose_secret()))
    }
}

/// Whether a text can be a K_g: 20 bytes at most, or any 20 bytes as `0x` and 40 hexadecimal
/// digits.
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
