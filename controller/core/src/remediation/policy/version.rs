//! Selects by the version of the workload cluster whether a Node is tainted or deleted.
//!
//! Invariant: a version that cannot be parsed is not treated as an old one.

use super::super::NodeAction;

/// The version in which the out-of-service taint became generally available.
const TAINT_SINCE: (u32, u32) = (1, 28);

/// The requested action, or the one that the version supports. `version` is major and minor as API
/// servers report them, such as `1` and `28+`.
pub fn node_action(asked: Option<NodeAction>, version: Option<(&str, &str)>) -> NodeAction {
    if let Some(asked) = asked {
        return asked;
    }
    let number = |text: &str| -> Option<u32> {
        let end = text.find(|c: char| !c.is_ascii_digit());
        text.get(..end.unwrap_or(text.len()))?.parse().ok()
    };
    let read = version.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
    match read {
        Some(version) if version < TAINT_SINCE => NodeAction::Delete,
        _ => NodeAction::Taint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_before_1_28_deletes_the_node_and_invalid_versions_taint() {
        for (major, minor, delete) in [
            ("1", "27", true),
            ("1", "27+", true),
            ("1", "9", true),
            ("0", "99", true),
            ("1", "28", false),
            ("1", "28+", false),
            ("1", "36-eks", false),
            ("2", "0", false),
            ("1", "", false),
            ("", "27", false),
            ("1", "+27", false),
            ("1", "99999999999999999999", false),
        ] {
            let action = node_action(None, Some((major, minor)));
            assert_eq!(action == NodeAction::Delete, delete, "{major}.{minor}");
        }
        assert_eq!(node_action(None, None), NodeAction::Taint);
    }

    #[test]
    fn requested_node_action_overrides_the_version() {
        for asked in [NodeAction::Taint, NodeAction::Delete] {
            for version in [None, Some(("1", "27")), Some(("1", "36"))] {
                assert_eq!(node_action(Some(asked), version), asked);
            }
        }
    }
}
