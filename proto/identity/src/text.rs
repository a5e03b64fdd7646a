//! Hidden characters of foreign texts: invisible, but able to change how the surrounding text is shown.

use std::borrow::Cow;

/// Whether a character is a control character, or a mark of direction or width.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffd}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text for a terminal: hidden characters except line ends and tabs are written as escapes, such as `\u001b`,
/// as in JSON.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |c: char| matches!(c, '\n' | '\t') || !is_hidden(c);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) {
            visible.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            visible.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_marks_of_direction_are_visible() {
        for (text, shown) in [
            ("a\tb\n\u{e9}", "a\tb\n\u{e9}"),
            ("\u{1b}[2Kr1-h1 off\r", "\\u001b[2Kr1-h1 off\\u000d"),
            ("\u{9b}1m", "\\u009b1m"),
            ("on\u{202e}ffo", "on\\u202effo"),
            ("\u{e0001}", "\\udb40\\udc01"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
