//! The label of a trigger on a Node.

/// The prefix of labels that no kubelet may set on its own Node, where the API server runs the admission plugin
/// NodeRestriction.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// The label of a trigger, as a Node has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeLabel {
    /// The Node does not have it.
    Absent,
    /// It has the value that the trigger acts on.
    Set,
    /// It has the value that says failed.
    Failed,
    /// It has another value.
    Other,
}

impl NodeLabel {
    /// By the value on the Node, and the two values of the trigger.
    #[must_use]
    pub fn of(value: Option<&str>, acts_on: &str, failed: &str) -> Self {
        match value {
            None => Self::Absent,
            Some(value) if value == acts_on => Self::Set,
            Some(value) if value == failed => Self::Failed,
            Some(_) => Self::Other,
        }
    }
}

/// Whether the admission plugin NodeRestriction keeps kubelets from setting, changing and removing a label of their
/// own Nodes: its prefix is `node-restriction.kubernetes.io`, or a subdomain of that. Kubelets may set any label
/// without a prefix of Kubernetes.
#[must_use]
pub fn is_restricted(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else {
        return false;
    };
    let parent = prefix.strip_suffix(RESTRICTED);
    parent.is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_prefix_of_node_restriction_and_its_subdomains_are_restricted() {
        for key in [
            "node-restriction.kubernetes.io/reboot",
            "example.com.node-restriction.kubernetes.io/reboot",
        ] {
            assert!(is_restricted(key), "{key}");
        }
        for key in [
            "reboot",
            "node-restriction.kubernetes.io",
            "example.com/reboot",
            "not-node-restriction.kubernetes.io/reboot",
            "node-restriction.kubernetes.io.example.com/reboot",
            "kubernetes.io/node-restriction.kubernetes.io",
        ] {
            assert!(!is_restricted(key), "{key}");
        }
    }

    #[test]
    fn value_decides_what_the_label_means() {
        for (value, expected) in [
            (None, NodeLabel::Absent),
            (Some("now"), NodeLabel::Set),
            (Some("failed"), NodeLabel::Failed),
            (Some(""), NodeLabel::Other),
            (Some("NOW"), NodeLabel::Other),
        ] {
            assert_eq!(NodeLabel::of(value, "now", "failed"), expected, "{value:?}");
        }
    }
}
