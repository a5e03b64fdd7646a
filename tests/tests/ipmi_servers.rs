//! Our IPMI client against servers that others wrote.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod ipmi_support;

use ipmi_support::{Peer, Server};
use rackhand_bmc::{Bmc, PowerState, Protocol};

const PEERS: [Peer; 4] = [
    Peer::IpmiSim,
    Peer::Goipmi("3"),
    Peer::Goipmi("17"),
    Peer::Fakebmc,
];

async fn state(bmc: &dyn Bmc) -> PowerState {
    bmc.power().await.expect("power").state
}

#[tokio::test]
async fn power_is_read_and_switched_everywhere() {
    for peer in PEERS {
        let server = Server::start(peer);
        let bmc = server.admin();
        bmc.off()
            .await
            .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
        let reading = bmc.power().await.expect("power");
        assert_eq!(reading.state, PowerState::Off, "{peer:?}");
        assert_eq!(reading.protocol, Protocol::Ipmi);
        assert!(
            reading.raw.starts_with("power bit clear (0x"),
            "{reading:?}"
        );
        for _ in 0..2 {
            bmc.on()
                .await
                .unwrap_or_else(|error| panic!("{peer:?}: {error}"));
            assert_eq!(state(&*bmc).await, PowerState::On, "{peer:?}");
        }
        for _ in 0..2 {
            bmc.off().await.expect("off");
            assert_eq!(state(&*bmc).await, PowerState::Off, "{peer:?}");
        }
        bmc.close().await.expect("close");
        let said = server.ipmitool(&["power", "status"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains("is off"), "{peer:?}: {said}");
    }
}
