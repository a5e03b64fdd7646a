//! Each profile of the simulated BMC, tested with plain reqwest: the properties in which all
//! profiles differ. Behaviour of single profiles is in `quirks.rs`.

use crate::rack_support::redfish_client::Sim;
use rackhand_tests::rack::PowerState;
use rackhand_tests::rack::redfish::Vendor;
use serde_json::{Value, json};

/// Characteristics of a profile.
struct Facts {
    vendor: Vendor,
    system: &'static str,
    types: &'static str,
    /// Whether the reset types are in the action, and in an ActionInfo.
    inline: bool,
    info: bool,
    tag: Tag,
    light: &'static str,
    /// Suffix of the system's path for its boot settings.
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
fn table_covers_every_profile() {
    let mut listed = TABLE.map(|facts| facts.vendor);
    let mut known = Vendor::ALL;
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

#[tokio::test]
async fn system_document_matches_its_profile() {
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
async fn reset_responses_differ_by_profile() {
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
async fn boot_override_is_accepted_at_the_path_of_the_profile() {
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
        assert_eq!(sim.host.boots()[0], facts.cd, "{vendor:?}");
        let boot = &sim.shown(&sim.system()).await["Boot"];
        assert_eq!(
            boot["BootSourceOverrideEnabled"], "Disabled",
            "{vendor:?}: only once"
        );
    }
}

#[tokio::test]
async fn led_is_switched_by_the_property_of_the_profile_only() {
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
