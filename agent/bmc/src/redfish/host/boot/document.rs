//! The `Boot` object of a system: parsing it, and building the object to write.

use serde_json::{Map, Value, json};

use crate::{
    BootDevice, BootMode, BootOverride, BootPersistence, SystemIdentity,
    redfish::{
        protocol::document::{text, values},
        vendor,
    },
};

/// A `Boot` object, of a system or of its settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Boot {
    target: Option<String>,
    enabled: Option<String>,
    mode: Option<String>,
    /// `BootSourceOverrideTarget@Redfish.AllowableValues`.
    targets: Option<Vec<String>>,
    /// `BootSourceOverrideEnabled@Redfish.AllowableValues`.
    periods: Option<Vec<String>>,
    /// Whether the object has a boot mode property, even if it is empty.
    has_mode: bool,
}

/// Reason why an override cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The device is not supported; the supported ones.
    Device(Vec<String>),
    /// The persistence is not supported; the supported ones.
    Period(Vec<String>),
}

impl Boot {
    /// `None`: the document has no boot override that could be read or written.
    pub(super) fn of(body: &Value) -> Option<Self> {
        const TARGET: &str = "BootSourceOverrideTarget";
        const ENABLED: &str = "BootSourceOverrideEnabled";
        let boot = body.get("Boot")?;
        let has = |name| boot.get(name).is_some();
        if !has(TARGET) && !has(ENABLED) {
            return None;
        }
        Some(Self {
            target: text(boot, TARGET),
            enabled: text(boot, ENABLED),
            mode: text(boot, "BootSourceOverrideMode"),
            targets: values(boot.get("BootSourceOverrideTarget@Redfish.AllowableValues")),
            periods: values(boot.get("BootSourceOverrideEnabled@Redfish.AllowableValues")),
            has_mode: has("BootSourceOverrideMode"),
        })
    }

    /// The same object with missing allowable values taken from `other`: settings resources often
    /// omit them.
    pub(super) fn with_lists_of(mut self, other: Option<&Self>) -> Self {
        let of_other =
            |list: fn(&Self) -> &Option<Vec<String>>| other.and_then(|o| list(o).clone());
        self.targets = self.targets.or_else(|| of_other(|other| &other.targets));
        self.periods = self.periods.or_else(|| of_other(|other| &other.periods));
        self
    }

    /// Whether the object overrides the boot device.
    pub(super) fn is_active(&self) -> bool {
        self.target
            .as_deref()
            .is_some_and(|target| target != "None")
            && self.enabled.as_deref() != Some("Disabled")
    }

    /// The override, or the target if [`BootDevice`] does not define it.
    pub(super) fn shown(&self) -> Result<BootOverride, &str> {
        let device = if self.is_active() {
            let target = self.target.as_deref().unwrap_or_default();
            device(target).ok_or(target)?
        } else {
            BootDevice::Normal
        };
        let persistence = match self.enabled.as_deref() {
            Some("Continuous") => BootPersistence::Persistent,
            _ => BootPersistence::Once,
        };
        let mode = match self.mode.as_deref() {
            Some("UEFI") => Some(BootMode::Uefi),
            Some("Legacy") => Some(BootMode::Legacy),
            _ => None,
        };
        Ok(BootOverride {
            device,
            persistence,
            mode,
        })
    }

    /// The override in the BMC's own values, for messages.
    pub(super) fn words(&self) -> String {
        let parts = [&self.target, &self.enabled, &self.mode];
        let words: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        words.join(" ")
    }

    /// Whether the object shows the requested override, in the properties that both specify.
    pub(super) fn shows(&self, wanted: BootOverride) -> bool {
        let Ok(shown) = self.shown() else {
            return false;
        };
        let same_mode = match (wanted.mode, shown.mode) {
            (Some(wanted), Some(shown)) => wanted == shown,
            _ => true,
        };
        let normal = wanted.device == BootDevice::Normal;
        shown.device == wanted.device
            && (normal || (shown.persistence == wanted.persistence && same_mode))
    }

    /// Whether a boot mode can be requested.
    pub(super) fn has_mode(&self) -> bool {
        self.has_mode
    }

