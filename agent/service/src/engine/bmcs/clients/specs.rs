//! Connection settings of a BMC, resolved at the time of the call: addresses and secrets.
//!
//! Must never: connect outside of the networks that the configuration allows.

use std::time::Duration;

use rackhand_bmc::{BmcAddress, BmcError, ErrorKind, Trust};
use secrecy::SecretString;

use crate::{
    config::{BmcEntry, BmcOptions, Config, PasswordError},
    driver::BmcSpec,
    engine::{
        resolver::Resolver,
        target::{Access, Target},
    },
};

/// The settings of every driver of the BMC, in order.
pub(super) async fn specs(target: &Target) -> Result<Vec<BmcSpec>, BmcError> {
    let times = &target.config.times;
    let host = match &target.access {
        Access::Inventory(host) => host,
        Access::Sent {
            username,
            password,
            insecure,
            no_system_uuid,
        } => {
            let trust = if *insecure {
                Trust::Insecure
            } else {
                target.config.inventory.default_trust.clone()
            };
            return Ok(vec![BmcSpec {
                address: target.address.clone(),
                resolved: Vec::new(),
                username: username.clone(),
                password: password.clone(),
                kg: None,
                ignore_system_uuid: *no_system_uuid,
                trust,
                options: BmcOptions::default(),
                connect_timeout: times.connect,
                call_timeout: times.call,
            }]);
        }
    };
    let count = host.bmcs().count();
    // All lookups share the time limit of one call.
    let share = times.call / u32::try_from(count).unwrap_or(u32::MAX).max(1);
    let mut specs = Vec::with_capacity(count);
    for bmc in host.bmcs() {
        let (password, kg) = secrets(bmc).await?;
        specs.push(BmcSpec {
            address: bmc.address.clone(),
            resolved: Vec::new(),
            username: bmc.username.clone(),
            password,
            kg,
            ignore_system_uuid: host.no_system_uuid,
            trust: bmc.trust.clone(),
            options: bmc.options.clone(),
            connect_timeout: times.connect.min(share),
            call_timeout: share,
        });
    }
    Ok(specs)
}

/// Resolves the addresses of the BMC's host. An agent connects only to BMCs in its networks: every
/// address of a name must be in them, and the driver connects to no other address.
pub(super) async fn pin(
    resolver: &Resolver,
    config: &Config,
    spec: &mut BmcSpec,
) -> Result<(), BmcError> {
    let address = &spec.address;
    let host = address.host();
    let found = resolver.addresses(&host, config.times.connect);
    let ips = found.await.map_err(|why| unresolved(address, &why))?;
    let networks = &config.inventory.networks;
    if let Some(ip) = ips.iter().find(|ip| !networks.allow(**ip)) {
        return Err(fault(
            address,
            format!("{ip} is not in allowed_bmc_networks ({networks}) of this agent"),
        ));
    }
    spec.resolved = ips;
    Ok(())
}

/// Password and K_g of an entry, as they are now.
async fn secrets(bmc: &BmcEntry) -> Result<(SecretString, Option<SecretString>), BmcError> {
    let failed = |error: PasswordError| {
        let is_transient = error.is_transient();
        let mut fault = fault(&bmc.address, error.to_string());
        if is_transient {
            fault.kind = ErrorKind::Busy;
        }
        fault
    };
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
        not_sent: false,
    }
}

pub(super) fn fault(address: &BmcAddress, message: String) -> BmcError {
    BmcError {
        kind: ErrorKind::Configuration,
        bmc: address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}

fn unresolved(address: &BmcAddress, reason: &str) -> BmcError {
    BmcError {
        kind: ErrorKind::Unreachable,
        bmc: address.to_string(),
        message: format!("its name cannot be resolved: {reason}"),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    }
}
