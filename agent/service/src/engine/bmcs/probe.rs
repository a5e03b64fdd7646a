//! Collection of the facts about one host for a diagnosis.
//!
//! Owns: the order of the checks, and the clients that nothing else uses, which are closed at the end. Must never:
//! connect to a BMC outside of the allowed networks, repeat a password that was rejected recently, or
//! delay a power operation.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use rackhand_agent_core::bmc_queue::CallClass;
use rackhand_bmc::{
    Bmc, BmcError, BmcFuture, ErrorKind, Protocol, SystemIdentity,
    operation::{Expected, comparable},
};
use rackhand_proto::v1::Check;
use tokio::{net::TcpStream, time::Instant, time::timeout};
use tonic::Status;

use super::{
    bmc_queue::BmcQueue,
    clients::{Clients, DriverClient},
};
use crate::{
    checkup::{Observations, judge},
    config::Config,
    engine::{Target, pdus::Pdus},
    journal::ReadSystem,
};

/// Probes every driver of the host, one after the other, within `limit`.
pub(super) async fn check(
    clients: &Clients,
    pdus: &Arc<Pdus>,
    target: &Target,
    remembered: Option<&ReadSystem>,
    limit: Duration,
) -> Result<Result<Vec<Check>, BmcError>, Status> {
    let stated = target.expected(None)?;
    let remembered = remembered.filter(|system| system.applies(&stated));
    let mut expected = remembered.map_or_else(|| stated.clone(), |system| system.expected(&stated));
    let mut origin = remembered.map(ReadSystem::origin);
    let ways = match clients.ways(target).await {
        Ok(ways) => ways,
        Err(error) => return Ok(Err(error)),
    };
    let queue = clients.queue(target);
    let until = Instant::now() + limit;
    let mut checks = Vec::new();
    for way in ways {
        let mut seen = first_look(&way, &target.config, &expected).await;
        seen.origin.clone_from(&origin);
        seen.is_remembered = remembered.is_some();
        if seen.forbidden.is_none() && seen.name.is_ok() && !matches!(seen.tcp, Some(Err(_))) {
            look(&way, &queue, until, &mut seen).await;
        }
        way.close().await;
        checks.extend(judge(&seen));
        // The drivers of a host must show one system.
        if expected.earlier.is_none()
            && let Some(Ok(identity)) = &seen.identity
        {
            expected.earlier = Some(comparable(identity));
            origin = Some(format!(
                "{} shows the expected one: mend the address of the driver that is wrong",
                seen.bmc
            ));
        }
    }
    checks.extend(pdus.check(target, limit).await);
    Ok(Ok(checks))
}

/// Checks name, networks and route, for which the BMC need not be acquired.
async fn first_look(way: &DriverClient, config: &Config, expected: &Expected) -> Observations {
    let (address, limit) = (&way.spec.address, way.spec.connect_timeout);
    let (host, port) = (address.host(), address.port());
    let name = way.found.clone();
    let networks = &config.inventory.networks;
    let ips = name.iter().flatten();
    let forbidden = ips.copied().find(|ip| !networks.allow(*ip));
    let forbidden = forbidden.map(|ip| (ip, networks.to_string()));
    let mut tcp = None;
    if let Ok(ips) = &name
        && address.protocol() == Protocol::Redfish
        && forbidden.is_none()
    {
        let peers: Vec<SocketAddr> = ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        let begun = Instant::now();
        let connected = timeout(limit, TcpStream::connect(peers.as_slice())).await;
        tcp = Some(match connected {
            Ok(Ok(_)) => Ok(begun.elapsed()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {limit:?}")),
        });
    }
    Observations {
        bmc: address.to_string(),
        protocol: address.protocol(),
        host,
        port,
        is_tls: address.is_tls(),
        trust: way.spec.trust.clone(),
        username: way.spec.username.clone(),
        is_shared: way.is_shared,
        name,
        forbidden,
        tcp,
        power: None,
        identity: None,
        facts: None,
        updates: None,
        expected: expected.clone(),
        origin: None,
        is_remembered: false,
        no_system_uuid: way.spec.ignore_system_uuid,
        now: Timestamp::now(),
    }
}

/// Reads power; if that succeeds, identity and facts.
async fn look(way: &DriverClient, queue: &BmcQueue, until: Instant, seen: &mut Observations) {
    let bmc = match &way.bmc {
        Ok(bmc) => bmc,
        Err(error) => {
            seen.power = Some(Err(error.clone()));
            return;
        }
    };
    let power = in_between(way, queue, until, bmc, |bmc| bmc.power()).await;
    let answered = power.is_ok();
    seen.power = Some(power);
    if answered {
        let identity: Result<SystemIdentity, BmcError> =
            in_between(way, queue, until, bmc, |bmc| bmc.identity()).await;
        seen.identity = Some(identity);
        seen.facts = Some(in_between(way, queue, until, bmc, |bmc| bmc.facts()).await);
        seen.now = Timestamp::now();
        let updates = in_between(way, queue, until, bmc, move |bmc| {
            bmc.firmware_updates(until.saturating_duration_since(Instant::now()))
        })
        .await;
        seen.updates = Some(updates);
    }
}

/// One reading between the calls of operations.
async fn in_between<T: Send>(
    way: &DriverClient,
    queue: &BmcQueue,
    until: Instant,
    bmc: &Arc<dyn Bmc>,
    call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
) -> Result<T, BmcError> {
    let reading = async {
        loop {
            let turn = queue.call(CallClass::Reader).await;
            tokio::select! {
                biased;
                () = turn.wanted() => {}
                result = call(bmc.as_ref()) => return result,
            }
        }
    };
    let late = BmcError {
        kind: ErrorKind::Timeout,
        bmc: way.spec.address.to_string(),
        message: "no answer within the time limit of the check".to_owned(),
        retry_after: None,
        maybe_sent: false,
        not_sent: false,
    };
    tokio::time::timeout_at(until, reading)
        .await
        .unwrap_or(Err(late))
}
