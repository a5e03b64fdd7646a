//! Interface to the BMC drivers.
//!
//! Owns: the connection settings of a BMC, and the selection of the driver. Must never: print a
//! password.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use rackhand_bmc::{
    Bmc, BmcAddress, BmcError, Credentials, ErrorKind, Failover, FailoverSettings, Options, Trust,
    connect,
    pdu::{self, Pdu, PduConfig},
};
use secrecy::{ExposeSecret, SecretString};

use crate::config::BmcOptions;

/// Connection settings of one BMC for one driver.
#[derive(Debug, Clone)]
pub struct BmcSpec {
    /// Address of the BMC.
    pub address: BmcAddress,
    /// IP addresses of its host, all of them in the allowed networks; the driver connects to no
    /// others. Empty only before the name is resolved.
    pub resolved: Vec<IpAddr>,
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
    /// The IPMI key K_g, if the BMC has one.
    pub kg: Option<SecretString>,
    /// The system UUID that it reports identifies nothing.
    pub ignore_system_uuid: bool,
    /// How the certificate is verified.
    pub trust: Trust,
    /// Settings of the protocols, such as timeouts and authentication.
    pub options: BmcOptions,
    /// Time limit for connecting, TLS included.
    pub connect_timeout: Duration,
    /// Time limit of one call.
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
            && self.resolved == other.resolved
            && self.username == other.username
            && self.password.expose_secret() == other.password.expose_secret()
            && same_kg
            && self.ignore_system_uuid == other.ignore_system_uuid
            && self.trust == other.trust
            && self.options == other.options
            && self.connect_timeout == other.connect_timeout
            && self.call_timeout == other.call_timeout
    }
}

/// Creates BMC and PDU clients, without contacting the device.
pub trait Driver: Send + Sync + fmt::Debug + 'static {
    /// Creates a client for one BMC with these drivers, in order of preference. May block on the
    /// disk for a moment.
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError>;

    /// Creates a client for one PDU. May block on the disk for a moment.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`]: unusable settings. [`ErrorKind::Unsupported`], unless implemented:
    /// the driver has no PDUs.
    fn connect_pdu(&self, config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
        Err(BmcError {
            kind: ErrorKind::Unsupported,
            ..fault(&config.address.to_string(), "this driver has no PDUs")
        })
    }
}

/// The Redfish and IPMI drivers.
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

    fn connect_pdu(&self, config: PduConfig) -> Result<Arc<dyn Pdu>, BmcError> {
        pdu::connect(config)
    }
}

/// Creates the client of one driver.
fn client(spec: BmcSpec) -> Result<Arc<dyn Bmc>, BmcError> {
    let credentials = Credentials {
        username: spec.username,
        password: spec.password,
        kg: spec.kg,
    };
    let options = Options {
        resolved: spec.resolved,
        connect_timeout: spec.connect_timeout,
        call_timeout: spec.call_timeout,
        ignore_system_uuid: spec.ignore_system_uuid,
        trust: spec.trust,
        auth: spec.options.auth,
        keep_alive: spec.options.keep_alive,
        soft_off_by_button: spec.options.soft_off_by_button,
        cipher_suite: spec.options.cipher_suite,
        min_interval: spec.options.min_interval.unwrap_or_default(),
    };
    connect(spec.address, credentials, options).map(Arc::from)
}

fn fault(bmc: &str, message: &str) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: bmc.to_owned(),
        message: message.to_owned(),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(address: &str) -> BmcSpec {
        BmcSpec {
            address: address.parse().unwrap(),
            resolved: Vec::new(),
            username: "ops".to_owned(),
            password: SecretString::from("secret"),
            kg: None,
            ignore_system_uuid: false,
            trust: Trust::Insecure,
            options: BmcOptions::default(),
            connect_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(2),
        }
    }

    #[test]
    fn specs_with_different_secrets_are_not_equal() {
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
    fn overlong_ipmi_user_and_secrets_fail_before_a_connection() {
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
                "K_g",
            ),
        ] {
            let error = Hardware.connect(vec![wrong]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(error.message.contains(what), "{error}");
            assert!(!error.message.contains("xxx"));
        }
    }

    #[test]
    fn empty_driver_list_is_an_error() {
        let error = Hardware.connect(Vec::new()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
    }
}
