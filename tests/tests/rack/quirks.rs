//! Behaviour of single BMC profiles, tested with plain reqwest.

use crate::rack_support::redfish_client::Sim;
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{OsState, PowerState};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn if_match_rules_differ_by_profile() {
    let own = "own";
    let cases = [
        (Vendor::Generic, None, 204),
        (Vendor::Generic, Some("*"), 204),
        (Vendor::Generic, Some(own), 204),
        (Vendor::Generic, Some("\"other\""), 412),
        (Vendor::Idrac9, Some("\"other\""), 204),
        (Vendor::Idrac10, Some(own), 204),
        (Vendor::Idrac10, Some("\"other\""), 412),
        (Vendor::Ilo5, None, 200),
        (Vendor::Ilo5, Some(own), 200),
        (Vendor::Ilo5, Some("*"), 412),
        (Vendor::Ilo6, Some("*"), 412),
        (Vendor::DgxH100, None, 428),
        (Vendor::DgxH100, Some(own), 412),
        (Vendor::DgxH100, Some("*"), 204),
        (Vendor::Xcc, Some(own), 204),
    ];
    for (vendor, sent, status) in cases {
        let sim = Sim::of(vendor).await;
        let said = sim.get(&sim.system()).await;
        let tag = match sent {
            Some("own") => said.header("etag"),
            sent => sent,
        };
        let light = match said.json()["IndicatorLED"] {
            Value::Null => json!({"LocationIndicatorActive": true}),
            _ => json!({"IndicatorLED": "Blinking"}),
        };
        let said = sim.patch(&sim.system(), tag, &light).await;
        assert_eq!(said.status, status, "{vendor:?} {sent:?}");
        assert_eq!(
            sim.host
                .with_settings(|_, settings| format!("{:?}", settings.led))
                == "Off",
            status >= 400
        );
    }
}

#[tokio::test]
async fn only_idrac10_rejects_if_match_on_an_action() {
    for vendor in Vendor::ALL {
        let sim = Sim::of(vendor).await;
        let tag = sim.get(&sim.system()).await;
        let tag = tag.header("etag").unwrap_or("*").to_owned();
        let path = format!("{}/Actions/ComputerSystem.Reset", sim.system());
        let request = sim.request(Method::POST, &path).header("If-Match", tag);
        let said = sim
            .send(request.json(&json!({"ResetType": "ForceOff"})))
            .await;
        let refused = said.status == 412;
        assert_eq!(refused, vendor == Vendor::Idrac10, "{vendor:?}");
        assert_eq!(sim.host.counters().commands.is_empty(), refused);
    }
}

#[tokio::test]
async fn idrac10_rejects_on_soon_after_off() {
    let sim = Sim::of(Vendor::Idrac10).await;
    sim.host.single_step(true);
    sim.reset("ForceOff").await;
    sim.host.step();
    let early = sim.reset("On").await;
    assert_eq!(
        (early.status, early.message().as_str()),
        (409, "ActionParameterValueConflict")
    );
    sim.forward(3);
    assert_eq!(sim.reset("On").await.status, 204);
    assert_eq!(sim.host.counters().received("On".parse().unwrap()), 2);
}

#[tokio::test]
async fn ilo_rejects_a_boot_override_in_post() {
    let sim = Sim::of(Vendor::Ilo6).await;
    sim.host.single_step(true);
    sim.reset("ForceRestart").await;
    let post = |system: Value| system["Oem"]["Hpe"]["PostState"].clone();
    assert_eq!(post(sim.shown(&sim.system()).await), "InPost");
    let wanted = json!({"Boot": {"BootSourceOverrideTarget": "Pxe"}});
    let early = sim.patch(&sim.system(), None, &wanted).await;
    assert_eq!(
        (early.status, early.message().as_str()),
        (400, "UnableToModifyDuringSystemPOST")
    );
    sim.host.step();
    assert_eq!(sim.host.view().os, OsState::Running);
    assert_eq!(post(sim.shown(&sim.system()).await), "FinishedPost");
    assert_eq!(sim.patch(&sim.system(), None, &wanted).await.status, 200);
}

