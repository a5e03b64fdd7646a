//! Protection of accounts against being locked, and queues of shared endpoints.

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use rackhand_bmc::{Accepted, BmcFuture, PowerCommand};
use tempfile::TempDir;

use super::*;
use crate::config::Config;

/// A BMC that rejects every password but one.
#[derive(Debug, Clone, Default)]
struct Strict {
    tries: Arc<AtomicU32>,
}

#[derive(Debug)]
struct StrictClient {
    bmc: Strict,
    good: bool,
}

impl Driver for Strict {
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        use secrecy::ExposeSecret;
        Ok(Arc::new(StrictClient {
            bmc: self.clone(),
            good: specs[0].password.expose_secret() == "good",
        }))
    }
}

impl Bmc for StrictClient {
    fn address(&self) -> &str {
        "strict"
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        Box::pin(async {
            self.bmc.tries.fetch_add(1, Ordering::SeqCst);
            let kind = if self.good {
                ErrorKind::Busy
            } else {
                ErrorKind::Authentication
            };
            Err(BmcError {
                kind,
                bmc: "strict".into(),
                message: "401".into(),
                retry_after: None,
                maybe_sent: false,
                not_sent: false,
            })
        })
    }

    fn command(&self, _: PowerCommand) -> BmcFuture<'_, Accepted> {
        Box::pin(std::future::pending())
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

fn clients(driver: Arc<dyn Driver>, inventory: &Inventory) -> Clients {
    Clients::new(driver, inventory, Arc::new(Metrics::new()))
}

fn config(dir: &Path) -> Config {
    let text = "rack = 'r1'\nsocket = 's'\nstate = 's'\nallowed_bmc_networks = ['10.0.0.0/24']\n\
                [[hosts]]\nname = 'a'\nbmc.address = 'redfish://10.0.0.1'\n\
                bmc.username = 'u'\nbmc.password_file = 'p'\n";
    Config::parse(&dir.join("agent.toml"), text, None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rejected_password_is_retried_rarely_until_changed() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("p"), "bad").unwrap();
    let config = Arc::new(config(dir.path()));
    let target = Target::of(&config, &config.inventory.hosts[0]);
    let bmc = Strict::default();
    let clients = clients(Arc::new(bmc.clone()), &config.inventory);
    let begun = Instant::now();
    let mut tries = Vec::new();
    let mut messages = std::collections::BTreeSet::new();
    while begun.elapsed() < Duration::from_secs(6000) {
        let before = bmc.tries.load(Ordering::SeqCst);
        let error = clients
            .read(&target, Duration::from_secs(20))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication);
        if bmc.tries.load(Ordering::SeqCst) > before {
            tries.push(begun.elapsed().as_secs());
            assert_eq!(error.retry_after, None);
        } else {
            assert!(error.retry_after.is_some_and(|rest| !rest.is_zero()));
        }
        messages.insert(error.message);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(tries, [0, 60, 1860, 3660, 5460], "too many attempts");
    let expected = "401; so as not to lock the account it is tried again only now and then, or \
                    when it is changed";
    assert_eq!(
        messages.into_iter().collect::<Vec<_>>(),
        [expected],
        "the message must not change between attempts"
    );
    std::fs::write(dir.path().join("p"), "good").unwrap();
    let error = clients
        .read(&target, Duration::from_secs(20))
        .await
        .unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::Busy,
        "the new password is tried at once"
    );
}

#[tokio::test(start_paused = true)]
async fn watched_host_uses_a_password_for_a_minute_and_every_other_call_reads_it() {
    let dir = TempDir::new().unwrap();
    let write = |password| std::fs::write(dir.path().join("p"), password).unwrap();
    let config = Arc::new(config(dir.path()));
    let target = Target::of(&config, &config.inventory.hosts[0]);
    let bmc = Strict::default();
    let clients = clients(Arc::new(bmc.clone()), &config.inventory);
    let watched = async |target| clients.read_watched(target).await.unwrap_err().kind;
    let tries = || bmc.tries.load(Ordering::SeqCst);
    write("good");
    assert_eq!(watched(&target).await, ErrorKind::Busy);
    write("bad");
    tokio::time::advance(COMPARED - Duration::from_secs(1)).await;
    assert_eq!(watched(&target).await, ErrorKind::Busy, "within a minute");
    let second = Duration::from_secs(1);
    let other = clients.read(&target, second).await.unwrap_err().kind;
    assert_eq!(other, ErrorKind::Authentication, "any other call, at once");
    assert_eq!(tries(), 3);
    // Nor is a client kept whose password was rejected, and what was rejected is not tried again.
    assert_eq!(watched(&target).await, ErrorKind::Authentication);
    assert_eq!(tries(), 3);
    write("good");
    assert_eq!(watched(&target).await, ErrorKind::Busy, "tried at once");
    write("bad");
    tokio::time::advance(COMPARED).await;
    assert_eq!(watched(&target).await, ErrorKind::Authentication);
}

