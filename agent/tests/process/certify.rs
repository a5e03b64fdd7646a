//! `host certify` against simulated makes, and `sim --recording`.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::simulated::{Sim, bare};

/// Short times, so that a certification takes seconds.
const QUICK: [&str; 6] = [
    "--yes",
    "--off-for",
    "1s",
    "--soft-off-limit",
    "20s",
    "--without-nmi",
];

fn certify(sim: &Sim, host: &str, more: &[&str]) -> super::simulated::Ran {
    sim.run(&[&["host", "certify", host], &QUICK[..], more].concat())
}

/// A small recording of our own, in the form without `redfish/v1`.
fn record(dir: &Path) {
    let system = "/redfish/v1/Systems/Blade";
    let chassis = "/redfish/v1/Chassis/Sled";
    for (path, document) in [
        (
            "",
            json!({"RedfishVersion": "1.6.0", "Systems": {"@odata.id": "/redfish/v1/Systems"}}),
        ),
        (
            "Systems",
            json!({"@odata.id": "/redfish/v1/Systems", "Members": [{"@odata.id": system}]}),
        ),
        (
            "Systems/Blade",
            json!({
                "@odata.id": system,
                "Manufacturer": "Contoso",
                "Model": "3500",
                "UUID": "38947555-7742-3448-3784-823347823834",
                "SerialNumber": "437XR1138R2",
                "PowerState": "Off",
                "Links": {"Chassis": [{"@odata.id": chassis}]},
                "Actions": {"#ComputerSystem.Reset": {
                    "target": format!("{system}/Actions/ComputerSystem.Reset"),
                    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart"],
                }},
            }),
        ),
        (
            "Chassis",
            json!({"@odata.id": "/redfish/v1/Chassis", "Members": [{"@odata.id": chassis}]}),
        ),
        (
            "Chassis/Sled",
            json!({"@odata.id": chassis, "PowerState": "Off"}),
        ),
    ] {
        let folder = dir.join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("index.json"), document.to_string()).unwrap();
    }
}

#[test]
fn simulated_makes_are_certified_and_left_as_they_were() {
    let sim = Sim::start(&["--hosts", "4", "--dead", "1"]);
    let reports = TempDir::new().unwrap();
    let dir = reports.path().join("r1");
    let ran = certify(&sim, "sim-01", &["--dir", dir.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("host sim-01: on, as it was found"),
        "{}",
        ran.err
    );
    let json: Value = serde_json::from_slice(&fs::read(dir.join("report.json")).unwrap()).unwrap();
    assert_ne!(json["overall"], "failed", "{json}");
    assert_eq!(json["vendor"], "Dell Inc.");
    let config = fs::read_to_string(sim.config()).unwrap();
    let uuids = config
        .lines()
        .filter_map(|line| line.strip_prefix("system_uuid = "));
    let uuid = uuids.map(|uuid| uuid.trim_matches('"')).next().unwrap();
    let markdown = fs::read_to_string(dir.join("report.md")).unwrap();
    assert_eq!(markdown, ran.out);
    for text in [markdown, json.to_string()] {
        for secret in [uuid, "sim-01", "127.0.0.1", "SIM-"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }

    // By IPMI, and found off.
    assert_eq!(sim.run(&["power", "off", "sim-03"]).code, 0);
    let ran = certify(&sim, "sim-03", &["-o", "json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(
        ran.err.contains("host sim-03: off, as it was found"),
        "{}",
        ran.err
    );
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["steps"][0]["readings"][0]["read"]["protocol"], "ipmi");

    let ran = certify(&sim, "sim-04", &[]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    assert!(ran.err.contains("nothing was switched"), "{}", ran.err);
    assert!(ran.err.contains("`host check sim-04`"), "{}", ran.err);
}

#[test]
fn certification_needs_consent_and_an_unused_host() {
    let sim = Sim::start(&["--hosts", "1", "--dead", "0"]);
    let ran = sim.run(&["host", "certify", "sim-01"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("requires --yes"), "{}", ran.err);
    let ran = certify(&sim, "sim-01", &["--force"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let ran = certify(&sim, "sim-01", &["--dry-run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("sim-01: switch off hard"), "{}", ran.out);
    let on = sim.run(&["power", "status", "sim-01", "-o", "json"]);
    assert!(on.out.contains("\"power\": \"on\""), "{}", on.out);
}

#[test]
fn recorded_machine_is_served_with_power_that_moves() {
    let folder = TempDir::new().unwrap();
    record(folder.path());
    let path = folder.path().to_str().unwrap();
    let sim = Sim::start(&["--recording", path]);
    let off = sim.run(&["power", "status", "sim-01", "-o", "json"]);
    assert!(
        off.out.contains("\"power\": \"off\""),
        "{}{}",
        off.out,
        off.err
    );
    let ran = certify(&sim, "sim-01", &["-o", "json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["model"], "3500");
    assert!(!ran.out.contains("437XR1138R2"), "{}", ran.out);

    fs::write(folder.path().join("Systems/index.json"), "{").unwrap();
    let ran = bare(&["sim", "--recording", path]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("Systems/index.json is not a document"),
        "{}",
        ran.err
    );
}