    /// The `Boot` object to write for an override; without a mode if the document has none.
    pub(super) fn request(
        &self,
        wanted: BootOverride,
        identity: &SystemIdentity,
    ) -> Result<Value, Refusal> {
        let allows = |list: &Option<Vec<String>>, word: &str| {
            list.as_ref()
                .is_none_or(|list| list.iter().any(|offer| offer == word))
        };
        let mut boot = Map::new();
        let target = vendor::boot_words(wanted.device, identity)
            .iter()
            .find(|word| allows(&self.targets, word));
        let normal = wanted.device == BootDevice::Normal;
        match target {
            Some(target) => {
                boot.insert("BootSourceOverrideTarget".to_owned(), json!(target));
            }
            // Disabling the override is sufficient.
            None if normal => {}
            None => return Err(Refusal::Device(self.targets.clone().unwrap_or_default())),
        }
        let period = match wanted.persistence {
            _ if normal => "Disabled",
            BootPersistence::Once => "Once",
            BootPersistence::Persistent => "Continuous",
        };
        if !allows(&self.periods, period) {
            return Err(Refusal::Period(self.periods.clone().unwrap_or_default()));
        }
        boot.insert("BootSourceOverrideEnabled".to_owned(), json!(period));
        let mode = match wanted.mode {
            Some(_) if !self.has_mode => None,
            Some(BootMode::Uefi) => Some("UEFI"),
            Some(BootMode::Legacy) => Some("Legacy"),
            None if vendor::repeats_boot_mode(identity) => self.mode.as_deref(),
            None => None,
        };
        if let Some(mode) = mode {
            boot.insert("BootSourceOverrideMode".to_owned(), json!(mode));
        }
        Ok(json!({ "Boot": boot }))
    }
}

