//! Changes of settings: preconditions, boot sources and the identify LED.

use crate::{BootDevice, SystemIdentity, redfish::protocol::document::Root};

/// Whether this firmware rejects its own ETag and accepts `If-Match: *` only: AMI MegaRAC of every
/// brand, identified by the service root.
pub(in crate::redfish) fn wants_any_etag(root: &Root) -> bool {
    let is_ami = |name: &String| name.eq_ignore_ascii_case("ami");
    root.vendor.as_ref().is_some_and(is_ami) || root.oem.iter().any(is_ami)
}

/// Whether a 401 to a login may mean that sessions are not available: Supermicro responds so
/// without the license for them, and older firmware at the path that it advertises.
pub(in crate::redfish) fn refuses_sessions(root: &Root) -> bool {
    let is_it = |name: &String| name.eq_ignore_ascii_case("supermicro");
    root.vendor.as_ref().is_some_and(is_it) || root.oem.iter().any(is_it)
}

fn is_supermicro(identity: &SystemIdentity) -> bool {
    identity
        .vendor
        .as_ref()
        .is_some_and(|vendor| vendor.eq_ignore_ascii_case("supermicro"))
}

/// Supermicro models whose virtual CD is `Cd`; on the others it is `UsbCd`, although both are
/// listed.
const PLAIN_CD: &[&str] = &["ARS-111GL-NHR"];

/// The values for a device (`BootSource`), best first; the first allowed one is used.
pub(in crate::redfish) fn boot_words(
    device: BootDevice,
    identity: &SystemIdentity,
) -> &'static [&'static str] {
    match device {
        BootDevice::Normal => &["None"],
        BootDevice::Pxe => &["Pxe"],
        BootDevice::UefiHttp => &["UefiHttp"],
        BootDevice::Disk => &["Hdd"],
        BootDevice::Cd if is_supermicro(identity) && !is_plain_cd(identity) => &["UsbCd", "Cd"],
        BootDevice::Cd => &["Cd", "UsbCd"],
        BootDevice::Usb => &["Usb"],
        BootDevice::BiosSetup => &["BiosSetup"],
        BootDevice::Diagnostics => &["Diags"],
    }
}

fn is_plain_cd(identity: &SystemIdentity) -> bool {
    identity.model.as_ref().is_some_and(|model| {
        PLAIN_CD
            .iter()
            .any(|plain| model.eq_ignore_ascii_case(plain))
    })
}

/// Supermicro falls back to Legacy if the boot mode is not repeated; others (HPE) reject the
/// property.
pub(in crate::redfish) fn repeats_boot_mode(identity: &SystemIdentity) -> bool {
    is_supermicro(identity)
}

/// The `IndicatorLED` values for on and off, best first.
pub(in crate::redfish) fn led_words(
    lit: bool,
    identity: &SystemIdentity,
) -> &'static [&'static str] {
    // On a healthy Dell the LED is `Lit` permanently; only blinking identifies it.
    match (lit, identity.is_dell()) {
        (true, true) => &["Blinking"],
        (true, false) => &["Lit", "Blinking"],
        (false, true) => &["Off", "Lit"],
        (false, false) => &["Off"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_by(vendor: &str, model: &str) -> SystemIdentity {
        SystemIdentity {
            vendor: Some(vendor.to_owned()),
            model: Some(model.to_owned()),
            ..SystemIdentity::default()
        }
    }

    #[test]
    fn ami_is_recognized_by_vendor_or_oem_extension() {
        let root = |vendor: Option<&str>, oem: &[&str]| Root {
            vendor: vendor.map(str::to_owned),
            oem: oem.iter().map(|&name| name.to_owned()).collect(),
            ..Root::default()
        };
        assert!(wants_any_etag(&root(Some("AMI"), &[])));
        assert!(wants_any_etag(&root(Some("Lenovo"), &["Ami"])));
        assert!(!wants_any_etag(&root(Some("HPE"), &["Hpe"])));
        assert!(!wants_any_etag(&root(None, &[])));
    }

    #[test]
    fn rejected_session_login_is_ambiguous_only_on_supermicro() {
        let root = |vendor: Option<&str>, oem: &[&str]| Root {
            vendor: vendor.map(str::to_owned),
            oem: oem.iter().map(|&name| name.to_owned()).collect(),
            ..Root::default()
        };
        assert!(refuses_sessions(&root(Some("Supermicro"), &[])));
        assert!(refuses_sessions(&root(None, &["Supermicro"])));
        assert!(!refuses_sessions(&root(Some("Dell"), &["Dell"])));
    }

    #[test]
    fn supermicro_uses_usb_cd_as_boot_target() {
        let cd = |vendor, model| boot_words(BootDevice::Cd, &made_by(vendor, model))[0];
        assert_eq!(cd("Supermicro", "SYS-821GE"), "UsbCd");
        assert_eq!(cd("Supermicro", "ars-111gl-nhr"), "Cd");
        assert_eq!(cd("HPE", "DL385"), "Cd");
    }

    #[test]
    fn dell_locator_led_uses_blinking() {
        let dell = made_by("Dell Inc.", "R750");
        assert_eq!(led_words(true, &dell), ["Blinking"]);
        assert_eq!(led_words(true, &made_by("HPE", "")), ["Lit", "Blinking"]);
    }
}
