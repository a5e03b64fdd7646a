//! The schema of the configuration files; see `Config` for the validated form.

mod pdu;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use secrecy::SecretString;
use serde::{
    Deserialize, Deserializer,
    de::{self, value},
};

use super::decode::duration;
pub(super) use pdu::{Outlet, Pdu};

/// The configuration file.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Name of the rack; the certificate must name the same. 1 to 63 letters, digits, `.`, `-`,
    /// `_`.
    pub(super) rack: String,
    /// Address and port for remote callers, over mTLS. Without it only the socket is served.
    pub(super) listen: Option<String>,
    /// Directory with `tls.crt`, `tls.key`, `ca.crt` and optionally `crl.pem`. Required with
    /// `listen`.
    pub(super) tls: Option<PathBuf>,
    /// Path of the local socket, mode 0660, owned by the agent's group. The journal records who
    /// used it by user id (`local:1000`).
    pub(super) socket: PathBuf,
    /// Directory of the journal.
    pub(super) state: PathBuf,
    /// Address and port of `/livez`, `/readyz` and `/metrics` over plain HTTP. Use a loopback
    /// address.
    pub(super) admin_listen: Option<String>,
    /// URL of an OTLP receiver by gRPC, such as `http://collector:4317`, to which trace spans are exported.
    /// Without it none are.
    pub(super) otlp_endpoint: Option<String>,
    /// Networks of the BMCs and PDUs. The agent connects to no other address, whoever asks.
    pub(super) allowed_bmc_networks: Vec<String>,
    /// A controller may send address and password of a BMC that is not in the inventory.
    #[serde(default)]
    pub(super) accept_endpoints_from_controller: bool,
    /// Such a BMC may use plain HTTP or an unverified certificate
    /// (`disableCertificateVerification`).
    #[serde(default)]
    pub(super) accept_insecure_endpoints_from_controller: bool,
    /// Files and directories with further hosts.
    #[serde(default)]
    pub(super) inventory: Vec<PathBuf>,
    /// Defaults of all hosts.
    #[serde(default)]
    pub(super) defaults: Defaults,
    /// PDUs by name.
    #[serde(default)]
    pub(super) pdus: BTreeMap<String, Pdu>,
    /// Hosts of the inventory.
    #[serde(default)]
    pub(super) hosts: Vec<Host>,
}

