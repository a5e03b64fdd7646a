//! New passwords of BMCs: hosts with two accounts, and an interrupted rotation.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rackhand_agent_service::{Agent, config::Config};
use rackhand_proto::v1::{self, rotate_password_response::Result as Rotated};

use crate::kit::*;

const DEADLINE: Duration = Duration::from_secs(30);

/// `node-1`, whose BMC has the account `ops` for Redfish and `lan` for IPMI.
fn site() -> Site {
    let site = Site::new(1);
    let accounts = &site.bmcs.of(1).accounts;
    accounts
        .lock()
        .unwrap()
        .insert("lan".into(), "lan-secret".into());
    std::fs::write(site.dir.path().join("password-lan"), "lan-secret").unwrap();
    site
}

async fn start(site: &Site) -> Agent {
    let text = "rack = 'r1'\nlisten = '127.0.0.1:0'\ntls = 'tls'\nsocket = 'agent.sock'\n\
                state = 'state'\nallowed_bmc_networks = ['10.0.0.0/24']\n\
                defaults.call_timeout = '2s'\ndefaults.shutdown_grace = '0s'\n\
                [[hosts]]\nname = 'node-1'\n\
                bmc = [\n\
                { address = 'redfish://10.0.0.1', username = 'ops', password_file = 'password' },\n\
                { address = 'ipmi://10.0.0.1', username = 'lan', password_file = 'password-lan' },\n\
                ]\n";
    let path = site.dir.path().join("agent.toml");
    std::fs::write(&path, text).unwrap();
    let config = Config::parse(&path, text, None).unwrap();
    Agent::start(config, Arc::new(site.bmcs.clone()))
        .await
        .unwrap()
}

async fn rotate(client: &mut Client) -> Rotated {
    let request = v1::RotatePasswordRequest {
        target: target("node-1"),
        ..v1::RotatePasswordRequest::default()
    };
    let response = client.rotate_password(request).await.unwrap();
    response.into_inner().result.unwrap()
}

fn file(site: &Site, name: &str) -> PathBuf {
    site.dir.path().join(name)
}

fn read(site: &Site, name: &str) -> String {
    let text = std::fs::read_to_string(file(site, name)).unwrap();
    text.trim_end().to_owned()
}

fn at_bmc(site: &Site, account: &str) -> String {
    let accounts = site.bmcs.of(1).accounts.lock().unwrap();
    accounts
        .get(account)
        .map_or("secret", String::as_str)
        .to_owned()
}

#[tokio::test]
async fn both_accounts_of_a_host_get_passwords_of_their_own() {
    let site = site();
    let agent = start(&site).await;
    let mut client = site.local().await;
    let rotated = rotate(&mut client).await;
    assert!(matches!(rotated, Rotated::Changed(_)), "{rotated:?}");
    let (ops, lan) = (read(&site, "password"), read(&site, "password-lan"));
    assert_ne!(ops, lan);
    assert!(ops != "secret" && lan != "lan-secret");
    assert_eq!((at_bmc(&site, "ops"), at_bmc(&site, "lan")), (ops, lan));
    // The agent uses them.
    begin(&mut client, off("off", "node-1")).await.unwrap();
    let off = outcome(&mut client, "off").await;
    assert_eq!(off.code(), v1::OutcomeCode::Confirmed, "{off:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn account_that_cannot_be_changed_keeps_its_password_and_the_other_its_new_one() {
    let site = site();
    site.bmcs.of(1).fixed.lock().unwrap().push("lan".into());
    let agent = start(&site).await;
    let rotated = rotate(&mut site.local().await).await;
    let Rotated::Failure(failure) = rotated else {
        panic!("{rotated:?}")
    };
    assert!(
        failure.message.contains("the old one counts"),
        "{failure:?}"
    );
    assert_eq!(read(&site, "password-lan"), "lan-secret");
    assert_eq!(at_bmc(&site, "lan"), "lan-secret");
    assert_ne!(read(&site, "password"), "secret");
    assert_eq!(at_bmc(&site, "ops"), read(&site, "password"));
    for next in ["password.rackhand-new", "password-lan.rackhand-new"] {
        assert!(!file(&site, next).exists(), "{next}");
    }
    agent.shutdown().await;
}

/// An earlier process ended before it learned whether the BMC took the password.
#[tokio::test]
async fn agent_concludes_an_interrupted_rotation_when_it_starts() {
    for (has_taken, kept) in [(true, "N3wPassword"), (false, "secret")] {
        let site = site();
        let next = file(&site, "password.rackhand-new");
        std::fs::write(&next, "N3wPassword\n").unwrap();
        if has_taken {
            let mut accounts = site.bmcs.of(1).accounts.lock().unwrap();
            accounts.insert("ops".into(), "N3wPassword".into());
        }
        let agent = start(&site).await;
        let concluded = async {
            while next.exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(DEADLINE, concluded).await.unwrap();
        assert_eq!(read(&site, "password"), kept);
        assert_eq!(at_bmc(&site, "ops"), kept);
        assert_eq!(read(&site, "password-lan"), "lan-secret");
        agent.shutdown().await;
    }
}
