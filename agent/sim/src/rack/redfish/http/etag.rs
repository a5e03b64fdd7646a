//! Entity tags and preconditions.
//!
//! Pure. Owns: the matching rules: RFC 9110, 8.8.3 and 13.1, and the deviations of profiles.

use crate::rack::redfish::profile::{IfMatch, TagKind};

/// The tag of these bytes; `None` if resources have no tags.
pub(in crate::rack::redfish) fn tag(kind: TagKind, content: &[u8]) -> Option<String> {
    // FNV-1a: the same content has the same tag in every run.
    let hash = content
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    match kind {
        TagKind::None => None,
        TagKind::Weak => Some(format!("W/\"{hash:016X}\"")),
        TagKind::Strong => Some(format!("\"{hash:016X}\"")),
    }
}

/// Reason why a change is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rack::redfish) enum Unmet {
    /// `If-Match` is required, but missing (428).
    Missing,
    /// It does not match (412).
    Failed,
}

/// Whether a resource with this tag may be changed by a request with this `If-Match`.
pub(in crate::rack::redfish) fn may_change(
    rule: IfMatch,
    sent: Option<&str>,
    current: Option<&str>,
) -> Result<(), Unmet> {
    let met = match (rule, sent) {
        (IfMatch::StarOnly, None) => return Err(Unmet::Missing),
        (_, None) => true,
        (IfMatch::StarOnly | IfMatch::Optional, Some("*")) => true,
        (IfMatch::NoStar, Some("*")) | (IfMatch::StarOnly, Some(_)) => false,
        (_, Some(sent)) => match current {
            Some(current) => any_is(sent, current),
            // Without tags there is nothing to compare with, and such BMCs ignore the header.
            None => true,
        },
    };
    if met { Ok(()) } else { Err(Unmet::Failed) }
}

/// Whether a client that sent this `If-None-Match` has the current version.
pub(in crate::rack::redfish) fn is_known(sent: &str, current: &str) -> bool {
    sent.trim() == "*" || any_is(sent, current)
}

/// Whether a list of tags contains this one. The comparison is weak, because Redfish clients send
/// weak tags in `If-Match` too.
fn any_is(sent: &str, current: &str) -> bool {
    fn bare(tag: &str) -> &str {
        tag.trim().trim_start_matches("W/")
    }
    sent.split(',').any(|sent| bare(sent) == bare(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Option<&str> = Some("\"1\"");

    #[test]
    fn etag_depends_on_the_content() {
        let strong = tag(TagKind::Strong, b"a").unwrap();
        assert_eq!(tag(TagKind::Weak, b"a").unwrap(), format!("W/{strong}"));
        assert_ne!(tag(TagKind::Strong, b"b").unwrap(), strong);
        assert_eq!(tag(TagKind::None, b"a"), None);
    }

    #[test]
    fn change_requires_the_if_match_of_the_profile() {
        let cases = [
            (IfMatch::Optional, None, Ok(())),
            (IfMatch::Optional, Some("*"), Ok(())),
            (IfMatch::Optional, Some("\"1\""), Ok(())),
            (IfMatch::Optional, Some("\"0\", W/\"1\""), Ok(())),
            (IfMatch::Optional, Some("\"2\""), Err(Unmet::Failed)),
            (IfMatch::NoStar, None, Ok(())),
            (IfMatch::NoStar, Some("*"), Err(Unmet::Failed)),
            (IfMatch::NoStar, Some("\"1\""), Ok(())),
            (IfMatch::StarOnly, None, Err(Unmet::Missing)),
            (IfMatch::StarOnly, Some("*"), Ok(())),
            (IfMatch::StarOnly, Some("\"1\""), Err(Unmet::Failed)),
        ];
        for (rule, sent, expected) in cases {
            assert_eq!(may_change(rule, sent, TAG), expected, "{rule:?} {sent:?}");
        }
    }

    #[test]
    fn weak_etag_matches() {
        let weak = Some("W/\"1\"");
        assert_eq!(may_change(IfMatch::Optional, weak, weak), Ok(()));
        assert!(is_known("W/\"1\"", "\"1\"") && is_known("*", "\"1\""));
        assert!(!is_known("\"2\"", "\"1\""));
    }
}
