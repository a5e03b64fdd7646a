//! Which of several triggers acts on a Node.

/// A trigger that may act on a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<'a> {
    /// `namespace/name` of the trigger.
    pub trigger: &'a str,
    /// Whether its remediation of the Node has not ended, or its label is not answered.
    pub has_begun: bool,
}

/// The trigger that acts on a Node: one that has begun, and otherwise the first by name. The others wait.
#[must_use]
pub fn acting<'a>(claims: &[Claim<'a>]) -> Option<&'a str> {
    let first = |begun: bool| {
        let claims = claims.iter().filter(|claim| claim.has_begun == begun);
        claims.map(|claim| claim.trigger).min()
    };
    first(true).or_else(|| first(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(trigger: &str, has_begun: bool) -> Claim<'_> {
        Claim { trigger, has_begun }
    }

    #[test]
    fn first_by_name_acts_unless_another_has_begun() {
        assert_eq!(acting(&[]), None);
        assert_eq!(acting(&[claim("b", false), claim("a", false)]), Some("a"));
        assert_eq!(acting(&[claim("b", true), claim("a", false)]), Some("b"));
        assert_eq!(acting(&[claim("c", true), claim("b", true)]), Some("b"));
    }
}