#[tokio::test(start_paused = true)]
async fn watched_host_reads_its_password_again_after_a_rotation_and_a_reload() {
    let dir = TempDir::new().unwrap();
    let write = |password| std::fs::write(dir.path().join("p"), password).unwrap();
    let before = Arc::new(config(dir.path()));
    let target = Target::of(&before, &before.inventory.hosts[0]);
    let clients = clients(Arc::new(Strict::default()), &before.inventory);
    let watched = async |target| clients.read_watched(target).await.unwrap_err().kind;
    write("bad");
    assert_eq!(watched(&target).await, ErrorKind::Authentication);
    write("good");
    assert_eq!(watched(&target).await, ErrorKind::Busy);
    write("bad");
    clients.compare_again(&target);
    assert_eq!(watched(&target).await, ErrorKind::Authentication);
    write("good");
    assert_eq!(watched(&target).await, ErrorKind::Busy);
    write("bad");
    let after = Arc::new(config(dir.path()));
    let again = Target::of(&after, &after.inventory.hosts[0]);
    assert_eq!(watched(&again).await, ErrorKind::Authentication);
}

/// Records the settings that it is called with.
#[derive(Debug, Clone, Default)]
struct RecordingDriver(Arc<Mutex<Vec<BmcSpec>>>);

impl Driver for RecordingDriver {
    fn connect(&self, specs: Vec<BmcSpec>) -> Result<Arc<dyn Bmc>, BmcError> {
        *self.0.lock() = specs;
        Strict::default().connect(self.0.lock().clone())
    }
}

#[tokio::test(start_paused = true)]
async fn connection_uses_the_address_that_was_checked() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("p"), "good").unwrap();
    let text = "rack = 'r1'\nsocket = 's'\nstate = 's'\nallowed_bmc_networks = ['10.0.0.0/24']\n\
                [[hosts]]\nname = 'a'\nbmc.address = 'redfish://bmc.example'\n\
                bmc.username = 'u'\nbmc.password_file = 'p'\n";
    let config = Config::parse(&dir.path().join("agent.toml"), text, None).unwrap();
    let config = Arc::new(config);
    let target = Target::of(&config, &config.inventory.hosts[0]);
    let told = RecordingDriver::default();
    let lookups = Arc::new(AtomicU32::new(0));
    let counted = lookups.clone();
    let mut clients = clients(Arc::new(told.clone()), &config.inventory);
    // A name service whose second response is an address outside of the networks.
    clients.resolver = Resolver::new(move |_| {
        let ip = match counted.fetch_add(1, Ordering::SeqCst) {
            0 => [10, 0, 0, 7],
            _ => [192, 0, 2, 1],
        };
        Box::pin(async move { Ok(vec![ip.into()]) })
    });
    let second = Duration::from_secs(1);
    let error = clients.read(&target, second).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy, "the BMC was called");
    assert_eq!(lookups.load(Ordering::SeqCst), 1);
    assert_eq!(told.0.lock()[0].resolved, [IpAddr::from([10, 0, 0, 7])]);
    let error = clients.read_watched(&target).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("192.0.2.1 is not in"), "{error}");
}

#[test]
fn f6_hosts_behind_one_endpoint_share_one_queue() {
    let host = |name: &str, first: &str, second: &str| {
        let rest = "username = 'u', password_file = 'p'";
        format!(
            "[[hosts]]\nname = '{name}'\nbmc = [{{address = '{first}', {rest}}}, \
             {{address = '{second}', {rest}}}]\n"
        )
    };
    let text = format!(
        "rack = 'r1'\nsocket = 's'\nstate = 's'\nallowed_bmc_networks = ['10.0.0.0/24']\n{}{}{}",
        host(
            "a",
            "redfish://10.0.0.1/redfish/v1/Systems/1",
            "ipmi://10.0.0.11"
        ),
        host(
            "b",
            "ipmi://10.0.0.12",
            "redfish://10.0.0.1/redfish/v1/Systems/2"
        ),
        host("c", "redfish://10.0.0.3", "ipmi://10.0.0.13"),
    );
    let config = Config::parse(Path::new("/x/agent.toml"), &text, None).unwrap();
    let config = Arc::new(config);
    let clients = clients(Arc::new(Strict::default()), &config.inventory);
    let queues: Vec<Arc<BmcQueue>> = config
        .inventory
        .hosts
        .iter()
        .map(|host| clients.queue(&Target::of(&config, host)))
        .collect();
    assert!(Arc::ptr_eq(&queues[0], &queues[1]));
    assert!(!Arc::ptr_eq(&queues[0], &queues[2]));
}

/// A configuration with one host for each list of addresses.
fn sharing(hosts: &[&[&str]]) -> Config {
    let mut text =
        "rack = 'r1'\nsocket = 's'\nstate = 's'\nallowed_bmc_networks = ['10.0.0.0/24']\n"
            .to_owned();
    for (index, addresses) in hosts.iter().enumerate() {
        text.push_str(&format!("[[hosts]]\nname = 'h{index}'\n"));
        for address in *addresses {
            text.push_str(&format!(
                "[[hosts.bmc]]\naddress = '{address}'\nusername = 'u'\npassword_file = 'p'\n"
            ));
        }
    }
    Config::parse(Path::new("/x/agent.toml"), &text, None).unwrap()
}

