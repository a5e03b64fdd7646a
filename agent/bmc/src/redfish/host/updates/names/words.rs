//! The words by which makes name work on firmware and other work.

/// Names of updates that name no firmware.
pub(super) const UPDATES: &[&str] = &[
    "simple update",
    "repository update",
    "multipart update",
    "push update",
];
/// Words that mean firmware by themselves, since nothing else of a BMC is flashed or upgraded. `upgarde` is how iBMCs
/// of Huawei write it (R41).
pub(super) const UPGRADE: &[&str] = &["upgrad", "upgarde", "downgrad", "flash"];
/// Other words of an installation, in any place of a word. Names in other languages than English occur.
pub(super) const INSTALL: &[&str] = &[
    "updat", "install", "upload", "download", "rollback", "activat", "recover", "restor", "writ",
    "program", "burn", "transfer", "deploy", "aktualis", "actualiz", "actualis", "atualiz",
    "aggiorn",
];
/// The same, which are parts of other words as well.
pub(super) const SHORT_INSTALL: &[&str] = &[
    "apply", "applying", "applied", "push", "pushing", "stage", "staged", "staging", "patch",
    "patching", "roll", "rolling",
];
/// Firmware, and its abbreviation.
pub(super) const FIRMWARE: &[&str] = &["firmware", "microcode", " fw ", " fws "];
/// What has firmware. Drives and disks are none: those of a controller that are virtual have settings alone.
pub(super) const PARTS: &[&str] = &[
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
    "power supplies",
    "bootloader",
    "retimer",
    "raid controller",
    "storage controller",
    "fan controller",
    "network adapter",
    "intel me ",
    "management engine",
    "nvswitch",
    "nv switch",
    "infiniband",
    "infini band",
    "smartnic",
];
/// The same, which are parts of other words as well.
pub(super) const SHORT_PARTS: &[&str] = &[
    "ilo", "rom", "erom", "psu", "nic", "hba", "ssd", "gpu", "dpu", "tpm", "hgx", "pldm", "ubm",
];
/// Media of this name are no firmware.
pub(super) const MEDIA: &[&str] = &[
    "v flash",
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
/// What is read of something that has firmware.
pub(super) const READ: &[&str] = &[
    "inventory",
    "export",
    "collect",
    "report",
    "compar",
    "support assist",
    "supportassist",
];
/// Other work that writes no firmware.
pub(super) const OTHER: &[&str] = &[
    "backup",
    "back up",
    "reboot",
    "restart",
    "reset",
    "shutdown",
    "shut down",
    "power on",
    "power off",
    "power cycle",
    "poweron",
    "poweroff",
    "erase",
    "erasing",
    "wipe",
    "wiping",
    "sanitiz",
    "format",
    "initializ",
    "initialis",
    "virtual disk",
    "virtual media",
    "diagnos",
    "discover",
    "rebuild",
    "patrol read",
    "consistency check",
    "self test",
    "delet",
    "clear",
    "dump",
    "eject",
];
/// Settings of something that has firmware.
pub(super) const SETTINGS: &[&str] = &[
    "config",
    "setup",
    "setting",
    "attribute",
    "password",
    "certificat",
    "licen",
    "secret",
    "boot order",
    "ssh key",
    "http key",
];
/// Settings as the object of an update; elsewhere, such a word says nothing of what is done.
pub(super) const SETTINGS_AS_OBJECT: &[&str] = &[
    "account", "factory", "profile", "default", "log", "sel", "user",
];
/// Words for an image, whatever else is said of it.
pub(super) const IMAGES: &[&str] = &[
    "image",
    "file",
    "package",
    "bundle",
    "capsule",
    "version",
    "partition",
    "bank",
];
/// Words after which something else is said than what is done to what.
pub(super) const BREAKS: &[&str] = &[
    "and",
    "or",
    "plus",
    "with",
    "without",
    "by",
    "from",
    "via",
    "using",
    "while",
    "during",
    "after",
    "before",
    "then",
    "as",
    "at",
    "started",
    "requested",
    "initiated",
    "triggered",
    "scheduled",
    "including",
];
/// The same: such settings are what an update leaves as they are.
pub(super) const KEPT: &[&str] = &["preserv", "keep", "retain"];
/// Words between what is done and what it is done to.
pub(super) const LINKS: &[&str] = &["of", "for", "on", "in"];
/// Words that tell nothing of what is done.
pub(super) const EMPTY: &[&str] = &[
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
/// Words that some names write together with what is before and after them, longest forms first.
pub(super) const JOINED: &[&str] = &[
    "updating",
    "updates",
    "updated",
    "updater",
    "update",
    "upgrading",
    "upgrades",
    "upgraded",
    "upgrade",
    "flashing",
    "flashed",
    "flash",
    "installation",
    "installing",
    "installed",
    "install",
    "uploading",
    "uploaded",
    "upload",
    "firmware",
    "bios",
    "bmc",
    "uefi",
    "cpld",
    "fpga",
];
