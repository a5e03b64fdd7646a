//! The name of the remediation of a trigger for a Node.

/// Longest part of a Node's name in the name of its remediation, in bytes. An object's name has at most 253.
const NODE: usize = 200;

/// The name of the remediation of a trigger for a Node: the same after a crash, so that there are never two, and
/// another one for a later Node of the same name.
#[must_use]
pub fn remediation_name(trigger: &str, node: &str, node_uid: &str) -> String {
    let end = (0..=NODE.min(node.len()))
        .rev()
        .find(|&end| node.is_char_boundary(end));
    let shown = node.get(..end.unwrap_or_default()).unwrap_or_default();
    let shown = shown.trim_end_matches(['.', '-']);
    // Neither name contains a slash.
    let digest = digest(&format!("{trigger}/{node_uid}")) >> 16;
    format!("{shown}-{digest:012x}")
}

/// FNV-1a, because the name must be the same in every version of this program.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_stable_and_differs_by_trigger_and_node_uid() {
        let name = remediation_name("reboot", "node-7", "u1");
        assert_eq!(name, remediation_name("reboot", "node-7", "u1"));
        assert!(name.starts_with("node-7-"), "{name}");
        assert_eq!(name.len(), "node-7-".len() + 12);
        assert_ne!(name, remediation_name("reboot", "node-7", "u2"));
        assert_ne!(name, remediation_name("other", "node-7", "u1"));
    }

    #[test]
    fn long_names_are_cut_and_stay_valid() {
        let long = format!("{}.example.com", "n".repeat(NODE - 1));
        let name = remediation_name("reboot", &long, "u");
        assert!(name.len() <= 253, "{}", name.len());
        assert!(!name.contains(".-"), "{name}");
    }
}
