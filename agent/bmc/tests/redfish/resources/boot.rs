//! The boot override.

use rackhand_bmc::{BootDevice, BootMode, BootOverride, BootPersistence, ErrorKind};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc};

const SETTINGS: &str = "/redfish/v1/Systems/1/Settings";

fn boot(target: &str, enabled: &str) -> Value {
    json!({"Boot": {
        "BootSourceOverrideTarget": target,
        "BootSourceOverrideEnabled": enabled,
        "BootSourceOverrideMode": "UEFI",
        "BootSourceOverrideTarget@Redfish.AllowableValues":
            ["None", "Pxe", "Hdd", "Cd", "UsbCd", "BiosSetup", "UefiHttp"],
    }})
}

fn once(device: BootDevice) -> BootOverride {
    BootOverride {
        device,
        persistence: BootPersistence::Once,
        mode: None,
    }
}

async fn with_boot() -> TestBmc {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&boot("None", "Disabled"));
    bmc
}

fn with_settings(bmc: &TestBmc, settings: Value) {
    bmc.add_to_system(&json!({"@Redfish.Settings": {"SettingsObject": {"@odata.id": SETTINGS}}}));
    bmc.put(SETTINGS, settings);
}

#[tokio::test]
async fn boot_override_is_written_and_read() {
    let bmc = with_boot().await;
    let client = bmc.client();
    let normal = client.boot().await.unwrap();
    assert_eq!(normal.device, BootDevice::Normal);
    for (wanted, target, enabled) in [
        (once(BootDevice::Pxe), "Pxe", "Once"),
        (once(BootDevice::Cd), "Cd", "Once"),
        (
            BootOverride {
                persistence: BootPersistence::Persistent,
                ..once(BootDevice::Disk)
            },
            "Hdd",
            "Continuous",
        ),
    ] {
        let accepted = client.set_boot(wanted).await.unwrap();
        assert_eq!(accepted.answer, "204");
        assert_eq!(accepted.command, format!("Boot {target} {enabled}"));
        let patch = bmc.sent("PATCH").pop().unwrap();
        assert_eq!(
            patch.body,
            json!({"Boot": {
                "BootSourceOverrideTarget": target,
                "BootSourceOverrideEnabled": enabled,
            }})
        );
        let shown = client.boot().await.unwrap();
        assert_eq!(
            (shown.device, shown.persistence),
            (wanted.device, wanted.persistence)
        );
        assert_eq!(shown.mode, Some(BootMode::Uefi));
    }
    client.set_boot(once(BootDevice::Normal)).await.unwrap();
    assert_eq!(client.boot().await.unwrap().device, BootDevice::Normal);
    let patch = bmc.sent("PATCH").pop().unwrap();
    assert_eq!(patch.body["Boot"]["BootSourceOverrideEnabled"], "Disabled");
}

#[tokio::test]
async fn device_outside_the_allowable_values_is_rejected() {
    let bmc = with_boot().await;
    let error = bmc
        .client()
        .set_boot(once(BootDevice::Diagnostics))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(
        error.message.contains("UefiHttp"),
        "missing list of the alternatives: {error}"
    );
    assert!(bmc.sent("PATCH").is_empty());
}

#[tokio::test]
async fn request_to_supermicro_has_usb_cd_and_repeats_the_mode() {
    let bmc = with_boot().await;
    bmc.add_to_system(&json!({"Manufacturer": "Supermicro"}));
    bmc.client().set_boot(once(BootDevice::Cd)).await.unwrap();
    let patch = bmc.sent("PATCH").pop().unwrap();
    assert_eq!(patch.body["Boot"]["BootSourceOverrideTarget"], "UsbCd");
    assert_eq!(patch.body["Boot"]["BootSourceOverrideMode"], "UEFI");
}

#[tokio::test]
async fn boot_mode_is_written_only_if_supported() {
    let legacy = BootOverride {
        mode: Some(BootMode::Legacy),
        ..once(BootDevice::Pxe)
    };
    let bmc = with_boot().await;
    bmc.client().set_boot(legacy).await.unwrap();
    let patch = bmc.sent("PATCH").pop().unwrap();
    assert_eq!(patch.body["Boot"]["BootSourceOverrideMode"], "Legacy");

    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Boot": {"BootSourceOverrideTarget": "None"}}));
    let accepted = bmc.client().set_boot(legacy).await.unwrap();
    assert_eq!(accepted.answer, "204; it has no boot mode to choose");
    let patch = bmc.sent("PATCH").pop().unwrap();
    assert_eq!(patch.body["Boot"].get("BootSourceOverrideMode"), None);
}

