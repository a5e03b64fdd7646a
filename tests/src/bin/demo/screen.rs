//! Output to standard output, in colour on a terminal.

use std::io::{IsTerminal, Write};

/// Maximum width of a line of a scenario.
const WIDTH: usize = 110;

/// The output.
#[derive(Clone, Copy)]
pub(crate) struct Screen {
    colour: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self {
            colour: std::io::stdout().is_terminal(),
        }
    }

    pub(crate) fn print(self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A closed pipe must not leave processes behind.
        writeln!(out, "{text}").ok();
        out.flush().ok();
    }

    pub(crate) fn title(self, text: &str) {
        self.print(&format!("\n{}\n", self.paint("1", text)));
    }

    pub(crate) fn step(self, text: &str) {
        self.print(&format!("  ... {text}"));
    }

    pub(crate) fn header(self) {
        self.print(&format!(
            "\n{}",
            self.paint("1", " elapsed  who         what")
        ));
    }

    pub(crate) fn line(self, at: f64, who: &str, what: &str) {
        self.print(&format!("{at:>6.2} s  {} {what}", self.who(who)));
    }

    /// Prints the names of the columns of a scenario.
    pub(crate) fn columns(self) {
        let columns = format!("{:>9}  {:<11} {:<4} what", "elapsed", "who", "rule");
        self.print(&self.paint("1", &columns));
    }

    /// Prints a line of a scenario with its rule, wrapped to the width of a terminal.
    pub(crate) fn told(self, at: f64, who: &str, rule: &str, what: &str) {
        let rule = self.paint("1", &format!("{rule:<4}"));
        let indent = 28;
        for (number, line) in wrap(what, WIDTH - indent).iter().enumerate() {
            if number == 0 {
                self.print(&format!("{at:>7.1} s  {} {rule} {line}", self.who(who)));
            } else {
                self.print(&format!("{:indent$}{line}", ""));
            }
        }
    }

    /// Prints a paragraph between the lines of a scenario.
    pub(crate) fn aside(self, mark: &str, text: &str) {
        let indent = 12 + mark.len();
        for (number, line) in wrap(text, WIDTH - indent).iter().enumerate() {
            let mark = if number == 0 { mark } else { "" };
            self.print(&format!("{:>indent$}{}", mark, self.paint("2", line)));
        }
    }

    /// Prints a paragraph before the lines of a scenario.
    pub(crate) fn paragraph(self, text: &str) {
        for line in wrap(text, WIDTH - 2) {
            self.print(&format!("  {line}"));
        }
        self.print("");
    }

    /// Prints text unchanged, with an indent.
    pub(crate) fn quote(self, mark: &str, text: &str) {
        for line in text.lines() {
            self.print(&format!("{:12}{mark}{line}", ""));
        }
    }

    fn who(self, who: &str) -> String {
        let colour = match who {
            "BMC" => "31",
            "controller" | "Rackhand" | "check" => "36",
            "kubernetes" | "Kubernetes" => "34",
            "host" => "33",
            "fault" | "person" => "35",
            _ => "0",
        };
        self.paint(colour, &format!("{who:<11}"))
    }

    fn paint(self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Wraps text to this width; longer words stay whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_wrap_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("longer-than-that x", 7), ["longer-than-that", "x"]);
        assert!(wrap("", 7).is_empty());
    }
}
