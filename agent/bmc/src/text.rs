//! Texts of devices.
//!
//! Owns: the only form in which a text of a BMC or PDU leaves its driver. Must never: let through a
//! character that changes how a terminal or a log shows the surrounding text.

use rackhand_identity::text::is_hidden;

/// A text of a device in one line of at most `max` characters, and `...` where it was longer. White
/// space becomes blanks; control characters, marks of direction and width, and bytes that are not
/// UTF-8 are omitted.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let mut plain = String::new();
    let mut blanks = 0_usize;
    let mut count = 0_usize;
    for c in text.chars() {
        if c.is_whitespace() {
            blanks = blanks.saturating_add(usize::from(count > 0));
            continue;
        }
        if is_hidden(c) {
            continue;
        }
        if count.saturating_add(blanks) >= max {
            plain.push_str("...");
            break;
        }
        plain.extend(std::iter::repeat_n(' ', blanks));
        count += blanks + 1;
        blanks = 0;
        plain.push(c);
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_one_line_without_hidden_characters() {
        assert_eq!(plain(" EX\u{fffd}\u{0}0001\u{1}\n", 9), "EX0001");
        assert_eq!(plain("a\r\nb\tc  d", 20), "a  b c  d");
        assert_eq!(plain("\u{1b}[31mred\u{9b}1m", 20), "[31mred1m");
        assert_eq!(plain("on\u{202e}ffo", 20), "onffo");
    }

    #[test]
    fn text_is_cut() {
        assert_eq!(plain("12345", 5), "12345");
        assert_eq!(plain("123456", 5), "12345...");
        assert_eq!(plain(&format!("a{}b", " ".repeat(1 << 20)), 5), "a...");
        assert!(plain(&"\u{e9}".repeat(1 << 20), 64).len() < 140);
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_stable(text in any::<String>(), max in 0_usize..40) {
            let once = plain(&text, max);
            prop_assert!(once.chars().count() <= max + 3);
            prop_assert!(!once.chars().any(is_hidden));
            prop_assert_eq!(plain(&once, max + 3), once);
        }
    }
}