#[tokio::test]
async fn boot_override_is_written_to_the_settings_resource() {
    let bmc = with_boot().await;
    let settings = json!({"@odata.etag": "\"s1\"", "Boot": {
        "BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled",
    }});
    with_settings(&bmc, settings);
    let client = bmc.client();
    let accepted = client.set_boot(once(BootDevice::Pxe)).await.unwrap();
    assert_eq!(accepted.answer, "204; takes effect at the next reset");
    let patches = bmc.sent("PATCH");
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].path, SETTINGS);
    assert_eq!(patches[0].header("if-match"), Some("\"s1\""));
    assert_eq!(
        client.boot().await.unwrap().device,
        BootDevice::Pxe,
        "the pending override takes precedence"
    );
    // Only the system has the allowable values.
    let error = client.set_boot(once(BootDevice::Usb)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn settings_without_a_boot_override_are_not_written() {
    for settings in [Some(json!({"Boot": {"BootOrder": []}})), None] {
        let bmc = with_boot().await;
        with_settings(&bmc, json!({}));
        match settings {
            Some(settings) => bmc.put(SETTINGS, settings),
            None => bmc.world(|world| world.documents.clear()),
        }
        bmc.client().set_boot(once(BootDevice::Pxe)).await.unwrap();
        assert_eq!(bmc.sent("PATCH")[0].path, SYSTEM);
    }
}

#[tokio::test]
async fn system_is_written_if_the_settings_reject_the_override() {
    let bmc = TestBmc::with(|seen, _| {
        seen.is("PATCH", SETTINGS)
            .then(|| Reply::message(400, "Base.1.12.PropertyNotWritable", "read-only"))
    })
    .await;
    bmc.add_to_system(&boot("None", "Disabled"));
    with_settings(&bmc, boot("None", "Disabled"));
    let accepted = bmc.client().set_boot(once(BootDevice::Pxe)).await.unwrap();
    assert_eq!(accepted.answer, "204");
    let places: Vec<_> = bmc
        .sent("PATCH")
        .into_iter()
        .map(|seen| seen.path)
        .collect();
    assert_eq!(places, [SETTINGS, SYSTEM]);
}

#[tokio::test]
async fn host_in_post_is_busy_and_no_other_resource_is_tried() {
    let bmc = TestBmc::with(|seen, _| {
        let post = || Reply::message(400, "iLO.2.14.UnableToModifyDuringSystemPOST", "in POST");
        (seen.method == "PATCH").then(post)
    })
    .await;
    bmc.add_to_system(&boot("None", "Disabled"));
    with_settings(&bmc, boot("None", "Disabled"));
    let error = bmc
        .client()
        .set_boot(once(BootDevice::Pxe))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.message.contains("power it off first"), "{error}");
    assert_eq!(bmc.sent("PATCH").len(), 1);
}

#[tokio::test]
async fn differing_override_after_the_write_is_reported() {
    let bmc = TestBmc::with(|seen, _| (seen.method == "PATCH").then(|| Reply::status(200))).await;
    bmc.add_to_system(&boot("Hdd", "Continuous"));
    let accepted = bmc.client().set_boot(once(BootDevice::Pxe)).await.unwrap();
    assert_eq!(
        accepted.answer,
        "200; but the BMC shows \"Hdd Continuous UEFI\""
    );
}

#[tokio::test]
async fn bmc_without_a_boot_override_is_unsupported() {
    let bmc = TestBmc::start().await;
    let client = bmc.client();
    assert_eq!(
        client.boot().await.unwrap_err().kind,
        ErrorKind::Unsupported
    );
    let error = client.set_boot(once(BootDevice::Pxe)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn unknown_boot_target_is_reported_as_read() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&boot("SDCard", "Once"));
    let error = bmc.client().boot().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.message.contains("SDCard"), "{error}");
}

#[tokio::test]
async fn task_of_a_boot_change_is_polled() {
    let bmc = TestBmc::with(|seen, _| {
        if seen.method == "PATCH" {
            return Some(Reply::status(202).header("Location", "/redfish/v1/task"));
        }
        let failed = json!({"TaskState": "Exception", "Messages": [{"Message": "no such NIC"}]});
        (seen.path == "/redfish/v1/task").then(|| Reply::json(200, &failed))
    })
    .await;
    bmc.add_to_system(&boot("None", "Disabled"));
    let error = bmc
        .client()
        .set_boot(once(BootDevice::Pxe))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(error.message.contains("no such NIC"), "{error}");
}
