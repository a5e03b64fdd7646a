//! The schema of PDUs, and of the outlets that feed a host.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;
use serde::Deserialize;

use super::{Sources, Trust, duration, secret, sources};

/// A PDU. Without an address only its power-on interval is known, and its outlets cannot be switched.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(in super::super) struct Pdu {
    /// Least time between two power-ons on this PDU; that of `[defaults]` without it. At least one
    /// host must name the PDU.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::super::tests::DurationText>"))]
    pub(in super::super) power_on_interval: Option<Duration>,
    /// `redfish://HOST[:PORT]` or `snmp://HOST[:PORT]`. Required for a PDU with outlets of hosts.
    pub(in super::super) address: Option<String>,
    /// `pdu`, or `chassis` for a chassis manager with Redfish, whose outlets are its chassis: sleds, and
    /// enclosures of several. `pdu` without it.
    #[serde(rename = "type")]
    pub(in super::super) kind: Option<String>,
    /// Chassis: the power in watts that a chassis may draw while it is off, for fans and management, where its
    /// power is measured; 5 without it, at most 1000.
    pub(in super::super) standby_watts: Option<f64>,
    /// Time between the switch-on of two outlets of one host; 0 without it, at most 60 s.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::super::tests::DurationText>"))]
    pub(in super::super) outlet_delay: Option<Duration>,
    /// User at the PDU: Redfish, and SNMP v3.
    pub(in super::super) username: Option<String>,
    /// The password itself: Redfish, and for authentication by SNMP v3. Works, with a warning.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(in super::super) password: Option<SecretString>,
    /// File with the password; one newline at its end is removed. Read at each call.
    pub(in super::super) password_file: Option<PathBuf>,
    /// Name of a systemd credential (`LoadCredential=`).
    pub(in super::super) password_credential: Option<String>,
    /// Program with arguments that writes the password to its standard output within 10 s.
    pub(in super::super) password_command: Option<Vec<String>>,
    /// Redfish: which certificate is accepted.
    pub(in super::super) trust: Option<Trust>,
    /// SNMP: the vendor whose outlet table the PDU has: `apc-rpdu2`, `apc-rpdu` (the first
    /// generation), `raritan`, `servertech` or `eaton`.
    pub(in super::super) table: Option<String>,
    /// SNMP: `v2c` or `v3`. Without it `v3` with a username, and `v2c` otherwise.
    pub(in super::super) version: Option<String>,
    /// SNMP v2c: the community itself. Works, with a warning.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(in super::super) community: Option<SecretString>,
    /// SNMP v2c: file with the community.
    pub(in super::super) community_file: Option<PathBuf>,
    /// SNMP v2c: name of a systemd credential with the community.
    pub(in super::super) community_credential: Option<String>,
    /// SNMP v2c: program with arguments that writes the community.
    pub(in super::super) community_command: Option<Vec<String>>,
    /// SNMP v2c: the community for commands itself; without one `community` is used.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(in super::super) write_community: Option<SecretString>,
    /// SNMP v2c: file with the community for commands.
    pub(in super::super) write_community_file: Option<PathBuf>,
    /// SNMP v2c: name of a systemd credential with the community for commands.
    pub(in super::super) write_community_credential: Option<String>,
    /// SNMP v2c: program with arguments that writes the community for commands.
    pub(in super::super) write_community_command: Option<Vec<String>>,
    /// SNMP v3: `sha1`, `sha256`, `sha384` or `sha512`; `sha256` without it.
    pub(in super::super) auth_protocol: Option<String>,
    /// SNMP v3: `aes128` or `aes256`; `aes128` without it.
    pub(in super::super) privacy_protocol: Option<String>,
    /// SNMP v3: the password for encryption itself. Works, with a warning. Without one nothing is
    /// encrypted.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(in super::super) privacy_password: Option<SecretString>,
    /// SNMP v3: file with the password for encryption.
    pub(in super::super) privacy_password_file: Option<PathBuf>,
    /// SNMP v3: name of a systemd credential with the password for encryption.
    pub(in super::super) privacy_password_credential: Option<String>,
    /// SNMP v3: program with arguments that writes the password for encryption.
    pub(in super::super) privacy_password_command: Option<Vec<String>>,
}

/// An outlet that feeds a host.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(in super::super) struct Outlet {
    /// Name of the PDU, as in `[pdus.NAME]`.
    pub(in super::super) pdu: String,
    /// The outlet at this PDU: its number in the table for SNMP, its id for Redfish, the id of the chassis at a
    /// chassis manager.
    pub(in super::super) outlet: String,
    /// Whether it feeds other hosts too, such as the enclosure of several sleds. Each of them must list it as
    /// shared. It is switched off only while all of them are off.
    #[serde(default)]
    pub(in super::super) shared: bool,
}

impl Pdu {
    /// The sources that are given for the password, with their keys.
    pub(in super::super) fn password_sources(&self) -> Sources<'_> {
        sources(
            [
                "password",
                "password_file",
                "password_credential",
                "password_command",
            ],
            self.password.as_ref(),
            self.password_file.as_deref(),
            self.password_credential.as_deref(),
            self.password_command.as_deref(),
        )
    }

    /// The sources that are given for the community, with their keys.
    pub(in super::super) fn community_sources(&self) -> Sources<'_> {
        sources(
            [
                "community",
                "community_file",
                "community_credential",
                "community_command",
            ],
            self.community.as_ref(),
            self.community_file.as_deref(),
            self.community_credential.as_deref(),
            self.community_command.as_deref(),
        )
    }

    /// The sources that are given for the community for commands, with their keys.
    pub(in super::super) fn write_community_sources(&self) -> Sources<'_> {
        sources(
            [
                "write_community",
                "write_community_file",
                "write_community_credential",
                "write_community_command",
            ],
            self.write_community.as_ref(),
            self.write_community_file.as_deref(),
            self.write_community_credential.as_deref(),
            self.write_community_command.as_deref(),
        )
    }

    /// The sources that are given for the privacy password, with their keys.
    pub(in super::super) fn privacy_sources(&self) -> Sources<'_> {
        sources(
            [
                "privacy_password",
                "privacy_password_file",
                "privacy_password_credential",
                "privacy_password_command",
            ],
            self.privacy_password.as_ref(),
            self.privacy_password_file.as_deref(),
            self.privacy_password_credential.as_deref(),
            self.privacy_password_command.as_deref(),
        )
    }
}
