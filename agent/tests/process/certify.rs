//! `host certify` against simulated makes, and `sim --recording`.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{Daemon, PASSWORD, Redfish, Site, UUID, command, wait_for};

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

#[tokio::test]
async fn held_host_is_not_certified() {
    let sim = Sim::start(&["--hosts", "1", "--dead", "0"]);
    sim.hold("sim-01").await;
    for more in [&["--dry-run"][..], &[]] {
        let ran = certify(&sim, "sim-01", more);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{}", ran.err);
        assert!(ran.err.contains("is held off by"), "{}", ran.err);
    }
    let off = sim.run(&["power", "status", "sim-01", "-o", "json"]);
    assert!(off.out.contains("\"power\": \"off\""), "{}", off.out);
}

/// A certification of the first host, and what it printed until it began this step.
fn until(site: &Site, dir: &Path, step: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let dir = dir.to_str().unwrap();
    let args = ["host", "certify", "node-1", "--yes", "--dir", dir];
    let mut child = command(site, &args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.ends_with(&format!("node-1: {step}\n")) {
        let read = err.read_line(&mut said).unwrap();
        assert!(read > 0, "it ended before {step:?}: {said}");
    }
    (child, err)
}

/// Ends it; returns its exit code and what it printed after that.
fn ended_by(
    signal: Signal,
    (mut child, mut err): (Child, BufReader<std::process::ChildStderr>),
) -> (i32, String) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
    let mut said = String::new();
    err.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code().unwrap(), said)
}

fn report(dir: &Path) -> (String, Value) {
    let json = fs::read_to_string(dir.join("report.json")).unwrap();
    let markdown = fs::read_to_string(dir.join("report.md")).unwrap();
    for secret in [PASSWORD, UUID, "node-1", "worker-1", "127.0.0.1", "ABC123"] {
        assert!(!markdown.contains(secret), "{secret}: {markdown}");
        assert!(!json.contains(secret), "{secret}: {json}");
    }
    (markdown, serde_json::from_str(&json).unwrap())
}

#[test]
fn f17_interrupted_certification_sends_no_further_power_off() {
    let bmc = Redfish::start();
    // It takes power-offs, and carries none out.
    bmc.set_stubborn();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let dir = site.dir.path().join("report");
    let running = until(&site, &dir, "switch off hard");
    wait_for("a power-off is sent", || bmc.offs() > 0);
    let (code, said) = ended_by(Signal::SIGINT, running);
    assert_eq!(code, 1, "{said}");
    let line =
        "node-1: ended by SIGINT at: switch off hard; a command that was sent is not revoked";
    assert!(said.contains(line), "{said}");
    let last = said.lines().last().unwrap();
    assert_eq!(last, "host node-1: on, as it was found");

    let listed = || daemon.run(&["operations", "list", "-o", "json"]).out;
    wait_for("its operation ends", || {
        let all: Value = serde_json::from_str(&listed()).unwrap();
        all[0]["result"] == "caller-gone"
    });
    let sent = bmc.offs();
    assert_eq!(daemon.run(&["power", "status", "node-1"]).code, 0);
    assert_eq!((bmc.offs(), bmc.power()), (sent, "On"));
    let (markdown, json) = report(&dir);
    assert!(markdown.contains("It was interrupted"), "{markdown}");
    assert_eq!(json["overall"], "failed", "{json}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn certification_that_is_ended_while_the_host_is_off_tells_how_to_switch_it_on() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let dir = site.dir.path().join("report");
    let running = until(&site, &dir, "read while it is off");
    let (offs, ons) = (bmc.offs(), bmc.ons());
    let (code, said) = ended_by(Signal::SIGTERM, running);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("ended by SIGTERM at: read while it is off"),
        "{said}"
    );
    let last = said.lines().last().unwrap();
    let told = "host node-1: it was found on, and is off now; `power on node-1` switches it on";
    assert_eq!(last, told);
    assert_eq!((bmc.offs(), bmc.ons(), bmc.power()), (offs, ons, "Off"));
    report(&dir);
    let on = daemon.run(&["power", "on", "node-1"]);
    assert_eq!((on.code, bmc.power()), (0, "On"), "{on:?}");
    assert_eq!(daemon.stop(), 0);
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
