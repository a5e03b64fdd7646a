//! Tests of document parsing: exact power states, and no panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{document::*, extended_info::Messages, http::body_of, response::Body};
use crate::{PowerState, SystemIdentity};

fn state(body: &Value) -> (PowerState, String) {
    let system = System::of(body).unwrap();
    (system.state, system.raw)
}

#[test]
fn action_is_of_the_resource_that_it_is_below() {
    let all = [
        "/redfish/v1/Systems/1",
        "/redfish/v1/Systems/1/Nodes/2/",
        "/redfish/v1/Systems/10",
    ];
    for (target, expected) in [
        (
            "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            Some(0),
        ),
        ("/redfish/v1/systems/1//Actions/Reset/", Some(0)),
        ("/redfish/v1/Systems/%31/Actions/Reset", Some(0)),
        ("/redfish/v1/Systems/1/Nodes/2/Actions/Reset", Some(1)),
        ("/redfish/v1/Systems/10/Actions/Reset", Some(2)),
        ("/redfish/v1/Systems/10", None),
        ("/redfish/v1/Systems/Actions/Reset", None),
        ("/redfish/v1/Systems/2/Actions/Reset", None),
        ("", None),
    ] {
        let expected = expected.map(|index: usize| all[index]);
        assert_eq!(acted_on(target, all), expected, "{target}");
    }
}

#[test]
fn only_exact_values_are_power_states() {
    for (value, expected, raw) in [
        (json!("On"), PowerState::On, "On"),
        (json!("Off"), PowerState::Off, "Off"),
        (json!("PoweringOn"), PowerState::PoweringOn, "PoweringOn"),
        (json!("PoweringOff"), PowerState::PoweringOff, "PoweringOff"),
        (json!("Paused"), PowerState::Unknown, "Paused"),
        (json!("off"), PowerState::Unknown, "off"),
        (json!("OFF"), PowerState::Unknown, "OFF"),
        (json!("Off "), PowerState::Unknown, "Off "),
        (json!(""), PowerState::Unknown, ""),
        (json!(null), PowerState::Unknown, "null"),
        (json!(false), PowerState::Unknown, "false"),
        (json!(["Off"]), PowerState::Unknown, "[\"Off\"]"),
    ] {
        let body =
            json!({"@odata.type": "#ComputerSystem.v1_5_0.ComputerSystem", "PowerState": value});
        assert_eq!(state(&body), (expected, raw.to_owned()), "{value}");
    }
    let missing = json!({"@odata.type": "#ComputerSystem.v1_5_0.ComputerSystem"});
    assert_eq!(state(&missing), (PowerState::Unknown, String::new()));
}

#[test]
fn system_properties_are_optional() {
    let system = System::of(&json!({
        "PowerState": "On",
        "UUID": " 4c4c4544-0042-3510-8054-c2c04f4e4e32 ",
        "SerialNumber": "",
        "Manufacturer": null,
        "Model": 7,
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/r", "ResetType@Redfish.AllowableValues": ["On", 3, "ForceOff"],
        }},
    }))
    .unwrap();
    assert_eq!(
        system.identity.system_uuid.as_deref(),
        Some("4c4c4544-0042-3510-8054-c2c04f4e4e32")
    );
    assert_eq!(system.identity.serial, None);
    assert_eq!(system.identity.vendor, None);
    assert_eq!(system.identity.model, None);
    let reset = system.reset.unwrap();
    assert_eq!(
        reset.allowed,
        Some(vec!["On".to_owned(), "ForceOff".to_owned()])
    );
}

#[test]
fn f14_placeholder_of_the_firmware_is_no_identity() {
    let identity = |uuid: &str, serial: &str| {
        let body = json!({"PowerState": "On", "UUID": uuid, "SerialNumber": serial});
        System::of(&body).unwrap().identity
    };
    for (uuid, serial) in [
        ("03000200-0400-0500-0006-000700080009", "Default string"),
        (
            "01020304-0506-0708-090a-0b0c0d0e0f10",
            "To be filled by O.E.M.",
        ),
        ("00000000-0000-0000-0000-000000000000", "0123456789"),
        ("not a UUID", "N/A"),
    ] {
        assert_eq!(
            identity(uuid, serial),
            SystemIdentity::default(),
            "{uuid}, {serial}"
        );
    }
    let known = identity("{4C4C4544-0042-3510-8054-C2C04F4E4E32}", "SN7");
    assert!(known.system_uuid.is_some() && known.serial.is_some());
}

#[test]
fn document_of_another_type_is_no_system() {
    for body in [
        json!({"@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Members": []}),
        json!({"@odata.type": "#Chassis.v1_0_0.Chassis", "PowerState": "Off"}),
        json!({}),
        json!([]),
        json!("Off"),
    ] {
        assert_eq!(System::of(&body), None, "{body}");
    }
}

