use std::fs;

use tempfile::TempDir;

use super::*;

const SYSTEM: &str = "/redfish/v1/Systems/7";

/// A recording of our own: a service root, one system, and its chassis.
fn documents() -> Vec<(&'static str, Value)> {
    vec![
        (
            "",
            json!({"RedfishVersion": "1.6.0", "Systems": {"@odata.id": "/redfish/v1/Systems"}}),
        ),
        ("Systems", json!({"Members": [{"@odata.id": SYSTEM}]})),
        (
            "Systems/7",
            json!({
                "UUID": "4c4c4544-0042-3510-8054-c2c04f4e4e32",
                "SerialNumber": "SN7",
                "PowerState": "Off",
                "Links": {"Chassis": [{"@odata.id": "/redfish/v1/Chassis/A/"}]},
                "Actions": {"#ComputerSystem.Reset": {
                    "target": "/redfish/v1/Systems/7/Actions/ComputerSystem.Reset",
                    "@Redfish.ActionInfo": "/redfish/v1/Systems/7/ResetActionInfo",
                }},
            }),
        ),
        (
            "Systems/7/ResetActionInfo",
            json!({"Parameters": [
                {"Name": "ResetType", "AllowableValues": ["On", "ForceOff", "Suspend"]},
            ]}),
        ),
        ("Chassis/A", json!({"PowerState": "Off"})),
        (
            "Chassis/A/Power",
            json!({"PowerControl": [{"PowerConsumedWatts": 300}]}),
        ),
        ("Chassis/Shelf", json!({"PowerState": "On"})),
    ]
}

/// Writes the documents; `root` is the folder of the service root.
fn record(dir: &TempDir, root: &str) {
    for (path, document) in documents() {
        let folder = dir.path().join(root).join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("index.json"), document.to_string()).unwrap();
    }
}

fn recorded(root: &str) -> (TempDir, Recording) {
    let dir = TempDir::new().unwrap();
    record(&dir, root);
    let recording = Recording::read(dir.path()).unwrap();
    (dir, recording)
}

#[test]
fn both_forms_of_a_recording_are_read() {
    let (_dir, long) = recorded("redfish/v1");
    let (_dir, short) = recorded("");
    assert_eq!(long, short);
    assert_eq!(long.uuid(), Some("4c4c4544-0042-3510-8054-c2c04f4e4e32"));
    assert_eq!(long.serial(), Some("SN7"));
    assert!(!long.was_on());
    assert!(long.is_reset("/redfish/v1/Systems/7/Actions/ComputerSystem.Reset"));
    let profile = long.profile();
    assert_eq!(profile.system_id, "7");
    // What the simulated machine does not know is left out.
    assert_eq!(profile.reset_types, [ResetType::On, ResetType::ForceOff]);
    let sessions = &long.document(ROOT).unwrap()["Links"]["Sessions"]["@odata.id"];
    assert_eq!(sessions, "/redfish/v1/SessionService/Sessions");
}

#[test]
fn power_moves_in_the_system_and_its_own_chassis() {
    let (_dir, recording) = recorded("");
    let power = |path: &str, word, power| {
        let document = recording.with_power(path, word, power).unwrap();
        document["PowerState"].clone()
    };
    for (word, state) in [("On", PowerState::On), ("Off", PowerState::Off)] {
        assert_eq!(power(SYSTEM, word, state), word);
        assert_eq!(power("/redfish/v1/Chassis/A", word, state), word);
        assert_eq!(power("/redfish/v1/Chassis/Shelf", word, state), "On");
    }
    let draw = |power| {
        let document = recording.with_power("/redfish/v1/Chassis/A/Power", "", power);
        document.unwrap()["PowerControl"][0]["PowerConsumedWatts"].clone()
    };
    assert_eq!(draw(PowerState::On), 300);
    assert_eq!(draw(PowerState::Off), 0);
    let unknown = recording.with_power("/redfish/v1/Nothing", "On", PowerState::On);
    assert_eq!(unknown, None);
}

#[test]
fn unusable_recording_names_the_file() {
    let refused = |change: &dyn Fn(&Path)| {
        let dir = TempDir::new().unwrap();
        record(&dir, "");
        change(dir.path());
        Recording::read(dir.path()).unwrap_err().to_string()
    };
    let said = refused(&|dir| fs::write(dir.join("Systems/index.json"), "{\"a\": ").unwrap());
    assert!(
        said.contains("Systems/index.json is not a document: EOF"),
        "{said}"
    );
    let said = refused(&|dir| fs::write(dir.join("Systems/index.json"), "[]").unwrap());
    assert!(said.contains("it is no JSON object"), "{said}");
    let said = refused(&|dir| std::os::unix::fs::symlink("/etc", dir.join("Systems/etc")).unwrap());
    assert!(said.contains("Systems/etc is a symbolic link"), "{said}");
    let said = refused(&|dir| std::os::unix::fs::symlink("Systems", dir.join("redfish")).unwrap());
    assert!(said.contains("redfish is a symbolic link"), "{said}");
    let said = refused(&|dir| fs::remove_file(dir.join("index.json")).unwrap());
    assert!(
        said.contains("is no recording of a Redfish service"),
        "{said}"
    );
    let said = refused(&|dir| fs::remove_file(dir.join("Systems/7/index.json")).unwrap());
    assert!(said.contains("no system with the action"), "{said}");
    let said = refused(&|dir| {
        let file = fs::File::create(dir.join("Systems/index.json")).unwrap();
        file.set_len(9 << 20).unwrap();
    });
    assert!(said.contains("Systems/index.json is too large"), "{said}");
    let said = refused(&|dir| fs::create_dir_all(dir.join("a/".repeat(40))).unwrap());
    assert!(said.contains("folders deep"), "{said}");
    let said = Recording::read(Path::new("/nowhere")).unwrap_err();
    assert!(
        said.to_string().starts_with("cannot read /nowhere"),
        "{said}"
    );
}
