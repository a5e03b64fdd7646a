//! Load: half-open connections, and a rack of a thousand hosts.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, OutcomeCode, await_response::Event, begin_request::Action},
};
use rackhand_tests::{
    pki::Pki,
    rack::{
        Rack, RackConfig,
        ipmi::{Farm, FarmConfig, Privilege, User},
    },
    stage::memory_kib,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    crashes,
    site::{PASSWORD, PATIENCE, Site, many_descriptors, target},
};

/// Maximum memory of the agent without its code, in KiB: 66 MiB less what a release build has of code in memory.
const MEMORY: u64 = (66 - 20) * 1024;
/// The same for each Redfish BMC that it reads over a kept connection, in KiB.
const OF_REDFISH: u64 = 72;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_do_not_block_callers() {
    // As many as the system allows; each connection needs a descriptor here.
    let descriptors = many_descriptors();
    assert!(
        descriptors >= 2000,
        "this test needs at least 2000 file descriptors: raise the hard limit (ulimit -Hn)"
    );
    let crowd = (descriptors - 500).min(10_000);
    let mut site = Site::new(&json!([]));
    site.start().await;
    let memory = site.sample_memory();
    let address = ("127.0.0.1", site.port);
    let mut held = Vec::with_capacity(crowd);
    for n in 0..crowd {
        let mut stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            // The agent may close the oldest connections faster than new ones are opened.
            Err(error) => panic!("connection {n}: {error}"),
        };
        if n % 3 == 0 {
            stream
                .write_all(b"GET / HTTP/1.1\r\n\r\n\x16\x03\x01\xff\xff")
                .await
                .ok();
        }
        held.push(stream);
    }

    let begun = Instant::now();
    let operator = site.certificate("spiffe://rackhand/operator/ann");
    for _ in 0..3 {
        let served = async {
            // A new connection each; an evicted one is retried, as every client does.
            while site
                .remote(Some(&operator))
                .list_hosts(v1::ListHostsRequest {})
                .await
                .is_err()
            {}
        };
        tokio::time::timeout(PATIENCE, served).await.unwrap();
    }
    let served = begun.elapsed();
    site.local()
        .await
        .list_hosts(v1::ListHostsRequest {})
        .await
        .unwrap();

    let open = site.metric("rackhand_agent_open_descriptors").await;
    let most = memory.end();
    println!("{crowd} connections: others served in {served:?}, {open} descriptors, {most} KiB");
    assert!(open < 2000, "{open} descriptors");
    assert!(most < MEMORY, "{most} KiB");
    for reason in ["displaced", "garbage"] {
        let metric = format!("rackhand_agent_refused_connections_total{{reason=\"{reason}\"}}");
        assert!(site.metric(&metric).await > 0, "{reason}");
    }
    // Logged, but not once per connection.
    let told = site.log().matches("TLS handshake refused").count();
    assert!((1..100).contains(&told), "{told} lines");
    drop(held);
    site.stop();
}

/// Time limit of a reading: that of a dead BMC is just long enough to show that other hosts do not
/// wait for it.
fn limit(is_dead: bool) -> Duration {
    Duration::from_secs(if is_dead { 3 } else { 60 })
}