#[test]
fn session_collection_is_found_in_the_service_root() {
    for (root, sessions) in [
        (
            json!({"Links": {"Sessions": {"@odata.id": "/a"}}, "SessionService": {"@odata.id": "/s"}}),
            Some("/a"),
        ),
        (
            json!({"SessionService": {"@odata.id": "/s/"}}),
            Some("/s/Sessions"),
        ),
        (json!({"Links": {}}), None),
    ] {
        assert_eq!(Root::of(&root).sessions.as_deref(), sessions, "{root}");
    }
}

#[test]
fn query_features_are_read_from_the_service_root() {
    for (features, expand, top_skip) in [
        (
            json!({"ExpandQuery": {"NoLinks": true, "Levels": true}}),
            Some("$expand=.($levels=1)"),
            false,
        ),
        (
            json!({"ExpandQuery": {"NoLinks": true}, "TopSkipQuery": true, "FilterQuery": true}),
            Some("$expand=."),
            true,
        ),
        (
            json!({"ExpandQuery": {"NoLinks": false}, "TopSkipQuery": "yes"}),
            None,
            false,
        ),
        (json!(null), None, false),
    ] {
        let root = Root::of(&json!({"ProtocolFeaturesSupported": features}));
        let expected = Features {
            expand,
            top_skip,
            filter: features["FilterQuery"] == true,
        };
        assert_eq!(root.features, expected, "{features}");
    }
    let root = Root::of(&json!({"Vendor": "AMI", "Oem": {"Ami": {}}}));
    assert_eq!(
        (root.vendor.as_deref(), root.oem),
        (Some("AMI"), vec!["Ami".to_owned()])
    );
}

#[test]
fn task_is_done_only_in_state_completed() {
    for (body, expected) in [
        (
            json!({"TaskState": "Completed", "TaskStatus": "OK"}),
            Some(TaskState::Done),
        ),
        (json!({"TaskState": "Completed"}), Some(TaskState::Done)),
        (json!({"TaskState": "Running"}), Some(TaskState::Running)),
        (json!({"TaskState": "Whatever"}), Some(TaskState::Running)),
        (
            json!({"TaskState": "Exception"}),
            Some(TaskState::Failed(
                "Exception".to_owned(),
                Messages::default(),
            )),
        ),
        (
            json!({"TaskState": "Completed", "TaskStatus": "Critical"}),
            Some(TaskState::Failed(
                "Completed".to_owned(),
                Messages::default(),
            )),
        ),
        (json!({"PowerState": "Off"}), None),
    ] {
        assert_eq!(task(&body), expected, "{body}");
    }
}

const NAMES: &[&str] = &[
    "@odata.id",
    "@odata.type",
    "Actions",
    "#ComputerSystem.Reset",
    "target",
    "Members",
    "ResetType@Redfish.AllowableValues",
    "@Redfish.ActionInfo",
    "PowerState",
    "UUID",
    "error",
    "@Message.ExtendedInfo",
    "MessageId",
    "Message",
    "TaskState",
    "Messages",
    "Parameters",
    "Name",
    "AllowableValues",
    "Links",
    "Sessions",
    "SessionService",
    "Systems",
    "Severity",
    "Managers",
    "Vendor",
    "Oem",
    "ProtocolFeaturesSupported",
    "ExpandQuery",
    "NoLinks",
    "Chassis",
];

const WORDS: &[&str] = &[
    "Off",
    "On",
    "ResetType",
    "#ComputerSystem.v1",
    "Base.1.0.Success",
    "/x",
];

/// Arbitrary JSON in which these names and words are frequent.
pub(in crate::redfish) fn any_json(
    names: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
        ".{0,400}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(
                prop_oneof![
                    prop::sample::select(names).prop_map(str::to_owned),
                    ".{0,8}"
                ],
                inner,
                0..6
            )
            .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn read_everything(body: &Value) {
    let _ = (
        Root::of(body),
        Collection::of(body),
        action_info(body),
        task(body),
        links(body, &["Links", "Chassis"]),
        Action::of(body, "#ComputerSystem.Reset"),
    );
    let _ = Messages::of(body).text();
    if let Some(system) = System::of(body)
        && system.state == PowerState::Off
    {
        assert_eq!(body.get("PowerState"), Some(&json!("Off")));
    }
}

proptest! {
    #[test]
    fn arbitrary_json_does_not_panic_and_never_reads_off(body in any_json(NAMES, WORDS)) {
        read_everything(&body);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        if let Body::Json(body) = body_of(&bytes) {
            read_everything(&body);
        }
    }

    #[test]
    fn truncated_document_is_not_json(cut in 0_usize..70) {
        let whole = br##"{"@odata.type":"#ComputerSystem.v1_0_0.ComputerSystem","PowerState":"Off"}"##;
        let is_json = matches!(body_of(&whole[..cut]), Body::Json(_));
        prop_assert!(!is_json);
    }
}
