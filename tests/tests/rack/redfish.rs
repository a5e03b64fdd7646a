//! The simulated BMC tested with curl: protocol, power, sessions and faults.

use std::time::Duration;

use crate::rack_support::{Bench, SOON};
use rackhand_tests::rack::redfish::{Profile, Vendor};
use rackhand_tests::rack::{Action, OsState, PowerState, ResetType, Rule};

const SYSTEM: &str = "/redfish/v1/Systems/1";
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const LOGIN: &str = r#"{"UserName":"admin","Password":"secret"}"#;

/// Exit codes of curl.
const COULD_NOT_CONNECT: i32 = 7;
const TIMED_OUT: i32 = 28;
const EMPTY_REPLY: i32 = 52;

#[tokio::test]
async fn service_root_requires_no_login_and_links_the_system() {
    let bench = Bench::start(|_| {}).await;
    for path in ["/redfish/v1", "/redfish/v1/"] {
        let root = bench.curl(path, &[]).await;
        assert_eq!(root.status, 200);
        assert_eq!(root.header("odata-version"), Some("4.0"));
        assert_eq!(root.json()["Systems"]["@odata.id"], "/redfish/v1/Systems");
    }
    let systems = bench.get("/redfish/v1/Systems").await.json();
    assert_eq!(systems["Members"][0]["@odata.id"], SYSTEM);
    let system = bench.get(SYSTEM).await.json();
    assert_eq!(system["UUID"], bench.host.config().uuid);
    assert_eq!(system["SerialNumber"], "SIM-N1");
    assert_eq!(system["PowerState"], "On");
    let target = &system["Actions"]["#ComputerSystem.Reset"]["target"];
    assert_eq!(target, &format!("{SYSTEM}/Actions/ComputerSystem.Reset"));
    for path in ["/redfish/v1/Managers/1", "/redfish/v1/Chassis/1"] {
        assert_eq!(bench.get(path).await.status, 200, "{path}");
    }
    assert_eq!(bench.get("/redfish/v1/Systems/2").await.status, 404);
}

