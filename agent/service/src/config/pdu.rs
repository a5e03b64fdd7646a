//! PDUs of the configuration.

use std::time::Duration;

use rackhand_bmc::{BmcAddress, Trust};

use super::Password;

/// A PDU whose outlets can be switched.
#[derive(Debug, Clone)]
pub struct PduEntry {
    /// Name in the configuration.
    pub name: String,
    /// Where it is, and how to log in.
    pub access: PduAccess,
    /// Time between the switch-on of two outlets of one host.
    pub outlet_delay: Duration,
}

/// Where a PDU is, and how to log in.
#[derive(Debug, Clone)]
pub enum PduAccess {
    /// By Redfish.
    Redfish {
        /// Address of its management card.
        address: BmcAddress,
        /// User name.
        username: String,
        /// Source of the password.
        password: Password,
        /// Which certificate is accepted.
        trust: Trust,
    },
    /// By SNMP.
    Snmp {
        /// Name or IP address of its management card.
        host: String,
        /// UDP port.
        port: u16,
        /// The vendor's table of outlets.
        table: SnmpTable,
        /// How to log in.
        login: SnmpLogin,
    },
}

/// The vendor's table of outlets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnmpTable {
    /// APC.
    Apc,
    /// Raritan.
    Raritan,
    /// Server Technology.
    ServerTech,
    /// Eaton.
    Eaton,
}

impl SnmpTable {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Apc, Self::Raritan, Self::ServerTech, Self::Eaton];

    /// Name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apc => "apc",
            Self::Raritan => "raritan",
            Self::ServerTech => "servertech",
            Self::Eaton => "eaton",
        }
    }
}

/// Authentication of SNMP v3 (RFC 3414, RFC 7860).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnmpAuthentication {
    /// HMAC-MD5-96.
    Md5,
    /// HMAC-SHA-96.
    Sha1,
    /// HMAC-128-SHA-224.
    Sha224,
    /// HMAC-192-SHA-256.
    #[default]
    Sha256,
    /// HMAC-256-SHA-384.
    Sha384,
    /// HMAC-384-SHA-512.
    Sha512,
}

impl SnmpAuthentication {
    /// Names in the configuration.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("sha256", Self::Sha256),
        ("sha1", Self::Sha1),
        ("sha224", Self::Sha224),
        ("sha384", Self::Sha384),
        ("sha512", Self::Sha512),
        ("md5", Self::Md5),
    ];
}

/// Encryption of SNMP v3 (RFC 3414, RFC 3826).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SnmpPrivacy {
    /// CBC-DES.
    Des,
    /// CFB128-AES-128.
    #[default]
    Aes128,
    /// AES-192, as vendors extend the localised key.
    Aes192,
    /// AES-256, as vendors extend the localised key.
    Aes256,
}

impl SnmpPrivacy {
    /// Names in the configuration.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("aes128", Self::Aes128),
        ("aes192", Self::Aes192),
        ("aes256", Self::Aes256),
        ("des", Self::Des),
    ];
}

/// How to log in by SNMP.
#[derive(Debug, Clone)]
pub enum SnmpLogin {
    /// Version 2c, in clear text.
    V2c {
        /// Source of the community, which may write.
        community: Password,
    },
    /// Version 3.
    V3 {
        /// User name.
        username: String,
        /// Protocol of authentication.
        authentication: SnmpAuthentication,
        /// Source of its password.
        password: Password,
        /// Protocol of encryption with the source of its password; `None`: nothing is encrypted.
        privacy: Option<(SnmpPrivacy, Password)>,
    },
}

impl PduAccess {
    /// Protocol, host and port, without credentials.
    pub fn endpoint(&self) -> String {
        match self {
            Self::Redfish { address, .. } => address.endpoint(),
            Self::Snmp { host, port, .. } if host.contains(':') => {
                format!("snmp://[{host}]:{port}")
            }
            Self::Snmp { host, port, .. } => format!("snmp://{host}:{port}"),
        }
    }

    /// Name or IP address of its management card.
    pub fn host(&self) -> String {
        match self {
            Self::Redfish { address, .. } => address.host(),
            Self::Snmp { host, .. } => host.clone(),
        }
    }

    /// The sources of all its secrets.
    pub fn secrets(&self) -> Vec<&Password> {
        match self {
            Self::Redfish { password, .. } => vec![password],
            Self::Snmp { login, .. } => match login {
                SnmpLogin::V2c { community } => vec![community],
                SnmpLogin::V3 {
                    password, privacy, ..
                } => {
                    let privacy = privacy.as_ref().map(|(_, password)| password);
                    std::iter::once(password).chain(privacy).collect()
                }
            },
        }
    }

    /// What makes the access weak, beyond its secrets.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        match self {
            Self::Redfish { address, trust, .. } => {
                let mut warnings = Vec::new();
                if *trust == Trust::Insecure {
                    warnings.push("the PDU's certificate is not verified");
                }
                if !address.is_tls() {
                    warnings.push("the connection to the PDU has no TLS");
                }
                warnings
            }
            Self::Snmp { login, .. } => match login {
                SnmpLogin::V2c { .. } => vec![
                    "SNMP v2c is neither encrypted nor authenticated: whoever can send to the PDU \
                     with its community switches hosts, and can report them off; use v3",
                ],
                SnmpLogin::V3 { privacy: None, .. } => {
                    vec!["SNMP v3 without encryption; give a privacy_password_file"]
                }
                SnmpLogin::V3 { .. } => Vec::new(),
            },
        }
    }
}
