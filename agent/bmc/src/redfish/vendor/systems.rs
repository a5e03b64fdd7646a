//! Systems with special behaviour.

use crate::SystemIdentity;

/// Name prefixes of systems that are not hosts: boards that a BMC lists beside the host, without a
/// reset action. NVIDIA's are unreadable while the host is off.
const BOARDS: &[&str] = &["HGX_Baseboard_"];

/// Whether a member of the systems collection is a board, by its name.
pub(in crate::redfish) fn is_board(uri: &str) -> bool {
    let name = uri
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or_default();
    BOARDS.iter().any(|board| name.starts_with(board))
}

/// Models on which `ForceRestart` can hang the host or lose its devices, by a part of the model
/// name. Lenovo SR675 V3 hangs; other tools use off, confirm, on.
const RESTART_HANGS: &[(&str, &str)] = &[("lenovo", "SR675 V3")];

/// Whether a hard reset of this system is known to hang. Use off, confirmation and on instead.
pub(in crate::redfish) fn restart_hangs(identity: &SystemIdentity) -> bool {
    let (Some(vendor), Some(model)) = (&identity.vendor, &identity.model) else {
        return false;
    };
    RESTART_HANGS
        .iter()
        .any(|(maker, name)| vendor.eq_ignore_ascii_case(maker) && model.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_system_is_recognized_by_its_name() {
        assert!(is_board("/redfish/v1/Systems/HGX_Baseboard_0"));
        assert!(is_board("/redfish/v1/Systems/HGX_Baseboard_0/"));
        assert!(!is_board("/redfish/v1/Systems/DGX"));
    }

    #[test]
    fn model_that_hangs_on_restart_requires_its_vendor() {
        let system = |vendor: &str, model: &str| SystemIdentity {
            vendor: Some(vendor.to_owned()),
            model: Some(model.to_owned()),
            ..SystemIdentity::default()
        };
        assert!(restart_hangs(&system("Lenovo", "ThinkSystem SR675 V3 ")));
        assert!(!restart_hangs(&system("Lenovo", "ThinkSystem SR670 V2")));
        assert!(!restart_hangs(&system("Example", "SR675 V3")));
        assert!(!restart_hangs(&SystemIdentity::default()));
    }
}
