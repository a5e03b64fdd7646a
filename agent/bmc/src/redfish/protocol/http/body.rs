//! Conversion of the bytes of a body to a document.
//!
//! Owns: decompression, bounds, and tolerance of malformed strings. Must never: fail; build a document that takes
//! far more memory than its bytes; or compute for long on the runtime.

use std::{borrow::Cow, io::Read};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::redfish::protocol::response::Body;

/// Maximum body size in bytes, as sent and decompressed; an event log of a thousand entries takes a
/// quarter of it.
pub(super) const MAX_BODY: usize = 4 << 20;
/// Maximum memory of a document in bytes, as estimated by [`cost`].
const MAX_COST: usize = 32 << 20;
/// Longest body that is parsed without handing it to another thread.
const MAX_INLINE: usize = 32 << 10;
/// Memory of an object with one entry, and of one more value.
const OBJECT: usize = 640;
const VALUE: usize = 128;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Replacement for content that a string must not have.
const UNREADABLE: char = char::REPLACEMENT_CHARACTER;

const NOT_JSON: Body = Body::Other("a body that is not JSON");

/// Parses a body.
pub(super) async fn parse(bytes: Vec<u8>) -> Body {
    if bytes.len() <= MAX_INLINE && !bytes.starts_with(GZIP) {
        return of(&bytes);
    }
    let parsing = tokio::task::spawn_blocking(move || of(&bytes));
    parsing.await.unwrap_or(NOT_JSON)
}

/// Parses bytes as JSON, compressed or not. A BMC may compress a body unasked and without the header for it; no
/// JSON begins like gzip.
pub(in crate::redfish) fn of(bytes: &[u8]) -> Body {
    if !bytes.starts_with(GZIP) {
        return of_plain(bytes);
    }
    let mut plain = Vec::new();
    let limit = u64::try_from(MAX_BODY)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    match GzDecoder::new(bytes).take(limit).read_to_end(&mut plain) {
        Ok(length) if length > MAX_BODY => Body::Other("compressed JSON that is too long"),
        Ok(_) => of_plain(&plain),
        Err(_) => Body::Other("a compressed body that is damaged"),
    }
}

fn of_plain(bytes: &[u8]) -> Body {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let bytes = bytes.trim_ascii();
    match bytes.first() {
        None => return Body::Empty,
        Some(b'<') => return Body::Html,
        Some(_) => {}
    }
    if cost(bytes) > MAX_COST {
        return Body::Other("JSON with more values than are read");
    }
    let parsed = serde_json::from_slice::<Value>(bytes);
    match parsed.or_else(|_| serde_json::from_str(&repaired(bytes))) {
        Ok(value) => Body::Json(value),
        Err(error) if error.is_eof() => Body::Other("truncated JSON"),
        Err(_) => NOT_JSON,
    }
}

/// An estimate of the memory that the document takes, from its punctuation outside of strings. An
/// object of a few bytes takes a hundred times as much as it is long.
fn cost(bytes: &[u8]) -> usize {
    let (mut cost, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in bytes {
        if is_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'{' => cost = cost.saturating_add(OBJECT),
            b'[' | b',' => cost = cost.saturating_add(VALUE),
            _ => {}
        }
    }
    cost
}

/// The text with strings that JSON allows: bytes that are not UTF-8, control characters, halves of surrogate pairs
/// and the backslashes of unknown escapes become U+FFFD, so that the repair cannot produce a power state that the
/// BMC did not send. Serial numbers and asset tags are copied from wherever they are stored.
fn repaired(bytes: &[u8]) -> String {
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text.chars();
    let mut is_string = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                is_string = !is_string;
                repaired.push(c);
            }
            '\\' if is_string => escape(&mut rest, &mut repaired),
            c if c.is_control() => {
                // Between values only white space is allowed; NULs at the end are padding.
                repaired.push(if is_string { UNREADABLE } else { ' ' });
            }
            c => repaired.push(c),
        }
    }
    repaired
}

/// Copies the escape after a backslash.
fn escape(rest: &mut std::str::Chars<'_>, repaired: &mut String) {
    let mut ahead = rest.clone();
    match ahead.next() {
        Some('u') => {
            let Some(unit) = unit(&mut ahead) else {
                return repaired.push(UNREADABLE);
            };
            let mut end = ahead.clone();
            let second = if (0xd800..0xdc00).contains(&unit) && end.next() == Some('\\') {
                (end.next() == Some('u'))
                    .then(|| self::unit(&mut end))
                    .flatten()
            } else {
                None
            };
            let units: Vec<u16> = std::iter::once(unit).chain(second).collect();
            let is_pair = second.is_some() && String::from_utf16(&units).is_ok();
            let taken = if is_pair { &units[..] } else { &units[..1] };
            // Written as an escape: the character may be a quotation mark or a control character.
            for unit in taken {
                let is_half = !is_pair && (0xd800..0xe000).contains(unit);
                let unit = if is_half { 0xfffd } else { *unit };
                repaired.push_str(&format!("\\u{unit:04x}"));
            }
            *rest = if is_pair { end } else { ahead };
        }
        Some(known @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't')) => {
            repaired.extend(['\\', known]);
            *rest = ahead;
        }
        // The next character is copied as any other.
        _ => repaired.push(UNREADABLE),
    }
}

