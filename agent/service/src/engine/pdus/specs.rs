//! Connection settings of a PDU, resolved at the time of the call: addresses and secrets.
//!
//! Must never: connect outside of the networks that the configuration allows.

use rackhand_bmc::{
    BmcError, Credentials, ErrorKind,
    pdu::{PduConfig, PduCredentials, SnmpUser},
};
use secrecy::{ExposeSecret, SecretString};

use super::super::resolver::Resolver;
use crate::config::{Config, Password, PduEntry, PduLogin};

/// Whether two clients with these settings would be the same.
pub(super) fn is_same(one: &PduConfig, other: &PduConfig) -> bool {
    // `Debug` shows every setting but the secrets.
    format!("{one:?}") == format!("{other:?}") && secrets(one) == secrets(other)
}

fn secrets(config: &PduConfig) -> [Option<&str>; 2] {
    let (first, second) = match &config.credentials {
        PduCredentials::Password(credentials) => (&credentials.password, None),
        PduCredentials::Community { read, write } => (read, write.as_ref()),
        PduCredentials::User(user) => {
            let privacy = user.privacy.as_ref();
            (&user.auth_password, privacy.map(|(_, password)| password))
        }
    };
    [Some(first), second].map(|secret| secret.map(ExposeSecret::expose_secret))
}

/// The settings of a PDU, with its current secrets. Every address of its name must be in the allowed
/// networks, and the driver connects to no other address.
pub(super) async fn config(
    resolver: &Resolver,
    config: &Config,
    entry: &PduEntry,
) -> Result<PduConfig, BmcError> {
    let address = entry.address.to_string();
    let credentials = credentials(&address, &entry.login).await?;
    let host = entry.address.host();
    let found = resolver.addresses(&host, config.times.connect).await;
    let resolved = found.map_err(|why| BmcError {
        kind: ErrorKind::Unreachable,
        ..fault(&address, format!("its name cannot be resolved: {why}"))
    })?;
    let networks = &config.inventory.networks;
    if let Some(ip) = resolved.iter().find(|ip| !networks.allow(**ip)) {
        let what = format!("{ip} is not in allowed_bmc_networks ({networks}) of this agent");
        return Err(fault(&address, what));
    }
    let mut settings = PduConfig {
        resolved,
        connect_timeout: config.times.connect,
        call_timeout: config.times.call,
        chassis_standby_watts: entry.chassis_standby_watts,
        ..PduConfig::new(entry.address.clone(), credentials)
    };
    match &entry.login {
        PduLogin::Redfish { trust, .. } => settings.trust = trust.clone(),
        PduLogin::SnmpV2c { table, .. } | PduLogin::SnmpV3 { table, .. } => {
            settings.table = Some(*table);
        }
    }
    Ok(settings)
}

async fn credentials(address: &str, login: &PduLogin) -> Result<PduCredentials, BmcError> {
    Ok(match login {
        PduLogin::Redfish {
            username, password, ..
        } => {
            let password = secret(address, password).await?;
            PduCredentials::Password(Credentials::new(username, password))
        }
        PduLogin::SnmpV2c {
            community,
            write_community,
            ..
        } => PduCredentials::Community {
            read: secret(address, community).await?,
            write: match write_community {
                Some(community) => Some(secret(address, community).await?),
                None => None,
            },
        },
        PduLogin::SnmpV3 {
            username,
            auth,
            password,
            privacy,
            ..
        } => PduCredentials::User(SnmpUser {
            username: username.clone(),
            auth: *auth,
            auth_password: secret(address, password).await?,
            privacy: match privacy {
                Some((protocol, password)) => Some((*protocol, secret(address, password).await?)),
                None => None,
            },
        }),
    })
}

async fn secret(address: &str, password: &Password) -> Result<SecretString, BmcError> {
    password.read().await.map_err(|error| {
        let is_transient = error.is_transient();
        let fault = fault(address, error.to_string());
        BmcError {
            kind: match is_transient {
                true => ErrorKind::Busy,
                false => fault.kind,
            },
            ..fault
        }
    })
}

pub(super) fn fault(address: &str, message: String) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: address.to_owned(),
        message,
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}
