//! The schema of the configuration files; see `Config` for the validated form.

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

/// The configuration file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) rack: String,
    pub(super) listen: Option<String>,
    pub(super) tls: Option<PathBuf>,
    pub(super) socket: PathBuf,
    pub(super) state: PathBuf,
    pub(super) admin_listen: Option<String>,
    pub(super) allowed_bmc_networks: Vec<String>,
    #[serde(default)]
    pub(super) accept_endpoints_from_controller: bool,
    #[serde(default)]
    pub(super) accept_insecure_endpoints_from_controller: bool,
    #[serde(default)]
    pub(super) inventory: Vec<PathBuf>,
    #[serde(default)]
    pub(super) defaults: Defaults,
    #[serde(default)]
    pub(super) pdus: BTreeMap<String, Pdu>,
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
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct Defaults {
    pub(super) trust: Option<Trust>,
    #[serde(deserialize_with = "duration")]
    pub(super) connect_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) call_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) operation_deadline: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) poll_max: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) resend_after: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) shutdown_grace: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) power_on_interval: Option<Duration>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Pdu {
    #[serde(default, deserialize_with = "duration")]
    pub(super) power_on_interval: Option<Duration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) node_name: Option<String>,
    pub(super) provider_id: Option<String>,
    pub(super) system_uuid: Option<String>,
    pub(super) serial: Option<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) position: Option<String>,
    pub(super) pdu: Option<String>,
    /// Its drivers in their order.
    #[serde(default, deserialize_with = "one_or_many")]
    pub(super) bmc: Vec<Bmc>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Bmc {
    pub(super) address: String,
    pub(super) username: String,
    #[serde(default, deserialize_with = "secret")]
    pub(super) password: Option<SecretString>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) password_credential: Option<String>,
    pub(super) password_command: Option<Vec<String>>,
    pub(super) trust: Option<Trust>,
    pub(super) auth: Option<String>,
    pub(super) keep_alive: Option<bool>,
    pub(super) soft_off_by_button: Option<bool>,
    pub(super) cipher_suite: Option<toml::Value>,
    #[serde(default, deserialize_with = "secret")]
    pub(super) kg: Option<SecretString>,
    pub(super) kg_file: Option<PathBuf>,
    pub(super) kg_credential: Option<String>,
    pub(super) kg_command: Option<Vec<String>>,
    #[serde(default, deserialize_with = "duration")]
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
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub(super) struct Trust {
    pub(super) ca_file: Option<PathBuf>,
    pub(super) sha256: Option<String>,
    pub(super) insecure: bool,
}

impl Bmc {
    /// The sources that are given for the password, with their keys.
    pub(super) fn password_sources(&self) -> Vec<(&'static str, Source<'_>)> {
        let inline = self.password.as_ref().map(Source::Inline);
        let file = self.password_file.as_deref().map(Source::File);
        let credential = self.password_credential.as_deref().map(Source::Credential);
        let command = self.password_command.as_deref().map(Source::Command);
        given([
            ("password", inline),
            ("password_file", file),
            ("password_credential", credential),
            ("password_command", command),
        ])
    }

    /// The sources that are given for the IPMI key K_g, with their keys.
    pub(super) fn kg_sources(&self) -> Vec<(&'static str, Source<'_>)> {
        let inline = self.kg.as_ref().map(Source::Inline);
        let file = self.kg_file.as_deref().map(Source::File);
        let credential = self.kg_credential.as_deref().map(Source::Credential);
        let command = self.kg_command.as_deref().map(Source::Command);
        given([
            ("kg", inline),
            ("kg_file", file),
            ("kg_credential", credential),
            ("kg_command", command),
        ])
    }
}

fn given<'a>(sources: [(&'static str, Option<Source<'a>>); 4]) -> Vec<(&'static str, Source<'a>)> {
    let given = sources.into_iter();
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
