//! What keeps accounts from being locked.

use std::{
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use rackhand_bmc::{Accepted, BmcFuture, PowerCommand};
use tempfile::TempDir;

use super::*;
use crate::config::Config;

/// A BMC that refuses every password but one.
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

fn config(dir: &Path) -> Config {
    let text = "rack: r1\nsocket: s\nstate: s\nallowed_bmc_networks: [10.0.0.0/24]\nhosts:\n  - \
                {name: a, bmc: {address: 'redfish://10.0.0.1', username: u, password_file: p}}\n";
    Config::parse(&dir.join("agent.yaml"), text, None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refused_password_is_tried_rarely_until_it_is_changed() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("p"), "bad").unwrap();
    let config = config(dir.path());
    let target = Target::of(&config.inventory.hosts[0]);
    let bmc = Strict::default();
    let inventory = Arc::new(config.inventory.clone());
    let clients = Clients::new(Arc::new(bmc.clone()), inventory, config.times.clone());
    let begun = Instant::now();
    let mut tries = Vec::new();
    let mut messages = std::collections::BTreeSet::new();
    while begun.elapsed() < Duration::from_secs(1000) {
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
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(tries, [0, 4, 64, 364, 664, 964], "of a thousand wishes");
    let expected = "401; so as not to lock the account it is tried again only now and then, or \
                    when it is changed";
    assert_eq!(
        messages.into_iter().collect::<Vec<_>>(),
        [expected],
        "the same words each time: they are no news"
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

#[test]
fn f6_hosts_behind_one_endpoint_share_a_lane() {
    let host = |name: &str, first: &str, second: &str| {
        format!(
            "  - name: {name}\n    bmc:\n      - {{address: '{first}', username: u, \
             password_file: p}}\n      - {{address: '{second}', username: u, password_file: p}}\n"
        )
    };
    let text = format!(
        "rack: r1\nsocket: s\nstate: s\nallowed_bmc_networks: [10.0.0.0/24]\nhosts:\n{}{}{}",
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
    let config = Config::parse(Path::new("/x/agent.yaml"), &text, None).unwrap();
    let inventory = Arc::new(config.inventory);
    let driver = Arc::new(Strict::default());
    let clients = Clients::new(driver, inventory.clone(), config.times);
    let lanes: Vec<Arc<Lane>> = inventory
        .hosts
        .iter()
        .map(|host| clients.lane(&Target::of(host)))
        .collect();
    assert!(Arc::ptr_eq(&lanes[0], &lanes[1]));
    assert!(!Arc::ptr_eq(&lanes[0], &lanes[2]));
}