/// Maps a target to a [`BootDevice`].
fn device(target: &str) -> Option<BootDevice> {
    Some(match target {
        "Pxe" => BootDevice::Pxe,
        "UefiHttp" => BootDevice::UefiHttp,
        "Hdd" => BootDevice::Disk,
        "Cd" | "UsbCd" => BootDevice::Cd,
        "Usb" | "Floppy" => BootDevice::Usb,
        "BiosSetup" => BootDevice::BiosSetup,
        "Diags" => BootDevice::Diagnostics,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::redfish::protocol::document_tests::any_json;

    fn boot(body: &Value) -> Boot {
        Boot::of(&json!({ "Boot": body })).unwrap()
    }

    fn wanted(device: BootDevice) -> BootOverride {
        BootOverride {
            device,
            persistence: BootPersistence::Once,
            mode: None,
        }
    }

    fn request(body: &Value, wanted: BootOverride) -> Result<Value, Refusal> {
        let request = boot(body).request(wanted, &SystemIdentity::default());
        request.map(|request| request["Boot"].clone())
    }

    #[test]
    fn boot_override_is_parsed() {
        let shown = |target: &str, enabled: &str, mode: &str| {
            let boot = boot(&json!({
                "BootSourceOverrideTarget": target,
                "BootSourceOverrideEnabled": enabled,
                "BootSourceOverrideMode": mode,
            }));
            boot.shown()
                .map_err(str::to_owned)
                .map(|shown| (shown.device, shown.persistence, shown.mode))
        };
        use BootPersistence::{Once, Persistent};
        let uefi = Some(BootMode::Uefi);
        assert_eq!(
            shown("Pxe", "Once", "UEFI"),
            Ok((BootDevice::Pxe, Once, uefi))
        );
        assert_eq!(
            shown("UsbCd", "Continuous", "Legacy"),
            Ok((BootDevice::Cd, Persistent, Some(BootMode::Legacy)))
        );
        assert_eq!(
            shown("Hdd", "Disabled", "x"),
            Ok((BootDevice::Normal, Once, None))
        );
        assert_eq!(
            shown("None", "Once", "UEFI"),
            Ok((BootDevice::Normal, Once, uefi))
        );
        assert_eq!(shown("SDCard", "Once", "UEFI"), Err("SDCard".to_owned()));
    }

    #[test]
    fn document_without_a_boot_override_is_none() {
        for body in [
            json!({}),
            json!({"Boot": {}}),
            json!({"Boot": {"BootOrder": ["1"]}}),
        ] {
            assert_eq!(Boot::of(&body), None, "{body}");
        }
    }

    #[test]
    fn request_uses_only_allowable_values() {
        let listed = json!({
            "BootSourceOverrideTarget": "None",
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["Pxe", "UsbCd"],
            "BootSourceOverrideEnabled@Redfish.AllowableValues": ["Once", "Disabled"],
        });
        assert_eq!(
            request(&listed, wanted(BootDevice::Cd)).unwrap(),
            json!({"BootSourceOverrideTarget": "UsbCd", "BootSourceOverrideEnabled": "Once"})
        );
        assert_eq!(
            request(&listed, wanted(BootDevice::Disk)),
            Err(Refusal::Device(vec!["Pxe".to_owned(), "UsbCd".to_owned()]))
        );
        let for_good = BootOverride {
            persistence: BootPersistence::Persistent,
            ..wanted(BootDevice::Pxe)
        };
        assert!(matches!(
            request(&listed, for_good),
            Err(Refusal::Period(_))
        ));
        assert_eq!(
            request(&listed, wanted(BootDevice::Normal)).unwrap(),
            json!({"BootSourceOverrideEnabled": "Disabled"})
        );
    }

    #[test]
    fn every_device_has_a_target_without_allowable_values() {
        let open = json!({"BootSourceOverrideTarget": "None"});
        for device in BootDevice::ALL {
            let request = request(&open, wanted(device)).unwrap();
            assert!(
                request["BootSourceOverrideTarget"].is_string(),
                "{device:?}"
            );
        }
    }

    #[test]
    fn boot_mode_is_written_only_if_supported() {
        let legacy = BootOverride {
            mode: Some(BootMode::Legacy),
            ..wanted(BootDevice::Pxe)
        };
        let without = json!({"BootSourceOverrideTarget": "None"});
        let left_out = request(&without, legacy).unwrap();
        assert_eq!(left_out.get("BootSourceOverrideMode"), None);
        let with = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideMode": null});
        let written = request(&with, legacy).unwrap();
        assert_eq!(written["BootSourceOverrideMode"], "Legacy");
        let unasked = request(&with, wanted(BootDevice::Pxe)).unwrap();
        assert_eq!(unasked.get("BootSourceOverrideMode"), None);
    }

    #[test]
    fn request_to_supermicro_repeats_the_boot_mode() {
        let supermicro = SystemIdentity {
            vendor: Some("Supermicro".to_owned()),
            ..SystemIdentity::default()
        };
        let body = json!({"BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI"});
        let request = boot(&body).request(wanted(BootDevice::Pxe), &supermicro);
        assert_eq!(request.unwrap()["Boot"]["BootSourceOverrideMode"], "UEFI");
    }

    #[test]
    fn differing_boot_override_is_detected() {
        let pxe = wanted(BootDevice::Pxe);
        let shows = |target: &str, enabled: &str| {
            boot(&json!({"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}))
                .shows(pxe)
        };
        assert!(shows("Pxe", "Once"));
        assert!(!shows("Pxe", "Continuous"));
        assert!(!shows("Pxe", "Disabled"));
        assert!(!shows("Hdd", "Once"));
        assert!(!shows("SDCard", "Once"));
    }

    const NAMES: &[&str] = &[
        "Boot",
        "BootSourceOverrideTarget",
        "BootSourceOverrideEnabled",
        "BootSourceOverrideMode",
        "BootSourceOverrideTarget@Redfish.AllowableValues",
        "BootSourceOverrideEnabled@Redfish.AllowableValues",
    ];

    proptest! {
        #[test]
        fn arbitrary_documents_do_not_panic_and_requests_round_trip(
            body in any_json(NAMES, &["Pxe", "Once", "Disabled", "UEFI", "None", "Cd"]),
            device in prop::sample::select(BootDevice::ALL.to_vec()),
        ) {
            let boot = Boot::of(&body).or_else(|| Boot::of(&json!({"Boot": body})));
            let boot = boot.unwrap_or_default();
            let _ = (boot.shown(), boot.words(), boot.is_active());
            let wanted = wanted(device);
            if let Ok(written) = boot.request(wanted, &SystemIdentity::default()) {
                prop_assert!(Boot::of(&written).unwrap().shows(wanted));
            }
        }
    }
}