fn entry(index: usize, address: &str) -> Value {
    json!({
        "name": format!("h{index}"),
        "labels": {"role": "worker"},
        "pdu": format!("pdu-{}", index % 20),
        "bmc": {"address": format!("ipmi://{address}"), "username": "admin",
                "password_file": "password"},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_of_1000_hosts_with_dead_bmcs_fits_in_66_mib() {
    const HOSTS: usize = 1000;
    const DEAD: usize = 50;
    assert!(
        many_descriptors() >= 2000,
        "this test needs at least 2000 file descriptors: raise the hard limit (ulimit -Hn)"
    );
    let mut config = FarmConfig::new(u32::try_from(HOSTS).unwrap());
    // Every twentieth.
    config.dead = (0..u32::try_from(DEAD).unwrap()).map(|n| n * 20).collect();
    let is_dead = |index: usize| index.is_multiple_of(HOSTS / DEAD);
    config.timings.off_takes = Duration::from_millis(300);
    config.bmc.users = vec![User::new("admin", PASSWORD, Privilege::Administrator)];
    let farm = Farm::start(&config).await.unwrap();
    let bmcs = farm.bmcs().iter().enumerate();
    let hosts: Vec<Value> = bmcs
        .map(|(index, bmc)| entry(index, &bmc.address().to_string()))
        .collect();
    let mut site = Site::new(&hosts.into());
    site.start().await;
    let memory = site.sample_memory();
    let client = site.local().await;

    // Read all hosts twice: the second time sessions are open.
    for round in 0..2 {
        let begun = Instant::now();
        let readings = stream::iter(0..HOSTS).map(|index| {
            let mut client = client.clone();
            async move {
                let request = v1::ReadPowerRequest {
                    target: target(&format!("h{index}")),
                    timeout: Some(duration_to_proto(limit(is_dead(index)))),
                    ..v1::ReadPowerRequest::default()
                };
                let read = client.read_power(request).await.unwrap().into_inner();
                let is_read = matches!(
                    read.result,
                    Some(v1::read_power_response::Result::Reading(_))
                );
                assert_ne!(is_read, is_dead(index), "h{index}: {read:?}");
            }
        });
        readings.buffer_unordered(HOSTS).collect::<Vec<()>>().await;
        println!("round {round}: {:?}", begun.elapsed());
    }
    // Switch off all hosts concurrently.
    let ends = stream::iter(0..HOSTS).map(|index| {
        let mut client = client.clone();
        async move {
            let id = format!("off-{index}");
            let request = v1::BeginRequest {
                operation_id: id.clone(),
                target: target(&format!("h{index}")),
                action: Some(Action::PowerOff(v1::PowerOff::default())),
                deadline: Some(duration_to_proto(PATIENCE)),
                ..v1::BeginRequest::default()
            };
            client.begin(request).await.unwrap();
            // A dead host is not awaited.
            if is_dead(index) {
                return;
            }
            let request = v1::AwaitRequest { operation_id: id };
            let mut events = client.r#await(request).await.unwrap().into_inner();
            let mut code = None;
            while let Some(event) = events.message().await.unwrap() {
                if let Some(Event::Outcome(outcome)) = event.event {
                    code = Some(outcome.code());
                }
            }
            assert_eq!(code, Some(OutcomeCode::Confirmed), "h{index}");
        }
    });
    ends.buffer_unordered(HOSTS).collect::<Vec<()>>().await;
    // An operation is no longer counted a moment after its end was reported.
    let left = async {
        let dead = i64::try_from(DEAD).unwrap();
        while site.metric("rackhand_agent_operations_running").await != dead {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, left).await.unwrap();
    let most = memory.end();
    println!("{HOSTS} hosts, {DEAD} dead: {most} KiB without code");
    assert!(most < MEMORY, "{most} KiB");
    site.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redfish_bmc_that_is_read_costs_an_agent_little_memory() {
    const HOSTS: u64 = 200;
    many_descriptors();
    let pki_dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(pki_dir.path()).unwrap();
    let names: Vec<String> = (0..HOSTS).map(|number| format!("h{number}")).collect();
    let config = RackConfig::new("r1", names.clone()).each(|host| host.kubelet.enabled = false);
    let rack = Rack::bare(config, Some(&pki)).await.unwrap();
    let hosts: Vec<Value> = (names.iter())
        .map(|name| crashes::entry(&rack, &pki, name))
        .collect();
    let mut site = Site::new(&hosts.into());
    std::fs::write(site.dir.path().join("password"), "secret").unwrap();
    site.start().await;
    let client = site.local().await;
    let memory = || memory_kib(site.agent().pid(), "RssAnon:").unwrap();
    let before = memory();
    for _ in 0..3 {
        let readings = stream::iter(&names).map(|name| {
            let mut client = client.clone();
            async move {
                let request = v1::ReadPowerRequest {
                    target: target(name),
                    timeout: Some(duration_to_proto(limit(false))),
                    ..v1::ReadPowerRequest::default()
                };
                let read = client.read_power(request).await.unwrap().into_inner();
                let is_read = matches!(
                    read.result,
                    Some(v1::read_power_response::Result::Reading(_))
                );
                assert!(is_read, "{name}: {read:?}");
            }
        });
        readings.buffer_unordered(16).collect::<Vec<()>>().await;
    }
    let each = memory().saturating_sub(before) / HOSTS;
    println!("{each} KiB for each of {HOSTS} Redfish BMCs");
    assert!(each < OF_REDFISH, "{each} KiB");
    site.stop();
}
