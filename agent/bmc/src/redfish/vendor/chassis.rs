//! Chassis whose power state is not that of the host.

/// Name prefixes of board chassis with their own power supply. NVIDIA's HGX boards stay in standby
/// while the host is off, and are then unreadable.
const BOARDS: &[&str] = &["HGX_"];

/// Chassis with a constant power state, by manufacturer and model: the template of sushy-tools.
const CONSTANT: &[(&str, &str)] = &[("Contoso", "3500RX")];

/// Whether a chassis is a board with its own power supply, by its name.
pub(in crate::redfish) fn is_board_chassis(name: &str) -> bool {
    BOARDS.iter().any(|board| name.starts_with(board))
}

/// Whether a chassis of this manufacturer and model always reports the same power state.
pub(in crate::redfish) fn is_constant_chassis(maker: Option<&str>, model: Option<&str>) -> bool {
    CONSTANT
        .iter()
        .any(|(of, name)| maker == Some(*of) && model == Some(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn board_and_constant_chassis_are_recognized() {
        assert!(is_board_chassis("HGX_Chassis_0"));
        assert!(!is_board_chassis("Chassis_0"));
        assert!(is_constant_chassis(Some("Contoso"), Some("3500RX")));
        assert!(!is_constant_chassis(Some("Contoso"), None));
        assert!(!is_constant_chassis(None, Some("3500RX")));
    }
}
