//! Connection settings, and the client for an address of any scheme.

use std::{fmt, net::IpAddr, time::Duration};

use secrecy::SecretString;

#[cfg(feature = "ipmi")]
use crate::ipmi;
#[cfg(feature = "redfish")]
use crate::redfish;
use crate::{Bmc, BmcAddress, BmcError, Protocol};

/// How to log in to a BMC. `Debug` shows no secret.
#[derive(Clone)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: SecretString,
    /// The IPMI key K_g, for BMCs with two-key log-in. Redfish has none.
    pub kg: Option<SecretString>,
}

impl Credentials {
    /// Creates credentials from a user name and a password.
    pub fn new(username: impl Into<String>, password: impl Into<SecretString>) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
            kg: None,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Connection settings. A client ignores those of the other protocol.
///
/// [`redfish::RedfishConfig`](crate::redfish::RedfishConfig) and
/// [`ipmi::IpmiConfig`](crate::ipmi::IpmiConfig) have every setting of one protocol.
#[derive(Debug, Clone)]
pub struct Options {
    /// IP addresses that the caller has resolved; the client connects to no others. Empty: the
    /// client resolves the host name.
    pub resolved: Vec<IpAddr>,
    /// Time limit for connecting, handshake included.
    pub connect_timeout: Duration,
    /// Time limit for one call of [`Bmc`].
    pub call_timeout: Duration,
    /// The system UUID that the BMC reports identifies nothing: readings and identity have none.
    pub ignore_system_uuid: bool,
    /// Redfish: which certificate is accepted.
    #[cfg(feature = "redfish")]
    pub trust: redfish::Trust,
    /// Redfish: session or HTTP Basic.
    #[cfg(feature = "redfish")]
    pub auth: redfish::AuthPolicy,
    /// Redfish: keep the connection for the next read.
    #[cfg(feature = "redfish")]
    pub keep_alive: redfish::KeepAlive,
    /// Redfish: a soft power-off may push the power button where the BMC has no graceful shutdown.
    #[cfg(feature = "redfish")]
    pub soft_off_by_button: bool,
    /// IPMI: which cipher suites may be used.
    #[cfg(feature = "ipmi")]
    pub cipher_suite: ipmi::SuiteChoice,
    /// IPMI: minimum time from the end of one command to the next.
    #[cfg(feature = "ipmi")]
    pub min_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            resolved: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(20),
            ignore_system_uuid: false,
            #[cfg(feature = "redfish")]
            trust: redfish::Trust::default(),
            #[cfg(feature = "redfish")]
            auth: redfish::AuthPolicy::default(),
            #[cfg(feature = "redfish")]
            keep_alive: redfish::KeepAlive::default(),
            #[cfg(feature = "redfish")]
            soft_off_by_button: false,
            #[cfg(feature = "ipmi")]
            cipher_suite: ipmi::SuiteChoice::default(),
            #[cfg(feature = "ipmi")]
            min_interval: Duration::ZERO,
        }
    }
}

/// Creates a client for one BMC; the scheme of the address chooses the protocol.
///
/// Nothing is sent before the first call of [`Bmc`]. The calls need a tokio runtime.
///
/// # Errors
///
/// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration): the settings cannot be used, such as a password that is longer
/// than IPMI allows or a CA bundle without a certificate, or the crate was built without the
/// feature of the protocol.
#[cfg_attr(
    not(any(feature = "redfish", feature = "ipmi")),
    expect(
        unused_variables,
        clippy::needless_pass_by_value,
        reason = "without a protocol every address is refused"
    )
)]
pub fn connect(
    address: BmcAddress,
    credentials: Credentials,
    options: Options,
) -> Result<Box<dyn Bmc>, BmcError> {
    match address.protocol() {
        #[cfg(feature = "redfish")]
        Protocol::Redfish => {
            let Credentials {
                username, password, ..
            } = credentials;
            let config = redfish::RedfishConfig {
                resolved: options.resolved,
                ignore_system_uuid: options.ignore_system_uuid,
                trust: options.trust,
                auth: options.auth,
                keep_alive: options.keep_alive,
                soft_off_by_button: options.soft_off_by_button,
                timeouts: redfish::Timeouts {
                    connect: options.connect_timeout,
                    request: options.call_timeout,
                    call: options.call_timeout,
                    ..redfish::Timeouts::default()
                },
                ..redfish::RedfishConfig::new(address, username, password)
            };
            redfish::connect(config)
        }
        #[cfg(feature = "ipmi")]
        Protocol::Ipmi => {
            let Credentials {
                username,
                password,
                kg,
            } = credentials;
            let config = ipmi::IpmiConfig {
                resolved: options.resolved,
                ignore_system_uuid: options.ignore_system_uuid,
                kg,
                suite: options.cipher_suite,
                min_interval: options.min_interval,
                timeouts: ipmi::Timeouts {
                    connect: options.connect_timeout,
                    call: options.call_timeout,
                },
                ..ipmi::IpmiConfig::new(address, username, password)
            };
            ipmi::connect(config)
        }
        #[cfg(not(all(feature = "redfish", feature = "ipmi")))]
        protocol => Err(without_feature(&address, protocol)),
    }
}

#[cfg(not(all(feature = "redfish", feature = "ipmi")))]
fn without_feature(address: &BmcAddress, protocol: Protocol) -> BmcError {
    let feature = match protocol {
        Protocol::Redfish => "redfish",
        Protocol::Ipmi => "ipmi",
    };
    BmcError {
        kind: crate::ErrorKind::Configuration,
        bmc: address.to_string(),
        message: format!("rackhand-bmc was built without its feature {feature}"),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_in_result)]
mod tests {
    use super::*;
    #[cfg(all(feature = "redfish", feature = "ipmi"))]
    use crate::ErrorKind;

    fn made(address: &str, password: &str) -> Result<String, BmcError> {
        let address = address.parse().expect("address");
        let client = connect(address, Credentials::new("u", password), Options::default());
        client.map(|bmc| bmc.address().to_owned())
    }

    #[cfg(all(feature = "redfish", feature = "ipmi"))]
    #[test]
    fn scheme_selects_the_protocol() {
        let long = "x".repeat(21);
        let http = "redfish+http://192.0.2.1";
        assert_eq!(made(http, &long).unwrap(), "redfish+http://192.0.2.1:80");
        assert_eq!(
            made("ipmi://192.0.2.1", "p").unwrap(),
            "ipmi://192.0.2.1:623"
        );
        let refused = made("ipmi://192.0.2.1", &long).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Configuration);
        assert!(refused.message.contains("20 bytes"), "{refused}");
    }

    #[cfg(not(feature = "ipmi"))]
    #[test]
    fn protocol_without_its_feature_is_rejected() {
        let refused = made("ipmi://192.0.2.1", "p").unwrap_err();
        assert!(refused.message.contains("feature ipmi"), "{refused}");
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let credentials = Credentials {
            kg: Some("hunter3".into()),
            ..Credentials::new("ops", "hunter2")
        };
        let shown = format!("{credentials:?}");
        assert!(
            shown.contains("ops") && !shown.contains("hunter"),
            "{shown}"
        );
    }
}
