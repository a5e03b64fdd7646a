//! The services of a simulated BMC, its log, single-step mode, and its start time.

use std::time::{Duration, Instant};

use crate::rack_support::SOON;
use crate::rack_support::redfish_client::Sim;
use rackhand_tests::pki::Pki;
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{PowerState, Rack, RackConfig, ResetType};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn single_step_mode_advances_only_on_step() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.single_step(true);
    assert_eq!(sim.reset("PowerCycle").await.status, 204);
    let states = || {
        sim.host
            .switched()
            .iter()
            .map(|one| one.change)
            .collect::<Vec<_>>()
    };
    assert_eq!(states().len(), 1, "PoweringOff");
    assert_eq!(sim.host.real_power(), PowerState::PoweringOff);
    for expected in [PowerState::Off, PowerState::PoweringOn, PowerState::On] {
        assert_eq!(sim.host.step().len(), 1);
        assert_eq!(sim.host.real_power(), expected);
    }
    assert_eq!(sim.host.step().len(), 0, "it boots");
    assert_eq!(sim.host.step().len(), 0, "nothing is due");
    for one in sim.host.switched() {
        let cause = one.cause.unwrap();
        assert_eq!(
            (cause.reset, cause.by.as_str()),
            (ResetType::PowerCycle, "admin")
        );
    }
    sim.host.single_step(false);
    sim.reset("ForceOff").await;
    let off = |view: &rackhand_tests::rack::HostView| view.power == PowerState::Off;
    sim.host.wait_for(SOON, "off", off).await.unwrap();
}

#[tokio::test]
async fn event_log_is_paged_and_can_be_cleared() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.with_settings(|now, settings| {
        for n in 1..=120 {
            let severity = rackhand_tests::rack::Severity::Ok;
            settings
                .events
                .add(now.wall, severity, format!("event {n}"));
        }
    });
    let log = format!("{}/LogServices/Log", sim.system());
    let mut next = Some(format!("{log}/Entries"));
    let mut messages = Vec::new();
    while let Some(path) = next {
        let page = sim.shown(&path).await;
        assert_eq!(page["Members@odata.count"], 120);
        let members = page["Members"].as_array().unwrap();
        assert!(members.len() <= 50);
        messages.extend(members.iter().map(|entry| entry["Message"].clone()));
        next = page["Members@odata.nextLink"].as_str().map(str::to_owned);
    }
    assert_eq!(messages.len(), 120);
    assert_eq!(messages[119], "event 120");
    let one = sim.shown(&format!("{log}/Entries?$top=1&$skip=1")).await;
    assert_eq!(one["Members"][0]["Message"], messages[1]);

    let offered = sim.shown(&log).await;
    let target = offered["Actions"]["#LogService.ClearLog"]["target"]
        .as_str()
        .unwrap();
    assert_eq!(sim.post(target, &json!({})).await.status, 204);
    let left = sim.shown(&format!("{log}/Entries")).await;
    assert_eq!(
        left["Members@odata.count"], 1,
        "only the event of the clearing remains"
    );
}

#[tokio::test]
async fn read_only_account_reads_and_operator_switches() {
    let sim = Sim::of(Vendor::Generic).await;
    for role in ["ReadOnly", "Operator"] {
        let account = json!({"UserName": role, "Password": "s3cret", "RoleId": role});
        let made = sim
            .post("/redfish/v1/AccountService/Accounts", &account)
            .await;
        assert_eq!(made.status, 201);
        let ask = |method: Method, path: &str| {
            let url = format!("{}{path}", sim.base);
            sim.client
                .request(method, url)
                .basic_auth(role, Some("s3cret"))
        };
        let look = sim.send(ask(Method::GET, &sim.system())).await;
        assert_eq!(look.status, 200);
        let path = format!("{}/Actions/ComputerSystem.Reset", sim.system());
        let off = ask(Method::POST, &path).json(&json!({"ResetType": "ForceOff"}));
        let expected = if role == "Operator" { 204 } else { 403 };
        assert_eq!(sim.send(off).await.status, expected, "{role}");
        let path = "/redfish/v1/Managers/1/Actions/Manager.Reset";
        let restart = ask(Method::POST, path).json(&json!({}));
        assert_eq!(sim.send(restart).await.status, 403, "{role}");
    }
}

#[tokio::test]
async fn matching_if_none_match_returns_304() {
    let sim = Sim::of(Vendor::OpenBmc).await;
    let said = sim.get(&sim.system()).await;
    let tag = said.header("etag").unwrap();
    let ask = || {
        sim.request(Method::GET, &sim.system())
            .header("If-None-Match", tag)
    };
    let again = sim.send(ask()).await;
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    sim.reset("ForceOff").await;
    assert_eq!(
        sim.send(ask()).await.status,
        200,
        "the ETag must change with the state"
    );
}

#[tokio::test]
async fn allow_header_lists_methods_and_others_are_rejected() {
    let sim = Sim::of(Vendor::Generic).await;
    let head = sim.send(sim.request(Method::HEAD, &sim.system())).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert!(
        head.header("content-length")
            .unwrap()
            .parse::<usize>()
            .unwrap()
            > 100
    );
    let options = sim.send(sim.request(Method::OPTIONS, &sim.system())).await;
    assert_eq!(options.header("allow"), Some("GET, HEAD, PATCH"));
    let refused = sim.send(sim.request(Method::DELETE, &sim.system())).await;
    assert_eq!(
        (refused.status, refused.header("allow")),
        (405, Some("GET, HEAD, PATCH"))
    );
    assert_eq!(sim.get("/redfish/v1/Systems?$expand=.").await.status, 501);
    assert_eq!(sim.get("/redfish/v1/Systems?$top=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rack_of_200_bmcs_starts_within_2_s() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let dir = tempfile::TempDir::new().unwrap();
    let pki = Pki::new(dir.path()).unwrap();
    let names = (1..=200).map(|n| format!("n{n}"));
    let begun = Instant::now();
    let config = RackConfig::new("rack-a", names);
    let rack = Rack::start(config, Some(&pki), None).await.unwrap();
    let started = begun.elapsed();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .build()
        .unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for host in rack.hosts().values() {
        let request = client
            .get(host.system_url().unwrap())
            .basic_auth("admin", Some("secret"));
        asked.spawn(async move { request.send().await.unwrap().status().as_u16() });
    }
    assert!(asked.join_all().await.iter().all(|status| *status == 200));
    println!(
        "200 BMCs: started in {started:?}, all asked in {:?}",
        begun.elapsed()
    );
    assert!(started < Duration::from_secs(2), "{started:?}");
}
