//! Cordons of remediations that are gone: they were moved, restored, or deleted without their finalizers (F9).

use super::super::Cordon;

/// What a remediation that is gone has left on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftCordon {
    /// The cordon, and the mark that says whose it is.
    Cordon,
    /// The mark alone: somebody else has uncordoned the Node, or has cordoned it since.
    Mark,
}

/// What is left on a Node, read live with its cordon and its `mark`, of the remediation with the UID `gone`, which no live list shows
/// (F12). Anything else is somebody else's, and stays.
pub fn left_cordon(cordon: &Cordon, mark: Option<&str>, gone: &str) -> Option<LeftCordon> {
    match cordon {
        Cordon::Rackhand { uid } => (uid == gone).then_some(LeftCordon::Cordon),
        Cordon::Absent | Cordon::Other => (mark == Some(gone)).then_some(LeftCordon::Mark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f9_mark_is_removed_without_the_cordon_of_somebody_else() {
        let ours = |uid: &str| Cordon::Rackhand { uid: uid.into() };
        for (cordon, mark, left) in [
            (ours("gone"), Some("gone"), Some(LeftCordon::Cordon)),
            (ours("other"), Some("other"), None),
            (Cordon::Absent, Some("gone"), Some(LeftCordon::Mark)),
            (Cordon::Other, Some("gone"), Some(LeftCordon::Mark)),
            (Cordon::Absent, Some("other"), None),
            (Cordon::Other, Some("other"), None),
            (Cordon::Absent, None, None),
            (Cordon::Other, None, None),
        ] {
            assert_eq!(
                left_cordon(&cordon, mark, "gone"),
                left,
                "{cordon:?}, {mark:?}"
            );
        }
    }
}