#[tokio::test]
async fn client_without_the_ca_rejects_the_certificate() {
    let bench = Bench::start(|_| {}).await;
    let reply = bench.curl("/redfish/v1", &["--cacert", "/dev/null"]).await;
    assert_ne!(reply.exit, 0);
    let reply = bench.curl("/redfish/v1", &["--insecure"]).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn bmc_without_tls_serves_http() {
    let bench = Bench::start(|host| host.bmc.tls = false).await;
    assert!(bench.host.bmc_url().unwrap().starts_with("http://"));
    assert_eq!(bench.get(SYSTEM).await.status, 200);
}

#[tokio::test]
async fn requests_without_valid_credentials_are_rejected() {
    let bench = Bench::start(|_| {}).await;
    for args in [
        &[][..],
        &["--user", "admin:wrong"],
        &["--header", "X-Auth-Token: none"],
    ] {
        let reply = bench.curl(SYSTEM, args).await;
        assert_eq!(reply.status, 401, "{args:?}");
        assert!(reply.header("www-authenticate").is_some());
        assert!(reply.message_id().ends_with("NoValidSession"));
    }
    let reset = format!("{SYSTEM}/Actions/ComputerSystem.Reset");
    assert_eq!(bench.curl(&reset, &["--json", "{}"]).await.status, 401);
    assert_eq!(bench.host.counters().commands.len(), 0);
}

#[tokio::test]
async fn off_and_on_switch_the_host_and_are_counted() {
    let bench = Bench::start(|_| {}).await;
    let boot = bench.host.view().boot_id.unwrap();
    assert_eq!(bench.reset("ForceOff").await.status, 204);
    let off = |view: &rackhand_tests::rack::HostView| view.power == PowerState::Off;
    bench.host.wait_for(SOON, "off", off).await.unwrap();
    assert_eq!(bench.reported().await, "Off");
    assert_eq!(bench.reset("On").await.status, 204);
    let view = bench
        .host
        .wait_for(SOON, "up", |view| view.os == OsState::Running)
        .await
        .unwrap();
    assert_eq!(bench.reported().await, "On");
    assert_ne!(view.boot_id.unwrap(), boot);
    assert_eq!(
        (view.counters.offs, view.counters.ons, view.counters.resets),
        (1, 1, 0)
    );
    assert_eq!(view.counters.received(ResetType::ForceOff), 1);
}

#[tokio::test]
async fn invalid_reset_is_rejected_and_switches_nothing() {
    let bench = Bench::start(|_| {}).await;
    let path = format!("{SYSTEM}/Actions/ComputerSystem.Reset");
    assert_eq!(bench.reset("Explode").await.status, 400);
    for body in ["{}", "not json"] {
        assert_eq!(
            bench.curl_as_admin(&path, &["--json", body]).await.status,
            400
        );
    }
    assert_eq!(bench.get(&path).await.status, 405);
    assert_eq!(bench.host.counters().commands.len(), 0);
}

#[tokio::test]
async fn status_of_a_redundant_on_differs_by_profile() {
    let expected = [
        (Vendor::Idrac9, 409),
        (Vendor::Ilo5, 400),
        (Vendor::Xcc, 204),
    ];
    for (vendor, status) in expected {
        let bench = Bench::start(|host| host.bmc.profile = Profile::of(vendor)).await;
        assert_eq!(bench.reset("On").await.status, status, "{vendor:?}");
    }
}

#[tokio::test]
async fn dgx_has_an_action_info_and_a_board_system() {
    let bench = Bench::start(|host| host.bmc.profile = Profile::of(Vendor::DgxH100)).await;
    let systems = bench.get("/redfish/v1/Systems").await.json();
    assert_eq!(systems["Members@odata.count"], 2);
    let board = bench
        .get("/redfish/v1/Systems/HGX_Baseboard_0")
        .await
        .json();
    assert!(board["Actions"].is_null());
    let system = bench.get("/redfish/v1/Systems/DGX").await.json();
    let action = &system["Actions"]["#ComputerSystem.Reset"];
    assert!(action["ResetType@Redfish.AllowableValues"].is_null());
    let info = bench
        .get(action["@Redfish.ActionInfo"].as_str().unwrap())
        .await
        .json();
    let values = info["Parameters"][0]["AllowableValues"]
        .as_array()
        .unwrap()
        .clone();
    assert!(values.contains(&"ForceOff".into()));
}

#[tokio::test]
async fn sessions_open_and_end_within_their_limit() {
    let bench = Bench::start(|host| host.bmc.profile.session_limit = 2).await;
    let opened = bench.curl(SESSIONS, &["--json", LOGIN]).await;
    assert_eq!(opened.status, 201);
    let token = format!("X-Auth-Token: {}", opened.header("x-auth-token").unwrap());
    let location = opened.header("location").unwrap().to_owned();
    assert_eq!(bench.curl(SYSTEM, &["--header", &token]).await.status, 200);

    assert_eq!(bench.curl(SESSIONS, &["--json", LOGIN]).await.status, 201);
    let full = bench.curl(SESSIONS, &["--json", LOGIN]).await;
    assert_eq!(full.status, 503);
    assert!(full.message_id().ends_with("SessionLimitExceeded"));

    let ended = bench
        .curl(&location, &["--header", &token, "--request", "DELETE"])
        .await;
    assert_eq!(ended.status, 204);
    assert_eq!(bench.curl(SYSTEM, &["--header", &token]).await.status, 401);
    assert_eq!(
        (bench.host.sessions_open(), bench.host.sessions_opened()),
        (1, 2)
    );

    let wrong = r#"{"UserName":"admin","Password":"wrong"}"#;
    assert_eq!(bench.curl(SESSIONS, &["--json", wrong]).await.status, 401);
}

#[tokio::test]
async fn lie_off_reports_off_while_the_power_is_on() {
    let bench = Bench::start(|_| {}).await;
    let lie = bench.host.report_off();
    assert_eq!(bench.reported().await, "Off");
    assert_eq!(bench.host.real_power(), PowerState::On);
    assert!(bench.host.clear_fault(lie));
    assert_eq!(bench.reported().await, "On");
}

#[tokio::test]
async fn stuck_power_off_is_reported_as_powering_off() {
    let bench = Bench::start(|_| {}).await;
    bench.host.stuck_powering_off(true);
    assert_eq!(bench.reset("ForceOff").await.status, 204);
    assert_eq!(bench.reported().await, "PoweringOff");
    assert!(bench.host.real_power().is_powered());
    bench.host.stuck_powering_off(false);
    let off = |view: &rackhand_tests::rack::HostView| view.power == PowerState::Off;
    bench.host.wait_for(SOON, "off", off).await.unwrap();
}

#[tokio::test]
async fn ignored_commands_are_counted_and_switch_nothing() {
    let bench = Bench::start(|_| {}).await;
    bench.host.ignore_commands();
    assert_eq!(bench.reset("ForceOff").await.status, 204);
    let view = bench.host.view();
    assert_eq!((view.power, view.counters.offs), (PowerState::On, 0));
    assert_eq!(view.counters.received(ResetType::ForceOff), 1);
}

#[tokio::test]
async fn lost_response_follows_a_completed_reset() {
    let bench = Bench::start(|_| {}).await;
    bench.host.lose_next_answer();
    assert_eq!(bench.reset("ForceRestart").await.exit, EMPTY_REPLY);
    assert_eq!(bench.host.counters().resets, 1);
    assert_eq!(bench.get(SYSTEM).await.status, 200);
}

#[tokio::test]
async fn identity_and_credentials_can_be_wrong() {
    let bench = Bench::start(|_| {}).await;
    bench.host.foreign_uuid();
    let system = bench.get(SYSTEM).await.json();
    assert_ne!(system["UUID"], bench.host.config().uuid);
    bench.host.clear_faults();
    bench.host.anonymous();
    let system = bench.get(SYSTEM).await.json();
    assert!(system["UUID"].is_null() && system["SerialNumber"].is_null());
    bench.host.refuse_auth();
    assert_eq!(bench.get(SYSTEM).await.status, 401);
    assert_eq!(bench.curl(SESSIONS, &["--json", LOGIN]).await.status, 401);
    bench.host.clear_faults();
    bench.host.session_table_full();
    assert_eq!(bench.curl(SESSIONS, &["--json", LOGIN]).await.status, 503);
    assert_eq!(bench.get(SYSTEM).await.status, 200);
}

#[tokio::test]
async fn fault_rules_apply_in_order_and_expire() {
    let bench = Bench::start(|_| {}).await;
    let status = |status| Action::Status {
        status,
        body: None,
        headers: [("Retry-After".to_owned(), "1".to_owned())].into(),
    };
    bench.host.inject(
        Rule::always(status(503))
            .on("GET", "/redfish/v1/Systems/*")
            .times(1),
    );
    bench.host.inject(
        Rule::always(Action::Html { status: 500 })
            .on("GET", "**")
            .times(1),
    );
    let first = bench.get(SYSTEM).await;
    assert_eq!(
        (first.status, first.header("retry-after")),
        (503, Some("1"))
    );
    let second = bench.get(SYSTEM).await;
    assert_eq!(second.status, 500);
    assert!(second.body.starts_with("<html>"));
    assert_eq!(bench.get(SYSTEM).await.status, 200);
    assert_eq!(
        bench.host.faults().len(),
        2,
        "rules that have run out stay visible"
    );
}

#[tokio::test]
async fn fault_rule_applies_to_its_path_only() {
    let bench = Bench::start(|_| {}).await;
    bench
        .host
        .inject(Rule::always(Action::Drop).on("GET", "/redfish/v1/Systems/*"));
    assert_eq!(bench.get(SYSTEM).await.exit, EMPTY_REPLY);
    assert_eq!(bench.get("/redfish/v1/Systems").await.status, 200);
    assert_eq!(bench.reset("ForceOff").await.status, 204);
}

#[tokio::test]
async fn stale_bmc_reports_an_old_state_and_a_silent_one_times_out() {
    let bench = Bench::start(|_| {}).await;
    let age = Duration::from_secs(3600);
    bench.host.inject(Rule::always(Action::Stale { age }));
    bench.reset("ForceOff").await;
    let off = |view: &rackhand_tests::rack::HostView| view.power == PowerState::Off;
    bench.host.wait_for(SOON, "off", off).await.unwrap();
    assert_eq!(bench.reported().await, "On");
    bench.host.silent();
    assert_eq!(
        bench.curl(SYSTEM, &["--max-time", "1"]).await.exit,
        TIMED_OUT
    );
}

#[tokio::test]
async fn dead_bmc_refuses_connections_and_keeps_its_address() {
    let bench = Bench::start(|_| {}).await;
    let address = bench.host.bmc_address().unwrap();
    bench.host.bmc_dead().await.unwrap();
    assert_eq!(bench.get(SYSTEM).await.exit, COULD_NOT_CONNECT);
    assert_eq!(bench.host.real_power(), PowerState::On);
    bench.host.bmc_alive().await.unwrap();
    assert_eq!(bench.host.bmc_address().unwrap(), address);
    assert_eq!(bench.get(SYSTEM).await.status, 200);
}

#[tokio::test]
async fn stopped_rack_closes_its_ports() {
    let bench = Bench::start(|_| {}).await;
    bench.rack.stop().await;
    assert_eq!(bench.get(SYSTEM).await.exit, COULD_NOT_CONNECT);
}
