//! The fault proxy: its decisions as properties, the proxy with real sockets, and ipmitool through
//! it.

use std::time::{Duration, Instant};

use super::ipmi_clients::peer;
use proptest::prelude::*;
use rackhand_tests::udp_proxy::{Direction, Fate, Fault, Faults, Nth, Passed, UdpProxy, decide};
use tokio::net::UdpSocket;

const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

fn probability() -> impl Strategy<Value = f64> {
    (0..=1000_u32).prop_map(|number| f64::from(number) / 1000.0)
}

proptest! {
    #[test]
    fn packet_fate_depends_on_seed_direction_index_and_length(
        seed: u64, index: u64, length in 0..2000_usize, likely in probability()
    ) {
        let faults = Faults::all(likely);
        for direction in BOTH {
            let fate = decide(seed, &faults, direction, index, length);
            prop_assert_eq!(fate, decide(seed, &faults, direction, index, length));
            let arrives = fate.apply(&vec![0; length]);
            prop_assert!(arrives.len() <= length);
            let changed: u32 = arrives.iter().map(|byte| byte.count_ones()).sum();
            prop_assert!(changed <= u32::from(fate.flip.is_some()));
            prop_assert!(fate.copies <= 2);
        }
    }

    #[test]
    fn packets_pass_unchanged_without_faults(
        seed: u64, index: u64, bytes in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        for direction in BOTH {
            let fate = decide(seed, &Faults::default(), direction, index, bytes.len());
            prop_assert_eq!(fate, Fate::UNHARMED);
            prop_assert_eq!(fate.apply(&bytes), bytes.clone());
        }
    }

    #[test]
    fn fault_frequency_matches_its_probability(seed: u64, likely in probability()) {
        let faults = Faults { drop: likely, ..Faults::default() };
        let count = 4000_u32;
        for direction in BOTH {
            let fates = (0..u64::from(count)).map(|index| decide(seed, &faults, direction, index, 50));
            let lost = fates.filter(|fate| fate.copies == 0).count();
            let share = f64::from(u32::try_from(lost).unwrap()) / f64::from(count);
            // Six standard deviations and more.
            prop_assert!((share - likely).abs() < 0.05, "{share} of {likely}");
        }
    }

    #[test]
    fn nth_rule_affects_exactly_its_packets(seed: u64, index in 0..50_u64) {
        let nth = |every| Faults {
            nth: vec![Nth { direction: Direction::ToClient, index, every, fault: Fault::Drop }],
            ..Faults::default()
        };
        for other in 0..60 {
            let lost = |every, direction| {
                decide(seed, &nth(every), direction, other, 50) != Fate::UNHARMED
            };
            prop_assert_eq!(lost(None, Direction::ToClient), other == index);
            let again = other >= index && (other - index) % 7 == 0;
            prop_assert_eq!(lost(Some(7), Direction::ToClient), again);
            prop_assert!(!lost(Some(7), Direction::ToServer));
        }
    }
}

#[test]
fn each_fault_is_selected_independently() {
    for fault in Fault::ALL {
        let faults = Faults::default().and(Direction::ToServer, 0, fault);
        let fate = decide(1, &faults, Direction::ToServer, 0, 50);
        let expected = match fault {
            Fault::Drop => Fate {
                copies: 0,
                ..Fate::UNHARMED
            },
            Fault::Duplicate => Fate {
                copies: 2,
                ..Fate::UNHARMED
            },
            Fault::Delay => Fate {
                delay: faults.delay_by,
                ..Fate::UNHARMED
            },
            Fault::Reorder => Fate {
                reorder: true,
                ..Fate::UNHARMED
            },
            Fault::Truncate => Fate {
                truncate: fate.truncate,
                ..Fate::UNHARMED
            },
            Fault::Flip => Fate {
                flip: fate.flip,
                ..Fate::UNHARMED
            },
        };
        assert_eq!(fate, expected, "{fault:?}");
        assert_ne!(fate, Fate::UNHARMED);
    }
}

/// A server that only receives, a proxy before it, and a client.
async fn chain(faults: Faults) -> (UdpSocket, UdpProxy, UdpSocket) {
    let server = UdpSocket::bind(peer::LOCALHOST).await.unwrap();
    let proxy = UdpProxy::start(server.local_addr().unwrap(), 7, faults)
        .await
        .unwrap();
    let client = UdpSocket::bind(peer::LOCALHOST).await.unwrap();
    client.connect(proxy.address()).await.unwrap();
    (server, proxy, client)
}

