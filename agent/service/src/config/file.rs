//! The configuration file as it is written; see `Config` for what it means.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) rack: String,
    pub(super) listen: Option<String>,
    pub(super) tls: Option<PathBuf>,
    pub(super) socket: PathBuf,
    pub(super) state: PathBuf,
    pub(super) allowed_bmc_networks: Vec<String>,
    #[serde(default)]
    pub(super) accept_endpoints_from_controller: bool,
    #[serde(default)]
    pub(super) defaults: Defaults,
    #[serde(default)]
    pub(super) hosts: Vec<Host>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Defaults {
    pub(super) trust: Option<Trust>,
    pub(super) connect_timeout: Option<Seconds>,
    pub(super) call_timeout: Option<Seconds>,
    pub(super) operation_deadline: Option<Seconds>,
    pub(super) poll_max: Option<Seconds>,
    pub(super) resend_after: Option<Seconds>,
    pub(super) shutdown_grace: Option<Seconds>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) node_name: Option<String>,
    pub(super) provider_id: Option<String>,
    pub(super) system_uuid: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) bmc: Bmc,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bmc {
    pub(super) address: String,
    pub(super) username: String,
    pub(super) password_file: PathBuf,
    pub(super) trust: Option<Trust>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Trust {
    pub(super) ca_file: Option<PathBuf>,
    pub(super) sha256: Option<String>,
    pub(super) insecure: bool,
}

/// A time as people write it: `5s`, `1m 30s`, `250ms`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds(pub(super) Duration);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Seconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as 5s, 250ms or 2m")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Seconds, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                let parsed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
                Duration::try_from(parsed).map(Seconds).map_err(|_| wrong())
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
