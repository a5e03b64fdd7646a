use proptest::prelude::*;

use super::*;

#[test]
fn names_of_updates_of_the_makes_are_updates() {
    for name in [
        "Firmware Update: BIOS",
        "Firmware Update: iDRAC with Lifecycle Controller",
        "Firmware Update: SAS RAID",
        "Firmware Rollback: BIOS",
        "update:DCIM:INSTALLED#iDRAC.Embedded.1-1#IDRACinfo",
        "Repository Update",
        "iDRAC firmware job",
        "Upgarde Task",
        "Upgrade Task",
        "BIOS Update",
        "BMC Update",
        "BMC update (preserve configuration)",
        "BMC firmware update, settings reset to defaults",
        "Upload BIOS",
        "BIOS upload",
        "BiosUpdate",
        "Flash",
        "Flashing",
        "BIOS flash",
        "Reflash BMC",
        "System ROM update",
        "CPLD Update",
        "Programmable logic update: CPLD",
        "Updating BIOS",
        "HPM firmware",
        "FW update",
        "PSU update",
        "Activate BMC image",
        "Install UEFI capsule",
        "SimpleUpdate",
        "Host Firmware Update",
        "Firmware Inventory Update",
    ] {
        assert_eq!(said(name), Said::Update, "{name}");
    }
}

#[test]
fn names_of_settings_logs_and_media_are_other_work() {
    for name in [
        "Configure: BIOS.Setup.1-1",
        "ConfigBIOS:BIOS.Setup.1-1",
        "BIOS.Setup.1-1",
        "Update BIOS settings",
        "BIOS attributes update",
        "Update BMC password",
        "Update iDRAC certificate",
        "Upload BMC license",
        "Restore BIOS defaults",
        "BMC log upload",
        "vFlash: initialize SD card",
        "Format flash drive",
        "License upgrade",
        "Firmware Inventory",
        "Export Configuration",
        "Import Configuration",
        "Collect logs",
        "Reboot3",
        "System Reset Task",
        "Backup",
        "SupportAssist Collection",
        "Secure erase",
        "Virtual disk initialization",
        "Reset iDRAC",
        "Clear SEL",
        "Export server profile",
    ] {
        assert_eq!(said(name), Said::Other, "{name}");
    }
}

#[test]
fn names_without_a_subject_say_nothing() {
    for name in [
        "",
        "Task",
        "Task 7",
        "Task7",
        "JID_005950769310",
        "Redfish task",
        "Update",
        "Update Task",
    ] {
        assert_eq!(said(name), Said::Nothing, "{name}");
    }
}

proptest! {
    #[test]
    fn name_with_firmware_that_is_flashed_is_always_an_update(
        before in "[A-Za-z0-9:. ]{0,12}", after in "[A-Za-z0-9:. ]{0,12}",
    ) {
        prop_assert_eq!(said(&format!("{before} firmware flash of {after}")), Said::Update);
    }
}

#[test]
fn update_of_a_part_is_one_whatever_else_is_said() {
    for name in [
        "Update PSU0",
        "Update PSU1 FW2",
        "GPU0 update",
        "iLO5 update",
        "Update NICs",
        "SSDs update",
        "fwupdate",
        "FWUpdate",
        "UpdateFW",
        "fw-update",
        "bmcfwupdate",
        "BIOS update started by user admin",
        "BMC update by user root",
        "Update BMC (account admin)",
        "BIOS update with default settings",
        "BIOS upgrade, factory image",
        "Update BIOS factory image",
        "CPLD upgrade (profile A)",
        "System ROM update, log 7",
        "BIOS update; boot order unchanged",
        "BIOS update user admin",
        "User update BIOS",
        "Flash BIOS (user request)",
        "Firmware update by user admin",
        "Upgrade SSD, export results",
        "BIOS Update Task - Configuration preserved",
        "Update BIOS keeping settings",
        "Update BIOS, restore user settings",
        "Update user settings and firmware",
        "Reboot after BIOS update",
        "Multipart HTTP push update",
        "RAID controller update",
        "Intel ME update",
        "Update of Intel ME",
        "PLDM update",
        "HGX update",
        "NVSwitch update",
        "InfiniBand adapter update",
        "Update the EROM",
        "Update UBM",
        "Update fan controller",
        "BMC image transfer",
        "Drive firmware",
        "iLO Upload and flash settings",
        "Aktualisierung: BIOS",
    ] {
        assert_eq!(said(name), Said::Update, "{name}");
    }
}

