//! Removes what identifies a site from texts of BMCs and agents. Pure.

use std::net::{IpAddr, SocketAddr};

/// The identifiers of one host, and what replaces them.
#[derive(Debug, Clone, Default)]
pub(super) struct Redactor {
    known: Vec<(String, &'static str)>,
}

impl Redactor {
    /// Adds an identifier. One of less than two characters would match too much.
    pub(super) fn add(&mut self, identifier: &str, placeholder: &'static str) {
        let identifier = identifier.trim();
        if identifier.len() >= 2 {
            self.known.push((identifier.to_lowercase(), placeholder));
            // The longest first: a name may be part of another one.
            self.known
                .sort_by_key(|(known, _)| std::cmp::Reverse(known.len()));
        }
    }

    /// The text with placeholders for known identifiers, addresses, UUIDs and MAC addresses.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for (known, placeholder) in &self.known {
            clean = replaced(&clean, known, placeholder);
        }
        let mut out = String::with_capacity(clean.len());
        let mut word = String::new();
        for letter in clean.chars().chain(['\0']) {
            if letter.is_alphanumeric() || matches!(letter, '.' | ':' | '-' | '_') {
                word.push(letter);
                continue;
            }
            out.push_str(&scrubbed(&word));
            word.clear();
            if letter != '\0' {
                out.push(letter);
            }
        }
        out
    }
}

/// Replaces whole words, in any case.
fn replaced(text: &str, known: &str, placeholder: &str) -> String {
    let lower = text.to_lowercase();
    if lower.len() != text.len() {
        // The case of some letters changes their length: positions would not fit.
        return text.replace(known, placeholder);
    }
    let mut out = String::new();
    let mut from = 0;
    for (at, found) in lower.match_indices(known) {
        let end = at + found.len();
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let before = lower
            .get(..at)
            .and_then(|before| before.chars().next_back());
        let after = lower.get(end..).and_then(|after| after.chars().next());
        if is_letter(before) || is_letter(after) {
            continue;
        }
        out.push_str(text.get(from..at).unwrap_or_default());
        out.push_str(placeholder);
        from = end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn scrubbed(word: &str) -> String {
    let core = word.trim_matches([':', '.']);
    let placeholder = if core.parse::<SocketAddr>().is_ok() || core.parse::<IpAddr>().is_ok() {
        "<address>"
    } else if is_uuid(core) {
        "<uuid>"
    } else if is_mac(core) {
        "<mac>"
    } else {
        return word.to_owned();
    };
    word.replacen(core, placeholder, 1)
}

fn is_uuid(word: &str) -> bool {
    word.len() >= 32 && uuid::Uuid::parse_str(word).is_ok()
}

fn is_mac(word: &str) -> bool {
    let pairs: Vec<&str> = word.split([':', '-']).collect();
    let is_pair =
        |pair: &&str| pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    pairs.len() == 6 && pairs.iter().all(is_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_become_placeholders() {
        let mut redactor = Redactor::default();
        redactor.add("n1", "<host>");
        redactor.add("n1.dc.example", "<bmc>");
        redactor.add("SN-7 B", "<serial>");
        redactor.add("", "<nothing>");
        redactor.add("7", "<digit>");
        for (text, clean) in [
            ("host n1: N1 is on", "host <host>: <host> is on"),
            ("at n1.dc.example:443", "at <bmc>:443"),
            ("n10 and xn1 are others", "n10 and xn1 are others"),
            ("serial sn-7 b.", "serial <serial>."),
            (
                "to 192.0.2.7:623, [2001:db8::7]",
                "to <address>, [<address>]",
            ),
            (
                "4C4C4544-0042-3510-8054-C2C04F4E4E32: 00:1b:21:aa:bb:cc.",
                "<uuid>: <mac>.",
            ),
            (
                "firmware 7.10.30.00, 2.14.1, 7",
                "firmware 7.10.30.00, 2.14.1, 7",
            ),
            ("ÄÖ n1 İ", "ÄÖ <host> İ"),
        ] {
            assert_eq!(redactor.scrub(text), clean);
        }
    }
}
