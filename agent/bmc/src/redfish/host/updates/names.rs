//! What a task does, by its name.
//!
//! Owns: the words by which makes name work on firmware and other work. Must never: take a name that says nothing for
//! one that says "no firmware".

/// What the name of a task says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Firmware is transferred or written.
    Update,
    /// Something else is done.
    Other,
    /// Nothing, as `Task 7` does, or that something is updated, and not what.
    Nothing,
}

/// Names of updates, in whole or in part, that name no firmware.
const UPDATES: &[&str] = &[
    "simpleupdate",
    "simple update",
    "repository update",
    "multipart update",
];
/// Words of an installation. The third is how iBMCs of Huawei write it (R41).
const UPGRADE: &[&str] = &["upgrad", "upgarde", "downgrad"];
const INSTALL: &[&str] = &[
    "updat",
    "install",
    "upload",
    "rollback",
    "roll back",
    "roll-back",
    "activat",
    "recover",
    "restor",
    "reflash",
    "writ",
    "programm",
    "program ",
    "burn",
];
/// Firmware, and what has one.
const FIRMWARE: &[&str] = &["firmware", "microcode"];
const PARTS: &[&str] = &[
    "bios",
    "uefi",
    "bmc",
    "system rom",
    "cpld",
    "fpga",
    "idrac",
    "irmc",
    "cimc",
    "xcc",
    "lifecycle controller",
    "backplane",
    "power supply",
    "bootloader",
    "retimer",
];
/// The same, which are parts of other words as well.
const SHORT_PARTS: &[&str] = &["fw", "ilo", "rom", "psu", "nic", "hba", "ssd", "gpu", "tpm"];
/// Media of this name are no firmware.
const MEDIA: &[&str] = &[
    "vflash",
    "flash drive",
    "flash disk",
    "flash card",
    "flash media",
    "flash storage",
    "flash cache",
    "flash device",
    "usb flash",
];
/// What is read, or belongs to the settings, of something that has firmware.
const READ: &[&str] = &[
    "inventory",
    "export",
    "collect",
    "report",
    "compar",
    "download log",
    "support assist",
    "supportassist",
];
const SETTINGS: &[&str] = &[
    "config",
    "setup",
    "setting",
    "attribute",
    "password",
    "certificate",
    "licen",
    "account",
    "factory",
    "profile",
    "default",
    "boot order",
    "secret",
    "ssh key",
    "http key",
];
/// The same, which are parts of other words as well.
const SHORT_SETTINGS: &[&str] = &["log", "logs", "sel", "user", "users"];
/// Such settings are what an update leaves as they are.
const KEPT: &[&str] = &["preserv", "keep", "retain"];
/// Words that tell nothing of what is done.
const EMPTY: &[&str] = &[
    "task",
    "job",
    "operation",
    "redfish",
    "update",
    "updating",
    "background",
    "the",
    "a",
    "of",
    "id",
    "jid",
];

/// What a name says; "flash" and "upgrade" alone mean firmware, since nothing else of a BMC is flashed.
pub(super) fn said(name: &str) -> Said {
    let name = name.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let words = || {
        name.split(|sign: char| !sign.is_alphanumeric())
            .filter(|word| !word.is_empty())
    };
    let is_flash = name.contains("flash") && !says(MEDIA);
    let is_install = says(UPGRADE) || says(INSTALL) || is_flash;
    let is_setting = says(SETTINGS) || words().any(|word| SHORT_SETTINGS.contains(&word));
    let is_of_settings = is_setting && !says(KEPT);
    let is_firmware = says(FIRMWARE);
    let is_part = says(PARTS) || words().any(|word| SHORT_PARTS.contains(&word));
    let is_update = says(UPDATES)
        || is_firmware && (is_install || !says(READ) && !is_of_settings)
        || (is_flash || says(UPGRADE) || is_part && is_install) && !is_of_settings;
    if is_update {
        return Said::Update;
    }
    let is_empty = |word: &str| {
        let word = word.trim_end_matches(|sign: char| sign.is_ascii_digit());
        word.is_empty() || EMPTY.contains(&word)
    };
    match words().all(is_empty) {
        true => Said::Nothing,
        false => Said::Other,
    }
}

#[cfg(test)]
mod tests {
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
}
