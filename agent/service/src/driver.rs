//! The way to a BMC driver.
//!
//! Owns: what a driver needs to know of a BMC, and which driver speaks to it. Must never: show a
//! password.

use std::{fmt, sync::Arc, time::Duration};

use rackhand_bmc::{
    Bmc, BmcAddress, BmcError, ErrorKind, Failover, FailoverSettings, Protocol, RedfishConfig,
    Timeouts, Trust,
};
use secrecy::{ExposeSecret, SecretString};

use crate::config::BmcOptions;

/// Bytes of a user name in IPMI 2.0 (22.28, Set User Name).
pub(crate) const IPMI_USER_MAX: usize = 16;
/// Bytes of a password (22.30, Set User Password) and of K_g (22.25, Set Channel Security Keys).
pub(crate) const IPMI_SECRET_MAX: usize = 20;

/// Whether it can be a K_g: text, or any bytes as `0x` and 40 hexadecimal digits.
pub(crate) fn is_kg(text: &str) -> bool {
    let digits = text.strip_prefix("0x");
    text.len() <= IPMI_SECRET_MAX
        || digits.is_some_and(|digits| {
            digits.len() == 2 * IPMI_SECRET_MAX && digits.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

/// Everything that is needed to speak to one BMC by one driver.
#[derive(Debug, Clone)]
pub struct BmcSpec {
    /// Where it is.
    pub address: BmcAddress,
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
    /// The IPMI key K_g, where the BMC has one.
    pub kg: Option<SecretString>,
    /// What certificate is believed.
    pub trust: Trust,
    /// How it wants to be spoken to.
    pub options: BmcOptions,
    /// Reaching it, TLS included.
    pub connect_timeout: Duration,
    /// One call, whatever it takes.
    pub call_timeout: Duration,
}

impl PartialEq for BmcSpec {
    fn eq(&self, other: &Self) -> bool {
        let same_kg = match (&self.kg, &other.kg) {
            (Some(kg), Some(other)) => kg.expose_secret() == other.expose_secret(),
            (None, None) => true,
            _ => false,
        };
        self.address == other.address
            && self.username == other.username
            && self.password.expose_secret() == other.password.expose_secret()
            && same_kg
            && self.trust == other.trust
            && self.options == other.options
            && self.connect_timeout == other.connect_timeout
            && self.call_timeout == other.call_timeout
    }
}

/// Makes clients for BMCs. Sends nothing itself.
pub trait Driver: Send + Sync + fmt::Debug + 'static {
    /// A client for one BMC that can be reached in each of these ways, in their order. May block
    /// for a moment on the disk.
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError>;
}

/// The drivers of this project.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hardware;

impl Driver for Hardware {
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        let drivers = specs.into_iter().map(client).collect::<Result<_, _>>()?;
        let settings = FailoverSettings {
            seed: uuid::Uuid::new_v4().as_u64_pair().0,
            ..FailoverSettings::default()
        };
        match Failover::new(drivers, settings) {
            Some(failover) => Ok(Arc::new(failover)),
            None => Err(fault("(none)", "no BMC is configured for this host")),
        }
    }
}

/// The client of one driver.
fn client(spec: BmcSpec) -> Result<Arc<dyn Bmc>, BmcError> {
    match spec.address.protocol() {
        Protocol::Redfish => rackhand_bmc::connect(redfish(spec)).map(Arc::from),
        Protocol::Ipmi => {
            ipmi_limits(&spec)?;
            // Says that it is not an address of Redfish.
            rackhand_bmc::connect(redfish(spec)).map(Arc::from)
        }
    }
}

fn redfish(spec: BmcSpec) -> RedfishConfig {
    let mut config = RedfishConfig::new(spec.address, spec.username, spec.password);
    config.trust = spec.trust;
    config.auth = spec.options.auth;
    config.keep_alive = spec.options.keep_alive;
    config.soft_off_by_button = spec.options.soft_off_by_button;
    config.timeouts = Timeouts {
        connect: spec.connect_timeout,
        request: spec.call_timeout,
        call: spec.call_timeout,
        ..Timeouts::default()
    };
    config
}

/// What IPMI has no room for, in words that name the field and not the secret.
fn ipmi_limits(spec: &BmcSpec) -> Result<(), BmcError> {
    let password = spec.password.expose_secret().len();
    let what = if spec.username.len() > IPMI_USER_MAX {
        format!("the user name is longer than the {IPMI_USER_MAX} bytes that IPMI has room for")
    } else if password > IPMI_SECRET_MAX {
        format!("the password is longer than the {IPMI_SECRET_MAX} bytes that IPMI has room for")
    } else if spec
        .kg
        .as_ref()
        .is_some_and(|kg| !is_kg(kg.expose_secret()))
    {
        "the key K_g is neither 20 bytes at most nor 0x and 40 hexadecimal digits".to_owned()
    } else {
        return Ok(());
    };
    let what = format!("{what}; give this BMC another one");
    Err(fault(&spec.address.to_string(), &what))
}

fn fault(bmc: &str, message: &str) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: bmc.to_owned(),
        message: message.to_owned(),
        retry_after: None,
        maybe_sent: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(address: &str) -> BmcSpec {
        BmcSpec {
            address: address.parse().unwrap(),
            username: "ops".to_owned(),
            password: SecretString::from("secret"),
            kg: None,
            trust: Trust::Insecure,
            options: BmcOptions::default(),
            connect_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(2),
        }
    }

    #[test]
    fn specs_differ_by_their_secrets_too() {
        let one = spec("ipmi://10.0.0.1");
        assert_eq!(one, one.clone());
        let other = BmcSpec {
            kg: Some(SecretString::from("key")),
            ..one.clone()
        };
        assert_ne!(one, other);
        let other = BmcSpec {
            password: SecretString::from("other"),
            ..one.clone()
        };
        assert_ne!(one, other);
        assert!(!format!("{one:?}").contains("secret"));
    }

    #[test]
    fn what_ipmi_has_no_room_for_is_said_before_anything_is_sent() {
        let long = SecretString::from("x".repeat(21));
        for (wrong, what) in [
            (
                BmcSpec {
                    username: "u".repeat(17),
                    ..spec("ipmi://10.0.0.1")
                },
                "user name",
            ),
            (
                BmcSpec {
                    password: long.clone(),
                    ..spec("ipmi://10.0.0.1")
                },
                "password",
            ),
            (
                BmcSpec {
                    kg: Some(long),
                    ..spec("ipmi://10.0.0.1")
                },
                "key K_g",
            ),
        ] {
            let error = Hardware.connect(vec![wrong]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(error.message.contains(what), "{error}");
            assert!(!error.message.contains("xxx"));
        }
    }

    #[test]
    fn no_way_to_a_bmc_is_an_error() {
        let error = Hardware.connect(Vec::new()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
    }
}