#[test]
fn update_of_settings_is_other_work() {
    for name in [
        "Update of BIOS settings",
        "Update: BIOS settings",
        "BIOS configuration update",
        "BIOS configuration update task 7",
        "Update BIOS settings (user admin)",
        "Update BIOS boot order",
        "Update BMC account",
        "Update password of user root",
        "Update user profile",
        "Update iLO log",
        "Restore BIOS to factory defaults",
        "Update firmware settings",
        "Updating: BIOS.Setup",
        "RAIDConfiguration",
        "SACollectExportHealthData",
    ] {
        assert_eq!(said(name), Said::Other, "{name}");
    }
}

#[test]
fn names_that_no_rule_knows_say_nothing() {
    for name in [
        "Component update",
        "Software update",
        "Apply update",
        "Staged update apply",
        "Upload image",
        "SPI write",
        "M.2 drive update",
        "VR update",
        "EC update",
        "ME Update",
        "zzz",
        "LCUpdate",
        "固件更新",
        "固件更新 reboot",
        "Mise à jour",
        "user admin",
        "Secure erase, BMC",
        "Update settings and BIOS",
        "Configuration update of BIOS",
        "BIOS update settings",
        "Collect logs and upload",
    ] {
        assert_eq!(said(name), Said::Nothing, "{name}");
    }
}

#[test]
fn blank_names_have_no_words_of_their_own() {
    assert!(is_blank("Task 7") && is_blank("") && is_blank("JID_005950769310"));
    assert!(!is_blank("Component update") && !is_blank("zzz"));
}

const DONE: &[&str] = &[
    "update", "Upgrade", "flashing", "Upload", "install", "apply", "Rollback", "writing", "FW",
    "firmware",
];
const ELSE: &[&str] = &[
    "BIOS",
    "PSU0",
    "component",
    "zzz",
    "reboot",
    "backup",
    "erase",
    "of",
    "and",
    "with",
    ",",
    "(",
    ": ",
    "image",
    "固件",
    "Task",
    "7",
];
const SET: &[&str] = &[
    "settings",
    "user admin",
    "profile A",
    "log 7",
    "default settings",
    "boot order",
    "account",
];

proptest! {
    #[test]
    fn name_with_a_word_of_an_installation_is_never_other_work_without_settings(
        before in proptest::collection::vec(proptest::sample::select(ELSE), 0..5),
        done in proptest::sample::select(DONE),
        after in proptest::collection::vec(proptest::sample::select(ELSE), 0..5),
    ) {
        let name = format!("{} {done} {}", before.join(" "), after.join(" "));
        prop_assert_ne!(said(&name), Said::Other, "{}", name);
    }

    #[test]
    fn update_of_a_part_is_one_beside_any_settings(
        part in proptest::sample::select(&["BIOS", "PSU1", "GPUs", "iLO5", "firmware", "cpld"][..]),
        done in proptest::sample::select(&["update", "Upgrade", "flash", "upload", "rollback"][..]),
        is_first in any::<bool>(),
        sign in proptest::sample::select(&["(", ", ", "; ", " - ", " by ", " with ", " keeping ", " started by "][..]),
        set in proptest::sample::select(SET),
    ) {
        let name = match is_first {
            true => format!("{part} {done}{sign}{set}"),
            false => format!("{done} {part}{sign}{set}"),
        };
        prop_assert_eq!(said(&name), Said::Update, "{}", name);
    }

    #[test]
    fn any_name_is_read(name in "\\PC{0,60}") {
        let _ = (said(&name), is_blank(&name));
    }
}
