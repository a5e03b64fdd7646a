//! Connection settings of a PDU, resolved at the time of the call: addresses and secrets.
//!
//! Must never: connect outside of the networks that the configuration allows.

use rackhand_bmc::{BmcError, ErrorKind};
use secrecy::SecretString;

use super::super::resolver::Resolver;
use crate::{
    config::{Config, Password, PduAccess, PduEntry, SnmpLogin},
    driver::{PduLogin, PduSpec},
};

/// The settings of a PDU, with its current secrets. Every address of its name must be in the allowed
/// networks, and the driver connects to no other address.
pub(super) async fn spec(
    resolver: &Resolver,
    config: &Config,
    entry: &PduEntry,
) -> Result<PduSpec, BmcError> {
    let endpoint = entry.access.endpoint();
    let login = login(&endpoint, &entry.access).await?;
    let host = entry.access.host();
    let found = resolver.addresses(&host, config.times.connect).await;
    let resolved = found.map_err(|why| BmcError {
        kind: ErrorKind::Unreachable,
        ..fault(&endpoint, format!("its name cannot be resolved: {why}"))
    })?;
    let networks = &config.inventory.networks;
    if let Some(ip) = resolved.iter().find(|ip| !networks.allow(**ip)) {
        let what = format!("{ip} is not in allowed_bmc_networks ({networks}) of this agent");
        return Err(fault(&endpoint, what));
    }
    Ok(PduSpec {
        login,
        resolved,
        connect_timeout: config.times.connect,
        call_timeout: config.times.call,
    })
}

async fn login(endpoint: &str, access: &PduAccess) -> Result<PduLogin, BmcError> {
    Ok(match access {
        PduAccess::Redfish {
            address,
            username,
            password,
            trust,
        } => PduLogin::Redfish {
            address: address.clone(),
            username: username.clone(),
            password: secret(endpoint, password).await?,
            trust: trust.clone(),
        },
        PduAccess::Snmp {
            host,
            port,
            table,
            login: SnmpLogin::V2c { community },
        } => PduLogin::SnmpV2c {
            host: host.clone(),
            port: *port,
            table: *table,
            community: secret(endpoint, community).await?,
        },
        PduAccess::Snmp {
            host,
            port,
            table,
            login:
                SnmpLogin::V3 {
                    username,
                    authentication,
                    password,
                    privacy,
                },
        } => PduLogin::SnmpV3 {
            host: host.clone(),
            port: *port,
            table: *table,
            username: username.clone(),
            authentication: *authentication,
            password: secret(endpoint, password).await?,
            privacy: match privacy {
                Some((protocol, password)) => Some((*protocol, secret(endpoint, password).await?)),
                None => None,
            },
        },
    })
}

async fn secret(endpoint: &str, password: &Password) -> Result<SecretString, BmcError> {
    password.read().await.map_err(|error| {
        let is_transient = error.is_transient();
        let fault = fault(endpoint, error.to_string());
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
    }
}