/// An inventory file in TOML.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InventoryFile {
    #[serde(default)]
    pub(super) hosts: Vec<Host>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct Defaults {
    /// Which certificates of BMCs are accepted; the system's roots without it.
    pub(super) trust: Option<Trust>,
    /// Time to connect to a BMC, TLS included.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) connect_timeout: Option<Duration>,
    /// Time of one call to a BMC, shared by all drivers of the host.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) call_timeout: Option<Duration>,
    /// Deadline of an operation for which the caller gives none.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) operation_deadline: Option<Duration>,
    /// Longest interval between two readings while an operation waits.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) poll_max: Option<Duration>,
    /// Longest interval between two readings of the power of a host that a controller watches: 5 s to 10 min. With
    /// more than 10 s no lost power is signalled, because a BMC could restart unnoticed in between.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) watch_interval: Option<Duration>,
    /// When off or on is sent again if it had no effect.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) resend_after: Option<Duration>,
    /// How long running operations may continue when the agent is stopped.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) shutdown_grace: Option<Duration>,
    /// Least time between two power-ons on one PDU. `"0s"` switches it off; at most 60 s.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) power_on_interval: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Host {
    /// Name of the host in this inventory.
    pub(super) name: String,
    /// Its Kubernetes Node, if that has another name.
    pub(super) node_name: Option<String>,
    /// The cluster of its Node: `namespace/name` of its Cluster, or `local` for the management cluster.
    /// Required where two clusters have a Node of this name.
    pub(super) cluster: Option<String>,
    /// Its provider id in Kubernetes.
    pub(super) provider_id: Option<String>,
    /// SMBIOS system UUID. The BMC must report the same. `none`: the UUID that this BMC reports is not that
    /// of the host, and is ignored; a wrong BMC address is then noticed only by the serial number, or by a
    /// Node that goes on renewing its Lease.
    pub(super) system_uuid: Option<String>,
    /// Serial number. The BMC must report the same.
    pub(super) serial: Option<String>,
    /// Labels for selection. `name`, `node`, `rack`, `position` and `pdu` are reserved.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    /// Position in the rack.
    pub(super) position: Option<String>,
    /// The PDU that feeds it. Hosts of one PDU are switched on one after the other; without it those that
    /// have their first outlet at one PDU.
    pub(super) pdu: Option<String>,
    /// Every outlet that feeds it, in the order in which they are switched on. Needed to switch the host
    /// by its outlets; a host is off only if all of them are.
    #[serde(default)]
    pub(super) outlets: Vec<Outlet>,
    /// Largest power that all outlets carry together while the host is off, in watts: what its model draws in
    /// standby. Outlets that carry no more prove that the host is off where its BMC cannot.
    pub(super) standby_watts: Option<f64>,
    /// As in `[defaults]`, for a BMC that fails under readings that are this frequent.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) watch_interval: Option<Duration>,
    /// Its BMC, or a list of drivers of one BMC in the order in which they are used. Required.
    #[serde(default, deserialize_with = "one_or_many")]
    pub(super) bmc: Vec<Bmc>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Bmc {
    /// Address of the BMC, as in a BareMetalHost.
    pub(super) address: String,
    /// User at the BMC; at most 16 bytes for IPMI.
    pub(super) username: String,
    /// The password itself. Works, with a warning.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) password: Option<SecretString>,
    /// File with the password; one newline at its end is removed. Read at each call.
    pub(super) password_file: Option<PathBuf>,
    /// Name of a systemd credential (`LoadCredential=`).
    pub(super) password_credential: Option<String>,
    /// Program with arguments that writes the password to its standard output within 10 s. The
    /// result is used for a minute, and the program is run again when a BMC refused the password.
    pub(super) password_command: Option<Vec<String>>,
    /// Redfish: which certificate is accepted.
    pub(super) trust: Option<Trust>,
    /// Redfish: `auto` (a session, or Basic authentication where the BMC provides no sessions),
    /// `session` or `basic`.
    pub(super) auth: Option<String>,
    /// Redfish: keep a connection for the next read. Without it, a connection is kept until the BMC breaks one that
    /// is used again. Commands never use a kept connection.
    pub(super) keep_alive: Option<bool>,
    /// Redfish: a soft off may press the power button where there is no graceful shutdown.
    pub(super) soft_off_by_button: Option<bool>,
    /// IPMI: `"auto"` (17, then 3), 3 or 17. No weaker suite is used.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) cipher_suite: Option<toml::Value>,
    /// IPMI: the BMC's K_g itself, as text or `0x` and 40 hexadecimal digits.
    #[serde(default, deserialize_with = "secret")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) kg: Option<SecretString>,
    /// IPMI: file with the K_g.
    pub(super) kg_file: Option<PathBuf>,
    /// IPMI: name of a systemd credential with the K_g.
    pub(super) kg_credential: Option<String>,
    /// IPMI: program with arguments that writes the K_g.
    pub(super) kg_command: Option<Vec<String>>,
    /// IPMI: least time between two commands, for BMCs that fail under rapid commands.
    #[serde(default, deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "Option<super::tests::DurationText>"))]
    pub(super) min_interval: Option<Duration>,
    /// The file that contains `password`, if it is not the file of the host.
    #[serde(skip)]
    pub(super) password_in: Option<Arc<Path>>,
}

/// The source of a secret.
#[derive(Debug)]
pub(super) enum Source<'a> {
    Inline(&'a SecretString),
    File(&'a Path),
    Credential(&'a str),
    Command(&'a [String]),
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct Trust {
    /// PEM file with the CAs that are accepted.
    pub(super) ca_file: Option<PathBuf>,
    /// Fingerprint of the one certificate that is accepted.
    pub(super) sha256: Option<String>,
    /// Accept any certificate.
    pub(super) insecure: bool,
}

impl Bmc {
    /// The sources that are given for the password, with their keys.
    pub(super) fn password_sources(&self) -> Sources<'_> {
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

    /// The sources that are given for the IPMI key K_g, with their keys.
    pub(super) fn kg_sources(&self) -> Sources<'_> {
        sources(
            ["kg", "kg_file", "kg_credential", "kg_command"],
            self.kg.as_ref(),
            self.kg_file.as_deref(),
            self.kg_credential.as_deref(),
            self.kg_command.as_deref(),
        )
    }
}

/// The sources that are given for one secret, with their keys.
pub(super) type Sources<'a> = Vec<(&'static str, Source<'a>)>;

fn sources<'a>(
    keys: [&'static str; 4],
    inline: Option<&'a SecretString>,
    file: Option<&'a Path>,
    credential: Option<&'a str>,
    command: Option<&'a [String]>,
) -> Sources<'a> {
    let given = [
        inline.map(Source::Inline),
        file.map(Source::File),
        credential.map(Source::Credential),
        command.map(Source::Command),
    ];
    let given = keys.into_iter().zip(given);
    given
        .filter_map(|(key, source)| Some((key, source?)))
        .collect()
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SecretString>, D::Error> {
    String::deserialize(deserializer).map(|text| Some(text.into()))
}

/// Decodes a list of tables, or a single table. An untagged enum would lose the positions of errors.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Bmc>, D::Error> {
    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Vec<Bmc>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table, or a list of tables")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Ok(vec![Bmc::deserialize(value::MapAccessDeserializer::new(
                map,
            ))?])
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(value::SeqAccessDeserializer::new(list))
        }
    }

    deserializer.deserialize_any(Visitor)
}
