//! Detection of a wrong BMC clock, which dates the event log wrongly.

use rackhand_proto::v1::{self, Verdict};
use rackhand_tests::{
    pki::Pki,
    rack::{
        Rack, RackConfig,
        ipmi::{Farm, FarmConfig, Privilege, User},
    },
};
use serde_json::json;

use super::site::{Client, PASSWORD, Site, target};

/// The clock check of a host: verdict, finding, advice.
async fn clock(client: &mut Client, host: &str) -> (Verdict, String, String) {
    let request = v1::CheckHostRequest {
        target: target(host),
        timeout: None,
    };
    let checks = client.check_host(request).await.unwrap().into_inner();
    let found = checks.checks.iter().find(|check| check.check == "clock");
    let check = found.unwrap_or_else(|| panic!("{host}: {checks:?}"));
    (check.verdict(), check.found.clone(), check.advice.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_check_detects_clock_skew_by_redfish_and_ipmi() {
    let pki_dir = tempfile::tempdir().unwrap();
    let pki = Pki::new(pki_dir.path()).unwrap();
    let rack = Rack::start(RackConfig::new("r1", ["redfish"]), Some(&pki), None).await;
    let rack = rack.unwrap();
    let redfish = rack.host("redfish").unwrap();
    let url = redfish.system_url().unwrap();
    let mut farm = FarmConfig::new(1);
    farm.bmc.users = vec![User::new("admin", PASSWORD, Privilege::Administrator)];
    let earlier = jiff::Timestamp::now().as_second() - 3 * 3600 - 60;
    farm.bmc.clock = u32::try_from(earlier).unwrap();
    let farm = Farm::start(&farm).await.unwrap();
    let mut site = Site::new(&json!([
        {"name": "redfish", "bmc": {
            "address": url.replacen("https://", "redfish+https://", 1),
            "username": "admin", "password_file": "secret",
            "trust": {"ca_file": pki.ca_file()}}},
        {"name": "ipmi", "bmc": {
            "address": format!("ipmi://{}", farm.bmcs()[0].address()),
            "username": "admin", "password_file": "password"}},
    ]));
    std::fs::write(site.dir.path().join("secret"), "secret").unwrap();
    site.start().await;
    let mut client = site.local().await;

    let (verdict, found, _) = clock(&mut client, "redfish").await;
    assert_eq!(verdict, Verdict::Ok, "{found}");
    assert!(!found.contains("no time"), "{found}");
    for (ahead, says) in [(-3 * 3600, "3 h behind"), (400, "6 min ahead")] {
        let wrong = redfish.wrong_clock(ahead);
        let (verdict, found, advice) = clock(&mut client, "redfish").await;
        assert_eq!(verdict, Verdict::Warning, "{found}");
        assert!(found.contains(says), "{found}");
        assert!(advice.contains("NTP"), "{advice}");
        redfish.clear_fault(wrong);
    }
    let (verdict, found, _) = clock(&mut client, "ipmi").await;
    assert_eq!(verdict, Verdict::Warning, "{found}");
    assert!(found.contains("3 h behind"), "{found}");
    site.stop();
}
