//! The configuration file as it is written; see `Config` for what it means.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use rackhand_bmc::{
    AuthPolicy,
    ipmi::{self, SuiteChoice},
};
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
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) position: Option<String>,
    pub(super) pdu: Option<String>,
    pub(super) bmc: Bmcs,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bmc {
    pub(super) address: String,
    pub(super) username: String,
    pub(super) password_file: PathBuf,
    pub(super) trust: Option<Trust>,
    pub(super) auth: Option<Auth>,
    pub(super) keep_alive: Option<bool>,
    pub(super) soft_off_by_button: Option<bool>,
    pub(super) cipher_suite: Option<Suite>,
    pub(super) kg_file: Option<PathBuf>,
    pub(super) min_interval: Option<Seconds>,
}

/// One BMC, or the drivers of one in their order.
#[derive(Debug)]
pub(super) enum Bmcs {
    One(Box<Bmc>),
    Several(Vec<Bmc>),
}

impl Bmcs {
    /// Each with its place.
    pub(super) fn places(&self) -> Vec<(String, &Bmc)> {
        match self {
            Self::One(bmc) => vec![("bmc".to_owned(), bmc)],
            Self::Several(list) => {
                let places = list.iter().enumerate();
                places.map(|(n, bmc)| (format!("bmc[{n}]"), bmc)).collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Bmcs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Bmcs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a BMC (address, username, password_file), or a list of them")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Bmcs, A::Error> {
                let bmc = Bmc::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Bmcs::One(Box::new(bmc)))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Bmcs, A::Error> {
                let mut list = Vec::new();
                while let Some(bmc) = seq.next_element()? {
                    list.push(bmc);
                }
                Ok(Bmcs::Several(list))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Auth {
    Auto,
    Session,
    Basic,
}

impl From<Auth> for AuthPolicy {
    fn from(auth: Auth) -> Self {
        match auth {
            Auth::Auto => Self::Auto,
            Auth::Session => Self::Session,
            Auth::Basic => Self::Basic,
        }
    }
}

/// A cipher suite as people write it: `auto`, `3` or `17`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suite(pub(super) SuiteChoice);

impl<'de> Deserialize<'de> for Suite {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Suite;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("auto, 3 or 17")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Suite, E> {
                match number {
                    3 => Ok(Suite(SuiteChoice::Only(ipmi::Suite::Cipher3))),
                    17 => Ok(Suite(SuiteChoice::Only(ipmi::Suite::Cipher17))),
                    _ => Err(E::invalid_value(de::Unexpected::Unsigned(number), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Suite, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Suite, E> {
                match text {
                    "auto" => Ok(Suite(SuiteChoice::Auto)),
                    "3" => self.visit_u64(3),
                    "17" => self.visit_u64(17),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
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