/// The next datagram, or `None` if none arrives.
async fn next(socket: &UdpSocket) -> Option<Vec<u8>> {
    const SILENCE: Duration = Duration::from_millis(300);
    let mut buffer = [0; 100];
    loop {
        let begun = Instant::now();
        match tokio::time::timeout(SILENCE, socket.recv(&mut buffer)).await {
            Ok(length) => return Some(buffer[..length.unwrap()].to_vec()),
            Err(_) if begun.elapsed() < 2 * SILENCE => return None,
            // This process stood still, the proxy with it.
            Err(_) => {}
        }
    }
}

#[tokio::test]
async fn datagrams_are_dropped_duplicated_reordered_and_delayed() {
    let late = Duration::from_millis(150);
    let faults = Faults {
        delay_by: late,
        ..Faults::default()
    }
    .and(Direction::ToServer, 0, Fault::Drop)
    .and(Direction::ToServer, 1, Fault::Duplicate)
    .and(Direction::ToServer, 2, Fault::Reorder)
    .and(Direction::ToServer, 4, Fault::Delay)
    .and(Direction::ToServer, 6, Fault::Reorder);
    let (server, proxy, client) = chain(faults).await;
    for number in 0..7_u8 {
        client.send(&[number]).await.unwrap();
    }
    let mut arrived = Vec::new();
    while let Some(bytes) = next(&server).await {
        arrived.extend(bytes);
    }
    // The last datagram waits for a successor that never comes; the delayed one arrives even later.
    assert_eq!(arrived, [1, 1, 3, 2, 5, 6, 4]);
    let expected = Passed {
        arrived: 7,
        sent: 7,
        dropped: 1,
        duplicated: 1,
        delayed: 1,
        reordered: 2,
        ..Passed::default()
    };
    assert_eq!(proxy.passed(Direction::ToServer), expected);
    assert_eq!(proxy.passed(Direction::ToClient), Passed::default());
}

#[tokio::test]
async fn each_client_receives_its_own_responses() {
    let (server, proxy, one) = chain(Faults::default()).await;
    let two = UdpSocket::bind(peer::LOCALHOST).await.unwrap();
    two.connect(proxy.address()).await.unwrap();
    one.send(b"one").await.unwrap();
    two.send(b"two").await.unwrap();
    for _ in 0..2 {
        let mut buffer = [0; 100];
        let (length, from) = server.recv_from(&mut buffer).await.unwrap();
        server.send_to(&buffer[..length], from).await.unwrap();
    }
    assert_eq!(next(&one).await, Some(b"one".to_vec()));
    assert_eq!(next(&two).await, Some(b"two".to_vec()));
    assert_eq!(next(&one).await, None);
}

#[tokio::test]
async fn dropping_the_handle_stops_the_proxy() {
    let (server, proxy, client) = chain(Faults::default()).await;
    let address = proxy.address();
    client.send(b"before").await.unwrap();
    assert_eq!(next(&server).await, Some(b"before".to_vec()));
    drop(proxy);
    let bound = async {
        while UdpSocket::bind(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), bound)
        .await
        .expect("its port is free");
}

#[tokio::test]
async fn ipmitool_works_through_a_proxy_without_faults() {
    let bmc = peer::bmc(|_| {}).await;
    let proxy = UdpProxy::start(bmc.address(), 1, Faults::default())
        .await
        .unwrap();
    for (what, answer) in [
        ("status", "Chassis Power is on"),
        ("reset", "Chassis Power Control: Reset"),
    ] {
        let args = [
            "-U", "admin", "-P", "secret", "-C", "17", "chassis", "power", what,
        ];
        let text = peer::ipmitool(proxy.address(), &args).await.done();
        assert_eq!(text.trim(), answer);
    }
    assert_eq!(bmc.power_counts().resets, 1);
    let counters = peer::nothing_is_left(&bmc).await;
    let (there, back) = (
        proxy.passed(Direction::ToServer),
        proxy.passed(Direction::ToClient),
    );
    assert_eq!(
        (there.arrived, there.sent),
        (counters.packets, counters.packets)
    );
    assert_eq!((back.arrived, back.sent), (counters.sent, counters.sent));
}
