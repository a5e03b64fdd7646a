//! A BMC reached over IPv6, by both protocols.

use std::{
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use rackhand_bmc::{
    Bmc, PowerState, Trust,
    ipmi::{self, IpmiConfig},
    redfish::{RedfishConfig, connect},
};
use rackhand_tests::{
    pki::Pki,
    rack::{
        Rack, RackConfig, ResetType,
        ipmi::{IpmiBmc, IpmiConfig as SimConfig},
    },
};
use tokio::time::timeout;

#[tokio::test]
async fn power_is_read_and_switched_over_ipv6() {
    let here = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = UdpSocket::bind(here) {
        println!("NOT RUN: this machine has no IPv6 loopback: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(dir.path()).unwrap();
    let config = RackConfig::new("six", ["six-1"]).each(|host| {
        host.bmc.listen = here;
        host.kubelet.enabled = false;
    });
    let rack = Rack::start(config, Some(&pki), None).await.unwrap();
    let host = rack.host("six-1").unwrap();
    let other = SimConfig::of_host(host.config());
    let other = IpmiBmc::start(here, other, host.clone()).await.unwrap();

    let redfish = host.system_url().unwrap();
    let redfish = redfish.replacen("https://", "redfish+https://", 1);
    let mut redfish = RedfishConfig::new(redfish.parse().unwrap(), "admin", "secret".into());
    redfish.trust = Trust::CaBundle(std::fs::read(pki.ca_file()).unwrap().into());
    let address = format!("ipmi://{}", other.address()).parse().unwrap();
    let ipmi = IpmiConfig::new(address, "admin", "secret".into());
    for bmc in [connect(redfish).unwrap(), ipmi::connect(ipmi).unwrap()] {
        assert!(bmc.address().contains("[::1]"), "{}", bmc.address());
        assert_eq!(bmc.power().await.unwrap().state, PowerState::On);
        bmc.off().await.unwrap();
        read_until(&*bmc, PowerState::Off).await;
        bmc.on().await.unwrap();
        read_until(&*bmc, PowerState::On).await;
        bmc.close().await.unwrap();
    }
    assert_eq!(host.counters().received(ResetType::ForceOff), 2);
    assert_eq!(host.counters().offs, 2);
}

async fn read_until(bmc: &dyn Bmc, wanted: PowerState) {
    let read = async { while bmc.power().await.unwrap().state != wanted {} };
    let read = timeout(Duration::from_secs(60), read).await;
    read.unwrap_or_else(|_| panic!("{} never reads {wanted:?}", bmc.address()));
}
