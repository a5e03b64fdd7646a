//! The manual page of the fence agent, from the same table as its help.
//!
//! Pure.

use std::fmt::Write as _;

use super::{
    metadata::{ACTIONS, LONG, NAME, SHORT, mixed},
    options::OPTIONS,
};

/// The page in roff.
pub(crate) fn page() -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out);
    out
}

fn write_page(out: &mut String) -> std::fmt::Result {
    let version = env!("CARGO_PKG_VERSION");
    writeln!(
        out,
        ".TH {NAME} 8 \"\" \"{NAME} {version}\" \"Fence agents\""
    )?;
    writeln!(out, ".SH NAME\n{NAME} \\- {}", escaped(SHORT))?;
    writeln!(
        out,
        ".SH SYNOPSIS\n\\fB{NAME}\\fR [\\fIoptions\\fR]\n.br\n\\fB{NAME}\\fR < lines of \
         \\fIname\\fR=\\fIvalue\\fR"
    )?;
    writeln!(out, ".SH DESCRIPTION\n{}", escaped(LONG))?;
    writeln!(out, ".SH ACTIONS\non, {}", escaped(&ACTIONS.join(", ")))?;
    writeln!(out, ".SH OPTIONS")?;
    for opt in OPTIONS {
        let default = opt.default.map(|value| format!(" (default: {value})"));
        writeln!(
            out,
            ".TP\n\\fB{}\\fR\n{}{}",
            escaped(&mixed(opt)),
            escaped(opt.text),
            escaped(&default.unwrap_or_default())
        )?;
    }
    writeln!(
        out,
        ".SH EXIT STATUS\n0 done, and status is on; 2 status is off; 1 anything else."
    )?;
    writeln!(out, ".SH SEE ALSO\n\\fBrackhand\\-agent\\fR(1)")
}

/// Escapes text so that it contains no roff requests.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.chars().next() {
        Some('.' | '\'') => format!("\\&{text}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_describes_every_option_and_escapes_roff_requests() {
        let page = page();
        for opt in OPTIONS {
            let long = format!("\\-\\-{}", escaped(&opt.long()));
            assert!(page.contains(&long), "{long}");
        }
        let known = [".TH ", ".SH ", ".TP", ".br"];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(known.iter().any(|known| line.starts_with(known)), "{line}");
        }
        assert_eq!(escaped(".so a\\b"), "\\&.so a\\eb");
    }
}
