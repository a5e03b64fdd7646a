//! Each make of simulated BMC, asked by plain reqwest, behaves as the real one is reported to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod rack_support;

use rack_support::ask::Sim;
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{OsState, PowerState};
use reqwest::Method;
use serde_json::{Value, json};

/// What a make is known by.
struct Facts {
    vendor: Vendor,
    system: &'static str,
    types: &'static str,
    /// In the action, in an ActionInfo.
    inline: bool,
    info: bool,
    tag: Tag,
    light: &'static str,
    /// What is added to the System's path for its boot settings.
    boot: &'static str,
    cd: &'static str,
    /// Status and message of `On` while the power is on.
    already: (u16, &'static str),
    /// Status and message of a reset that is taken.
    taken: (u16, &'static str),
    power: bool,
    sensors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Tag {
    None,
    Weak,
    Strong,
}

const DELL: &str = "On ForceOff ForceRestart GracefulRestart GracefulShutdown PushPowerButton Nmi \
                    PowerCycle";
const HPE: &str = "On ForceOff GracefulShutdown ForceRestart Nmi PushPowerButton GracefulRestart";
const SMC: &str = "On ForceOff GracefulShutdown GracefulRestart ForceRestart Nmi ForceOn";
const ALL: &str = "On ForceOn ForceOff GracefulShutdown GracefulRestart ForceRestart PowerCycle \
                   PushPowerButton Nmi";

const GENERIC: Facts = Facts {
    vendor: Vendor::Generic,
    system: "1",
    types: ALL,
    inline: true,
    info: false,
    tag: Tag::Strong,
    light: "LocationIndicatorActive",
    boot: "",
    cd: "Cd",
    already: (204, ""),
    taken: (204, ""),
    power: true,
    sensors: true,
};

const IDRAC9: Facts = Facts {
    vendor: Vendor::Idrac9,
    system: "System.Embedded.1",
    types: DELL,
    tag: Tag::None,
    light: "IndicatorLED",
    already: (409, "NoOperation"),
    ..GENERIC
};

const ILO5: Facts = Facts {
    vendor: Vendor::Ilo5,
    types: HPE,
    tag: Tag::Weak,
    light: "IndicatorLED",
    already: (400, "InvalidOperationForSystemState"),
    taken: (200, "Success"),
    sensors: false,
    ..GENERIC
};

const X13: Facts = Facts {
    vendor: Vendor::SupermicroX13,
    types: SMC,
    inline: false,
    info: true,
    cd: "UsbCd",
    already: (202, ""),
    taken: (202, ""),
    ..GENERIC
};

const TABLE: [Facts; 10] = [
    GENERIC,
    IDRAC9,
    Facts {
        vendor: Vendor::Idrac10,
        tag: Tag::Strong,
        boot: "/Settings",
        ..IDRAC9
    },
    ILO5,
    Facts {
        vendor: Vendor::Ilo6,
        sensors: true,
        ..ILO5
    },
    Facts {
        vendor: Vendor::Xcc,
        types: "On Nmi GracefulShutdown GracefulRestart ForceOn ForceOff ForceRestart",
        info: true,
        light: "IndicatorLED",
        boot: "/Pending",
        ..GENERIC
    },
    X13,
    Facts {
        vendor: Vendor::SupermicroX12,
        sensors: false,
        ..X13
    },
    Facts {
        vendor: Vendor::DgxH100,
        system: "DGX",
        inline: false,
        info: true,
        light: "IndicatorLED",
        boot: "/SD",
        ..GENERIC
    },
    Facts {
        vendor: Vendor::OpenBmc,
        system: "system",
        types: "On ForceOff ForceOn ForceRestart GracefulRestart GracefulShutdown PowerCycle Nmi",
        inline: false,
        info: true,
        power: false,
        ..GENERIC
    },
];

#[test]
fn the_table_has_every_make() {
    let mut listed = TABLE.map(|facts| facts.vendor);
    let mut known = Vendor::ALL;
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[tokio::test]
async fn a_system_shows_what_its_make_is_known_by() {
    for facts in TABLE {
        let sim = Sim::of(facts.vendor).await;
        let path = format!("/redfish/v1/Systems/{}", facts.system);
        let said = sim.get(&path).await;
        let system = said.json();
        let vendor = facts.vendor;

        let action = &system["Actions"]["#ComputerSystem.Reset"];
        let wanted: Vec<_> = facts.types.split_whitespace().collect();
        let inline = &action["ResetType@Redfish.AllowableValues"];
        let expected = if facts.inline {
            json!(wanted)
        } else {
            Value::Null
        };
        assert_eq!(*inline, expected, "{vendor:?}");
        match action["@Redfish.ActionInfo"].as_str() {
            Some(info) => {
                let info = sim.shown(info).await;
                let parameter = &info["Parameters"][0];
                assert_eq!(parameter["AllowableValues"], json!(wanted), "{vendor:?}");
            }
            None => assert!(!facts.info, "{vendor:?}"),
        }

        let tag = match said.header("etag") {
            None => Tag::None,
            Some(tag) if tag.starts_with("W/\"") => Tag::Weak,
            Some(_) => Tag::Strong,
        };
        assert_eq!(tag, facts.tag, "{vendor:?}");
        assert_eq!(system["@odata.etag"].as_str(), said.header("etag"));

        for light in ["IndicatorLED", "LocationIndicatorActive"] {
            assert_eq!(
                !system[light].is_null(),
                light == facts.light,
                "{vendor:?} {light}"
            );
        }
        let chassis = system["Links"]["Chassis"][0]["@odata.id"].as_str().unwrap();
        let chassis = sim.shown(chassis).await;
        for (link, there) in [
            ("Power", facts.power),
            ("Thermal", facts.power),
            ("Sensors", facts.sensors),
            ("PowerSubsystem", facts.sensors),
            ("ThermalSubsystem", facts.sensors),
            ("EnvironmentMetrics", facts.sensors),
        ] {
            let linked = chassis[link]["@odata.id"].as_str();
            assert_eq!(linked.is_some(), there, "{vendor:?} {link}");
            if let Some(linked) = linked {
                sim.shown(linked).await;
            }
        }
    }
}

#[tokio::test]
async fn each_make_says_yes_and_already_in_its_own_way() {
    for facts in TABLE {
        let sim = Sim::of(facts.vendor).await;
        sim.host.single_step(true);
        for (reset, (status, message)) in [("On", facts.already), ("ForceOff", facts.taken)] {
            let said = sim.reset(reset).await;
            assert_eq!(said.status, status, "{:?} {reset}: {said:?}", facts.vendor);
            assert!(said.header("location").is_none(), "{:?}", facts.vendor);
            if message.is_empty() {
                assert_eq!(said.text, "", "{:?} {reset}", facts.vendor);
            } else {
                assert_eq!(said.message(), message, "{:?} {reset}", facts.vendor);
            }
        }
        assert_eq!(sim.host.step().len(), 1);
        assert_eq!(sim.host.real_power(), PowerState::Off);
        let again = sim.reset("ForceOff").await;
        assert_eq!(
            again.status, facts.already.0,
            "{:?} off again",
            facts.vendor
        );
        assert_eq!(sim.host.counters().offs, 1);
    }
}

#[tokio::test]
async fn the_boot_source_is_set_where_the_make_wants_it() {
    for facts in TABLE {
        let sim = Sim::of(facts.vendor).await;
        sim.host.single_step(true);
        let (vendor, path) = (facts.vendor, format!("{}{}", sim.system(), facts.boot));
        let star = (vendor == Vendor::DgxH100).then_some("*");
        let wanted = |target: &str| {
            json!({"Boot": {"BootSourceOverrideEnabled": "Once",
                            "BootSourceOverrideTarget": target}})
        };
        let system = sim.shown(&sim.system()).await;
        let link = &system["@Redfish.Settings"]["SettingsObject"]["@odata.id"];
        let expected = if facts.boot.is_empty() {
            Value::Null
        } else {
            json!(path)
        };
        assert_eq!(*link, expected, "{vendor:?}");
        let offered = &system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"];
        assert!(
            offered.as_array().unwrap().contains(&json!(facts.cd)),
            "{vendor:?}"
        );

        if !facts.boot.is_empty() {
            let wrong = sim.patch(&sim.system(), star, &wanted("Pxe")).await;
            assert_eq!(
                (wrong.status, wrong.message().as_str()),
                (400, "PropertyNotWritable")
            );
        }
        let unknown = sim.patch(&path, star, &wanted("Floppy")).await;
        assert_eq!(
            (unknown.status, unknown.message().as_str()),
            (400, "PropertyValueNotInList")
        );
        let said = sim.patch(&path, star, &wanted(facts.cd)).await;
        assert_eq!(said.status, facts.taken.0, "{vendor:?}: {said:?}");
        let boot = &sim.shown(&path).await["Boot"];
        assert_eq!(boot["BootSourceOverrideTarget"], facts.cd, "{vendor:?}");

        // Its own type of reset: every make has this one.
        sim.reset("ForceRestart").await;
        assert_eq!(sim.host.boots()[0].from, facts.cd, "{vendor:?}");
        let boot = &sim.shown(&sim.system()).await["Boot"];
        assert_eq!(
            boot["BootSourceOverrideEnabled"], "Disabled",
            "{vendor:?}: only once"
        );
    }
}

#[tokio::test]
async fn the_light_can_be_switched_by_its_own_name_only() {
    for facts in TABLE {
        let sim = Sim::of(facts.vendor).await;
        let star = (facts.vendor == Vendor::DgxH100).then_some("*");
        let (on, other) = match facts.light {
            "IndicatorLED" => (json!("Blinking"), "LocationIndicatorActive"),
            _ => (json!(true), "IndicatorLED"),
        };
        let said = sim
            .patch(&sim.system(), star, &json!({facts.light: on}))
            .await;
        assert_eq!(said.status, facts.taken.0, "{:?}", facts.vendor);
        assert_eq!(sim.shown(&sim.system()).await[facts.light], on);
        let said = sim.patch(&sim.system(), star, &json!({other: on})).await;
        assert_eq!(
            (said.status, said.message().as_str()),
            (400, "PropertyUnknown")
        );
    }
    let idrac = Sim::of(Vendor::Idrac9).await;
    assert_eq!(
        idrac.shown(&idrac.system()).await["IndicatorLED"],
        "Lit",
        "at rest"
    );
}

#[tokio::test]
async fn if_match_means_something_else_to_each_make() {
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
            sim.host.panel(|_, panel| format!("{:?}", panel.light)) == "Off",
            status >= 400
        );
    }
}

#[tokio::test]
async fn only_idrac10_refuses_if_match_on_an_action() {
    for vendor in Vendor::ALL {
        let sim = Sim::of(vendor).await;
        let tag = sim.get(&sim.system()).await;
        let tag = tag.header("etag").unwrap_or("*").to_owned();
        let path = format!("{}/Actions/ComputerSystem.Reset", sim.system());
        let request = sim.ask(Method::POST, &path).header("If-Match", tag);
        let said = sim
            .send(request.json(&json!({"ResetType": "ForceOff"})))
            .await;
        let refused = said.status == 412;
        assert_eq!(refused, vendor == Vendor::Idrac10, "{vendor:?}");
        assert_eq!(sim.host.counters().commands.is_empty(), refused);
    }
}

#[tokio::test]
async fn idrac10_refuses_on_soon_after_off() {
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
async fn ilo_refuses_a_boot_source_in_post() {
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
async fn others_tell_of_post_by_boot_progress() {
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
async fn idrac_has_eight_sessions_and_says_rac0218() {
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
async fn a_session_ends_when_it_is_idle() {
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
async fn some_take_only_tokens_and_some_only_passwords() {
    let tokens = Sim::start(|host| host.bmc.profile.basic_auth = false).await;
    assert_eq!(tokens.get(&tokens.system()).await.status, 401);
    let token = tokens
        .login()
        .await
        .header("x-auth-token")
        .unwrap()
        .to_owned();
    let url = format!("{}{}", tokens.base, tokens.system());
    let said = tokens
        .send(tokens.client.get(url).header("X-Auth-Token", token))
        .await;
    assert_eq!(said.status, 200);

    let passwords = Sim::start(|host| host.bmc.profile.sessions = false).await;
    assert_eq!(passwords.login().await.status, 401);
    let root = passwords.shown("/redfish/v1").await;
    assert!(root["SessionService"].is_null() && root["Links"]["Sessions"].is_null());
    assert_eq!(passwords.get(&passwords.system()).await.status, 200);
}

#[tokio::test]
async fn the_gpu_board_of_a_dgx_has_no_reset_and_goes_with_its_host() {
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
async fn a_restart_of_the_bmc_refuses_then_is_not_ready_and_forgets_its_sessions() {
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
        .try_send(sim.ask(Method::GET, &sim.system()))
        .await
        .unwrap_err();
    assert!(refused.is_connect(), "{refused:?}");
    assert_eq!(sim.host.step().len(), 0, "nothing is switched");
    sim.host.bmc_listens(true).await.unwrap();

    let early = sim.get(&sim.system()).await;
    assert_eq!((early.status, early.message().as_str()), (503, "SYS518"));
    assert_eq!(early.header("retry-after"), Some("30"));
    assert_eq!(
        sim.get("/redfish/v1").await.status,
        200,
        "the root comes first"
    );
    sim.host.step();
    let url = format!("{}{}", sim.base, sim.system());
    let old = sim.client.get(url).header("X-Auth-Token", token);
    assert_eq!(sim.send(old).await.status, 401);
    assert_eq!(sim.get(&sim.system()).await.status, 200);
    assert_eq!(sim.host.real_power(), PowerState::On);
}
