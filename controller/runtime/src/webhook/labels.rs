//! Names and values of labels, as Kubernetes takes them.
//!
//! Owns the two forms only.

/// Whether this may be the key of a label: up to 63 letters, digits, `-`, `_` and `.` between a letter
/// or digit at either end, after a DNS name and `/` or not.
pub(super) fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Whether this may be the value of a label: such a name, or nothing.
pub(super) fn is_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

fn is_name(text: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.bytes().next())
        && ends(text.bytes().last())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

/// A DNS subdomain: labels of lower-case letters, digits and `-`.
pub(super) fn is_dns_name(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|label| {
            label.bytes().next().is_some_and(lower)
                && label.bytes().last().is_some_and(lower)
                && label.bytes().all(|b| lower(b) || b == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_taken_as_kubernetes_takes_them() {
        let long = "a".repeat(64);
        for good in ["a", "A_b.c-1", "cluster.x-k8s.io/control-plane", "1/2"] {
            assert!(is_key(good), "{good}");
        }
        for bad in [
            "", "-a", "a-", "/a", "a/", "A.b/c", "a/b/c", "a b", "é", &long,
        ] {
            assert!(!is_key(bad), "{bad}");
        }
        assert!(is_value("") && is_value("v1.2_3-x"));
        assert!(!is_value("a/b") && !is_value("-") && !is_value(&long));
    }
}
