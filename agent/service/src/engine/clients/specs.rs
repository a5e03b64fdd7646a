//! How a BMC is reached just now: addresses, names, secrets.
//!
//! Must never lead out of the networks that the configuration allows.

use std::{net::IpAddr, time::Duration};

use rackhand_bmc::{BmcAddress, BmcError, ErrorKind, Trust};
use secrecy::SecretString;
use tokio::time::timeout;

use super::super::target::{Access, Target};
use crate::{
    config::{BmcEntry, BmcOptions, Config, PasswordError},
    driver::BmcSpec,
};

/// Every way to the BMC, in their order.
pub(super) async fn specs(target: &Target) -> Result<Vec<BmcSpec>, BmcError> {
    let times = &target.config.times;
    let host = match &target.access {
        Access::Inventory(host) => host,
        Access::Sent {
            username,
            password,
            insecure,
        } => {
            let trust = if *insecure {
                Trust::Insecure
            } else {
                target.config.inventory.default_trust.clone()
            };
            return Ok(vec![BmcSpec {
                address: target.address.clone(),
                username: username.clone(),
                password: password.clone(),
                kg: None,
                trust,
                options: BmcOptions::default(),
                connect_timeout: times.connect,
                call_timeout: times.call,
            }]);
        }
    };
    let count = host.bmcs().count();
    // Together they take no longer than one call may.
    let share = times.call / u32::try_from(count).unwrap_or(u32::MAX).max(1);
    let mut specs = Vec::with_capacity(count);
    for bmc in host.bmcs() {
        let (password, kg) = secrets(bmc).await?;
        specs.push(BmcSpec {
            address: bmc.address.clone(),
            username: bmc.username.clone(),
            password,
            kg,
            trust: bmc.trust.clone(),
            options: bmc.options.clone(),
            connect_timeout: times.connect.min(share),
            call_timeout: share,
        });
    }
    Ok(specs)
}

/// An agent touches only BMCs in its networks. All addresses of a name must lie in them.
pub(super) async fn check_network(config: &Config, address: &BmcAddress) -> Result<(), BmcError> {
    let host = address.host();
    let ips: Vec<IpAddr> = match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) => {
            let found = tokio::net::lookup_host((host.as_str(), address.port()));
            match timeout(config.times.connect, found).await {
                Ok(Ok(found)) => found.map(|socket| socket.ip()).collect(),
                Ok(Err(error)) => return Err(unresolved(address, &error.to_string())),
                Err(_) => return Err(unresolved(address, "no answer in time")),
            }
        }
    };
    let networks = &config.inventory.networks;
    match ips.iter().find(|ip| !networks.allow(**ip)) {
        None => Ok(()),
        Some(ip) => Err(fault(
            address,
            format!("{ip} is not in allowed_bmc_networks ({networks}) of this agent"),
        )),
    }
}

/// Password and K_g of an entry, as they are now.
async fn secrets(bmc: &BmcEntry) -> Result<(SecretString, Option<SecretString>), BmcError> {
    let failed = |error: PasswordError| fault(&bmc.address, error.to_string());
    let kg = match &bmc.kg {
        Some(kg) => Some(kg.read().await.map_err(failed)?),
        None => None,
    };
    Ok((bmc.password.read().await.map_err(failed)?, kg))
}

pub(super) fn late(address: &BmcAddress, after: Duration, maybe_sent: bool) -> BmcError {
    BmcError {
        kind: ErrorKind::Timeout,
        bmc: address.to_string(),
        message: format!("no answer within {after:?}"),
        retry_after: None,
        maybe_sent,
    }
}

pub(super) fn fault(address: &BmcAddress, message: String) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
    }
}

fn unresolved(address: &BmcAddress, reason: &str) -> BmcError {
    BmcError {
        kind: ErrorKind::Unreachable,
        bmc: address.to_string(),
        message: format!("its name cannot be resolved: {reason}"),
        retry_after: None,
        maybe_sent: false,
    }
}