#[tokio::test]
async fn openbmc_reports_post_as_boot_progress() {
    let sim = Sim::of(Vendor::OpenBmc).await;
    sim.host.single_step(true);
    sim.reset("ForceRestart").await;
    let system = sim.shown(&sim.system()).await;
    assert_eq!(
        system["BootProgress"]["LastState"],
        "SystemHardwareInitializationComplete"
    );
}

#[tokio::test]
async fn idrac_rejects_the_ninth_session_with_rac0218() {
    for (vendor, message) in [
        (Vendor::Idrac9, "RAC0218"),
        (Vendor::Generic, "SessionLimitExceeded"),
    ] {
        let sim = Sim::of(vendor).await;
        for _ in 0..8 {
            assert_eq!(sim.login().await.status, 201);
        }
        let full = sim.login().await;
        assert_eq!((full.status, full.message().as_str()), (503, message));
        assert_eq!(
            sim.get(&sim.system()).await.status,
            200,
            "basic still works"
        );
    }
}

#[tokio::test]
async fn idle_session_expires() {
    let sim = Sim::of(Vendor::Generic).await;
    sim.host.single_step(true);
    let token = sim.login().await.header("x-auth-token").unwrap().to_owned();
    let ask = || {
        let url = format!("{}{}", sim.base, sim.system());
        sim.client.get(url).header("X-Auth-Token", &token)
    };
    sim.forward(299);
    assert_eq!(sim.send(ask()).await.status, 200);
    sim.forward(300);
    assert_eq!(sim.send(ask()).await.status, 401);
}

#[tokio::test]
async fn dgx_gpu_board_has_no_reset_and_follows_its_host() {
    let sim = Sim::of(Vendor::DgxH100).await;
    sim.host.single_step(true);
    let systems = sim.shown("/redfish/v1/Systems").await;
    assert_eq!(systems["Members@odata.count"], 2);
    let board = systems["Members"][0]["@odata.id"].as_str().unwrap();
    assert!(sim.shown(board).await["Actions"].is_null());
    let reset = format!("{board}/Actions/ComputerSystem.Reset");
    assert_eq!(
        sim.post(&reset, &json!({"ResetType": "ForceOff"}))
            .await
            .status,
        404
    );
    sim.reset("ForceOff").await;
    sim.host.step();
    assert_eq!(sim.get(board).await.status, 503);
    assert_eq!(sim.get(&sim.system()).await.status, 200);
}

#[tokio::test]
async fn bmc_reset_is_unreachable_then_not_ready_and_drops_sessions() {
    let sim = Sim::of(Vendor::Idrac9).await;
    sim.host.single_step(true);
    let token = sim.login().await.header("x-auth-token").unwrap().to_owned();
    let manager = "/redfish/v1/Managers/iDRAC.Embedded.1";
    let offered = sim.shown(manager).await;
    let action = &offered["Actions"]["#Manager.Reset"];
    assert_eq!(
        action["ResetType@Redfish.AllowableValues"],
        json!(["GracefulRestart"])
    );
    let target = action["target"].as_str().unwrap();
    assert_eq!(
        sim.post(target, &json!({"ResetType": "ForceRestart"}))
            .await
            .status,
        400
    );
    assert_eq!(
        sim.post(target, &json!({"ResetType": "GracefulRestart"}))
            .await
            .status,
        204
    );

    sim.host.bmc_listens(false).await.unwrap();
    let refused = sim
        .try_send(sim.request(Method::GET, &sim.system()))
        .await
        .unwrap_err();
    assert!(refused.is_connect(), "{refused:?}");
    assert_eq!(sim.host.step().len(), 0, "the power was switched");
    sim.host.bmc_listens(true).await.unwrap();

    let early = sim.get(&sim.system()).await;
    assert_eq!((early.status, early.message().as_str()), (503, "SYS518"));
    assert_eq!(early.header("retry-after"), Some("30"));
    assert_eq!(
        sim.get("/redfish/v1").await.status,
        200,
        "the service root is available first"
    );
    sim.host.step();
    let url = format!("{}{}", sim.base, sim.system());
    let old = sim.client.get(url).header("X-Auth-Token", token);
    assert_eq!(sim.send(old).await.status, 401);
    assert_eq!(sim.get(&sim.system()).await.status, 200);
    assert_eq!(sim.host.real_power(), PowerState::On);
}