/// The four hexadecimal digits of an escape.
fn unit(rest: &mut std::str::Chars<'_>) -> Option<u16> {
    let mut ahead = rest.clone();
    let mut unit = 0;
    for _ in 0..4 {
        let digit = u16::try_from(ahead.next()?.to_digit(16)?).ok()?;
        unit = unit << 4 | digit;
    }
    *rest = ahead;
    Some(unit)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn compressed_document_is_read() {
        assert_eq!(of(&gzip(b"{\"a\": 1}")), Body::Json(json!({"a": 1})));
        let half = gzip(b"{\"a\": 1}");
        assert!(matches!(of(&half[..half.len() - 9]), Body::Other(_)));
        assert_eq!(of(&gzip(b"")), Body::Empty);
    }

    #[test]
    fn compressed_bomb_is_not_unpacked() {
        let bomb = gzip(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(of(&bomb), Body::Other("compressed JSON that is too long"));
    }

    #[test]
    fn dirty_strings_are_read() {
        for (dirty, clean) in [
            (&b"{\"a\": \"EX\xff\x0001\x01\"}"[..], "EX??01?"),
            (b"{\"a\": \"Geh\xe4use\"}", "Geh?use"),
            (b"{\"a\": \"x\ty\"}", "x?y"),
            (b"{\"a\": \"\\x41\\'\"}", "?x41?'"),
            (b"{\"a\": \"\\ud800\"}", "?"),
            (b"{\"a\": \"\\udc00\\ud83d\\ude00\x01\"}", "?\u{1f600}?"),
            (b"{\"a\": \"\\u0022\\\\\\\"\x02\"}", "\"\\\"?"),
            (b"{\"a\": \"\\u12\"}", "?u12"),
            (b"{\"a\": \"x\"}\0\0\0", "x"),
            (b"\0{\"a\":\x0b\"x\"}", "x"),
        ] {
            let clean = clean.replace('?', "\u{fffd}");
            assert_eq!(of(dirty), Body::Json(json!({"a": clean})), "{dirty:?}");
        }
    }

    #[test]
    fn f1_no_dirty_word_becomes_off() {
        for dirty in [
            &b"\"Off\x00\""[..],
            b"\"O\x01ff\"",
            b"\"Off\xff\"",
            b"\"\\Off\"",
            b"\"Of\\ud800f\"",
            b"\"Off\x7f\"",
        ] {
            let Body::Json(value) = of(dirty) else {
                panic!("{dirty:?}");
            };
            assert_ne!(value, json!("Off"), "{dirty:?}");
        }
    }

    #[test]
    fn document_that_would_take_too_much_memory_is_refused() {
        let member = "{\"@odata.id\":\"/a/1\"},";
        let body = format!("{{\"Members\":[{}1]}}", member.repeat(150_000));
        assert!(body.len() < MAX_BODY);
        assert_eq!(
            of(body.as_bytes()),
            Body::Other("JSON with more values than are read")
        );
        for fill in ["{},", "[],", "0,", "{\"\":{}},"] {
            let body = format!("[{}0]", fill.repeat(MAX_BODY / fill.len()));
            assert!(matches!(of(body.as_bytes()), Body::Other(_)), "{fill}");
        }
        // Punctuation in a text costs nothing.
        let text = format!("{{\"a\": \"{}\"}}", "{,\\\"".repeat(500_000));
        assert!(matches!(of(text.as_bytes()), Body::Json(_)));
    }

    #[test]
    fn event_log_of_four_thousand_entries_is_read() {
        let entry = json!({"@odata.id": "/redfish/v1/Systems/1/LogServices/SEL/Entries/1", "Id": "1",
            "@odata.type": "#LogEntry.v1_9_0.LogEntry", "Name": "Entry", "EntryType": "SEL",
            "Severity": "Critical", "Created": "2026-05-04T03:02:01Z", "MessageId": "a.1.b",
            "Message": "Power supply 1 has failed, and so on, for as long as such a text usually is.",
            "MessageArgs": ["1"], "Links": {"OriginOfCondition": {"@odata.id": "/redfish/v1/Chassis/1"}},
        });
        let body = json!({"Members": vec![entry; 4_000]}).to_string();
        assert!(
            matches!(of(body.as_bytes()), Body::Json(_)),
            "{}",
            body.len()
        );
    }

    #[tokio::test]
    async fn long_body_is_parsed_like_a_short_one() {
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(MAX_INLINE));
        assert!(matches!(parse(long.into_bytes()).await, Body::Json(_)));
        assert_eq!(parse(gzip(b"[]")).await, Body::Json(json!([])));
    }

    proptest! {
        #[test]
        fn any_bytes_in_a_string_leave_a_document(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = bytes;
            bytes.retain(|byte| !matches!(byte, b'"' | b'\\'));
            let body = [&b"{\"a\": \""[..], &bytes, b"\", \"b\": 1}"].concat();
            let Body::Json(body) = of(&body) else {
                return Err(TestCaseError::fail("no JSON"));
            };
            prop_assert_eq!(&body["b"], 1);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = of(&bytes);
        }
    }
}