#[test]
fn f6_queue_in_use_is_kept_through_a_reload() {
    let (a, b) = ("redfish://10.0.0.1", "ipmi://10.0.0.2");
    let old = Arc::new(sharing(&[&[a], &[b]]));
    let clients = clients(Arc::new(Strict::default()), &old.inventory);
    let target = |n: usize| Target::of(&old, &old.inventory.hosts[n]);
    let used = clients.queue(&target(1));
    // The only queue in use: all endpoints that share with it are merged into it.
    let new = Arc::new(sharing(&[&[a, b]]));
    clients.change(&new.inventory, || ()).unwrap();
    let host = Target::of(&new, &new.inventory.hosts[0]);
    assert!(Arc::ptr_eq(&clients.queue(&host), &used));
    // The host is removed from the inventory while its queue is in use.
    let without = sharing(&[&[a]]);
    clients.change(&without.inventory, || ()).unwrap();
    assert!(Arc::ptr_eq(&clients.queue(&target(1)), &used));
}

#[test]
fn f6_two_queues_in_use_are_not_merged() {
    let (a, b) = ("redfish://10.0.0.1", "ipmi://10.0.0.2");
    let old = Arc::new(sharing(&[&[a], &[b]]));
    let clients = clients(Arc::new(Strict::default()), &old.inventory);
    let target = |n: usize| Target::of(&old, &old.inventory.hosts[n]);
    let used = [clients.queue(&target(0)), clients.queue(&target(1))];
    let together = sharing(&[&[a, b]]);
    let refused = clients.change(&together.inventory, || panic!("taken"));
    assert_eq!(refused.unwrap_err(), ["bmc://10.0.0.1", "bmc://10.0.0.2"]);
    assert!(!Arc::ptr_eq(
        &clients.queue(&target(0)),
        &clients.queue(&target(1))
    ));
    drop(used);
    clients.change(&together.inventory, || ()).unwrap();
    assert!(Arc::ptr_eq(
        &clients.queue(&target(0)),
        &clients.queue(&target(1))
    ));
}

/// A target as a controller sends it.
fn sent(config: &Arc<Config>, address: &str) -> Target {
    let target = rackhand_proto::v1::Target {
        host: "bmh".into(),
        endpoint: Some(rackhand_proto::v1::BmcEndpoint {
            address: address.into(),
            ..Default::default()
        }),
    };
    crate::engine::resolve(config, Some(target), true).unwrap()
}

#[tokio::test]
async fn f6_equivalent_addresses_share_one_queue() {
    let mut config = sharing(&[&["redfish://bmc.example/redfish/v1/Systems/1"]]);
    config.inventory.accept_endpoints = true;
    let config = Arc::new(config);
    let mut clients = clients(Arc::new(Strict::default()), &config.inventory);
    clients.resolver = Resolver::new(|name| {
        Box::pin(async move {
            match name.as_str() {
                "bmc.example" => Ok(vec![[10, 0, 0, 1].into()]),
                _ => Err(std::io::Error::other("no such name")),
            }
        })
    });
    let known = Target::of(&config, &config.inventory.hosts[0]);
    let located = clients.locate(known.keys.clone(), &config).await;
    assert_eq!(located.unresolved(), None);
    let queue = clients.queue(&known);
    for address in [
        "redfish://BMC.example:443",
        "redfish://10.0.0.1/redfish/v1/Systems/1/",
        "redfish://10.0.0.1",
        "ipmi://10.0.0.1",
        "ipmi://bmc.example",
    ] {
        let other = clients.queue(&sent(&config, address));
        assert!(Arc::ptr_eq(&queue, &other), "{address}");
    }
    let other = sent(&config, "redfish://10.0.0.1:8443");
    assert!(!Arc::ptr_eq(&queue, &clients.queue(&other)));
    let nowhere = sent(&config, "redfish://nowhere.example");
    let located = clients.locate(nowhere.keys.clone(), &config).await;
    let why = located.unresolved().unwrap();
    assert_eq!(why, "nowhere.example: no such name");
}

#[tokio::test]
async fn unresolvable_name_keeps_its_last_addresses() {
    let config = Arc::new(sharing(&[&["redfish://bmc.example"]]));
    let mut clients = clients(Arc::new(Strict::default()), &config.inventory);
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let down = is_down.clone();
    clients.resolver = Resolver::new(move |_| {
        let is_down = down.load(Ordering::SeqCst);
        Box::pin(async move {
            match is_down {
                true => Err(std::io::Error::other("no answer")),
                false => Ok(vec![[10, 0, 0, 1].into()]),
            }
        })
    });
    let keys = Target::of(&config, &config.inventory.hosts[0]).keys;
    let before = clients.locate(keys.clone(), &config).await;
    is_down.store(true, Ordering::SeqCst);
    let after = clients.locate(keys, &config).await;
    assert_eq!(after.keys, before.keys);
    assert_eq!(after.unresolved(), None);
}
