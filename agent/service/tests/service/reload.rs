//! Reload of a running agent: all or nothing, without interrupting operations.

use std::time::Duration;

use crate::kit::*;
use crate::watch_hosts::Watcher;
use rackhand_agent_service::Agent;
use rackhand_bmc::PowerState;
use rackhand_proto::v1::{self, OutcomeCode};
use rackhand_transport::Refusal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Edits the file on disk.
fn edit(site: &Site, change: impl FnOnce(String) -> String) {
    let path = site.dir.path().join("agent.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, change(text)).unwrap();
}

/// Removes the last host from the file.
fn without_last(text: &str) -> String {
    let at = text.rfind("[[hosts]]").unwrap();
    text[..at].to_owned()
}

async fn names(client: &mut Client) -> Vec<String> {
    let listed = client.list_hosts(v1::ListHostsRequest {}).await.unwrap();
    let hosts = listed.into_inner().hosts.into_iter();
    hosts.map(|host| host.name).collect()
}

async fn get(agent: &Agent, path: &str) -> String {
    get_at(agent.admin_addr().unwrap(), path).await
}

async fn get_at(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn removed_host_is_no_longer_counted_as_watched() {
    let mut site = site(2);
    site.extra += "\ndefaults.watch_interval = '5s'";
    let agent = site.start().await;
    let mut client = site.controller(&agent).await;
    let mut watcher = Watcher::of(&mut client, "a").await;
    watcher.add("b", target("node-2").unwrap()).await;
    watcher
        .until(|host| host.id == "b" && host.power.is_some())
        .await;
    assert!(metric(&agent, "rackhand_agent_watched_hosts 2").await);
    edit(&site, |text| without_last(&text));
    agent.reload().await.unwrap();
    watcher.until(|host| host.id == "b" && host.refused).await;
    assert!(metric(&agent, "rackhand_agent_watched_hosts 1").await);
    agent.shutdown().await;
}

async fn metric(agent: &Agent, line: &str) -> bool {
    get(agent, "/metrics").await.lines().any(|one| one == line)
}

fn site(hosts: usize) -> Site {
    let mut site = Site::new(hosts);
    site.extra = "admin_listen = '127.0.0.1:0'\ndefaults.call_timeout = '2s'\n\
                  defaults.shutdown_grace = '0s'"
        .into();
    site
}

#[tokio::test]
async fn removed_host_finishes_its_operation_and_rejects_new_ones() {
    let site = site(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    site.bmcs.of(2).dead.send_replace(true);
    begin(&mut client, off("a", "node-2")).await.unwrap();
    site.bmcs.of(2).read_times(1).await;

    edit(&site, |text| without_last(&text));
    let changes = agent.reload().await.unwrap();
    assert_eq!((changes.hosts, changes.added, changes.removed), (1, 0, 1));
    assert_eq!(names(&mut client).await, ["node-1"]);
    let refused = begin(&mut client, on("b", "node-2")).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::UnknownHost));

    site.bmcs.of(2).dead.send_replace(false);
    let outcome = outcome(&mut client, "a").await;
    assert_eq!(outcome.code(), OutcomeCode::Confirmed, "{outcome:?}");
    assert_eq!(site.bmcs.of(2).commands(), (1, 0));
    agent.shutdown().await;
}

#[tokio::test]
async fn invalid_reload_changes_nothing_and_is_counted() {
    let site = site(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    assert!(metric(&agent, "rackhand_agent_configuration_current 1").await);
    edit(&site, |text| {
        without_last(&text).replace("10.0.0.1/", "10.9.9.9/") + "bmc.auth = 'none'\n"
    });
    let error = agent.reload().await.unwrap_err().to_string();
    for mistake in [
        "2 mistakes",
        "bmc.address: 10.9.9.9 is not in allowed_bmc_networks",
        "auth: \"none\": must be auto, session or basic",
        "agent.toml:13:15:",
    ] {
        assert!(error.contains(mistake), "{mistake}: {error}");
    }
    assert_eq!(names(&mut client).await, ["node-1", "node-2"]);
    for line in [
        "rackhand_agent_configuration_current 0",
        "rackhand_agent_reloads_total{result=\"refused\"} 1",
        "rackhand_agent_reloads_total{result=\"taken\"} 0",
        "rackhand_agent_hosts 2",
    ] {
        assert!(metric(&agent, line).await, "{line}");
    }

    // A change that needs a restart is an error too.
    site.config();
    edit(&site, |text| text.replace("rack = 'r1'", "rack = 'r2'"));
    let error = agent.reload().await.unwrap_err().to_string();
    assert_eq!(error, "rack can only be changed by a restart of the agent");
    site.config();
    agent.reload().await.unwrap();
    assert!(metric(&agent, "rackhand_agent_configuration_current 1").await);
    agent.shutdown().await;
}

#[tokio::test]
async fn changed_inventory_file_is_detected() {
    let mut site = site(2);
    site.extra += "\ninventory = ['more.toml']";
    let more = site.dir.path().join("more.toml");
    std::fs::write(&more, "").unwrap();
    let agent = site.start().await;
    let mut client = site.local().await;
    let host = "[[hosts]]\nname = 'new'\nbmc.address = 'redfish://10.0.0.9'\n\
                bmc.username = 'u'\nbmc.password_file = 'p'\n";
    std::fs::write(&more, host).unwrap();
    let noticed = async {
        while names(&mut client).await.len() < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.unwrap();
    agent.shutdown().await;
}

#[tokio::test]
async fn watch_survives_a_reload_and_ends_with_its_host() {
    let site = site(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    let watch = v1::WatchPowerRequest {
        target: target("node-2"),
        interval: None,
    };
    let mut watch = client.watch_power(watch).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    edit(&site, |text| text.replace("worker-1", "worker-one"));
    agent.reload().await.unwrap();
    site.bmcs.of(2).set(PowerState::Off);
    watch.message().await.unwrap().unwrap();
    edit(&site, |text| without_last(&text));
    agent.reload().await.unwrap();
    let gone = watch.message().await.unwrap_err();
    assert_eq!(Refusal::of(&gone), Some(Refusal::UnknownHost), "{gone}");
    agent.shutdown().await;
}

#[tokio::test]
async fn watched_host_that_left_the_inventory_is_refused_until_it_is_added_again() {
    let site = site(2);
    let agent = site.start().await;
    let mut client = site.local().await;
    let mut watcher = Watcher::new(&mut client).await;
    watcher.add("a", target("node-2").unwrap()).await;
    watcher.read("a", false, false).await;
    let path = site.dir.path().join("agent.toml");
    let before = std::fs::read_to_string(&path).unwrap();
    edit(&site, |text| without_last(&text));
    agent.reload().await.unwrap();
    let gone = watcher.until(|host| host.id == "a" && host.refused).await;
    assert_eq!((gone.power, gone.failure.is_some()), (None, true));
    std::fs::write(&path, before).unwrap();
    agent.reload().await.unwrap();
    watcher.add("a", target("node-2").unwrap()).await;
    let back = watcher.read("a", false, false).await;
    assert!(back.power.is_some() && !back.refused, "{back:?}");
    agent.shutdown().await;
}

#[tokio::test]
async fn health_and_metrics_are_served_over_http() {
    let site = site(1);
    let agent = site.start().await;
    let mut client = site.local().await;
    begin(&mut client, off("a", "node-1")).await.unwrap();
    outcome(&mut client, "a").await;
    for path in ["/livez", "/readyz"] {
        let answer = get(&agent, path).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    let metrics = get(&agent, "/metrics").await;
    for line in [
        "rackhand_agent_operations_total{action=\"off\",outcome=\"confirmed\"} 1",
        "rackhand_agent_commands_total{command=\"off\"} 1",
        "rackhand_agent_bmc_calls_total{call=\"command\",result=\"ok\"} 1",
        "rackhand_agent_operations_running 0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
    assert!(get(&agent, "/").await.starts_with("HTTP/1.1 404"));
    agent.shutdown().await;
}

#[tokio::test]
async fn probes_are_served_without_metrics() {
    let site = site(1);
    let mut agent = site.start().await;
    let probes = agent
        .serve_probes(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 404)] {
        let answer = get_at(probes, path).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
    agent.shutdown().await;
}
