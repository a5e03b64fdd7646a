//! Parser of the options of a fence agent: arguments in the style of getopt_long, or lines on
//! standard input if there are no arguments (docs/reference/fence-agents.md, Input).
//!
//! Pure. Must never: repeat a value in an error, because it may be a password.

use std::collections::BTreeMap;

use super::options::{Kind, OPTIONS, Opt, named};

/// The given options by name; the last value of an option counts.
#[derive(Default)]
pub(super) struct Input {
    values: BTreeMap<&'static str, String>,
    /// Warnings about ignored options.
    pub(super) warnings: Vec<String>,
}

impl Input {
    /// Parses arguments, without the program's own name.
    ///
    /// # Errors
    ///
    /// An unknown option, or one without its value: nothing is done then.
    pub(super) fn arguments(arguments: &[String]) -> Result<Self, String> {
        let mut given = Self::default();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                given.leftover(rest.by_ref());
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (long, None),
                };
                let opt = by_prefix(name)?;
                given.take(opt, value, &mut rest)?;
            } else if let Some(flags) = word.strip_prefix('-').filter(|flags| !flags.is_empty()) {
                given.flags(flags, &mut rest)?;
            } else {
                given.leftover(std::iter::once(word));
            }
        }
        Ok(given)
    }

    /// Parses lines, one `name=value` each.
    pub(super) fn lines(text: &str) -> Self {
        let mut given = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let (name, value) = (name.trim(), unquoted(value.trim()));
            match named(name) {
                Some(opt) => {
                    given.values.insert(opt.name, value.to_owned());
                }
                // Pacemaker sends it to every fence agent.
                None if name == "nodename" => {}
                None => given
                    .warnings
                    .push(format!("option {} is not known and ignored", shown(name))),
            }
        }
        given
    }

    /// The value of an option, as given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn flags<'a>(
        &mut self,
        flags: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let mut left = flags.chars();
        while let Some(flag) = left.next() {
            let opt = OPTIONS
                .iter()
                .find(|opt| opt.short == Some(flag))
                .ok_or_else(|| {
                    format!(
                        "option -{} is not known; --help lists them",
                        shown(&flag.to_string())
                    )
                })?;
            if opt.kind == Kind::Boolean {
                self.take(opt, None, rest)?;
                continue;
            }
            let value = Some(left.as_str().to_owned()).filter(|value| !value.is_empty());
            return self.take(opt, value, rest);
        }
        Ok(())
    }

    fn take<'a>(
        &mut self,
        opt: &'static Opt,
        value: Option<String>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let value = match (value, opt.kind) {
            (Some(value), _) => value,
            (None, Kind::Boolean) => "1".to_owned(),
            (None, _) => rest
                .next()
                .cloned()
                .ok_or_else(|| format!("option --{} needs a value", opt.long()))?,
        };
        self.values.insert(opt.name, value);
        Ok(())
    }

    fn leftover<'a>(&mut self, words: impl Iterator<Item = &'a String>) {
        let count = words.count();
        if count > 0 {
            self.warnings
                .push(format!("{count} arguments are not options and are ignored"));
        }
    }
}

/// Finds a long option by an unambiguous prefix.
fn by_prefix(name: &str) -> Result<&'static Opt, String> {
    if let Some(opt) = named(name) {
        return Ok(opt);
    }
    let mut found = OPTIONS.iter().filter(|opt| opt.long().starts_with(name));
    match (found.next(), found.next()) {
        (Some(opt), None) if !name.is_empty() => Ok(opt),
        (Some(_), Some(_)) if !name.is_empty() => {
            Err(format!("option --{} can mean several", shown(name)))
        }
        _ => Err(format!(
            "option --{} is not known; --help lists them",
            shown(name)
        )),
    }
}

/// A name for an error message, short and without control characters.
fn shown(name: &str) -> String {
    name.chars()
        .filter(|letter| !letter.is_control())
        .take(40)
        .collect()
}

fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|inner| inner.strip_suffix('"'))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arguments(words: &[&str]) -> Result<Input, String> {
        Input::arguments(
            &words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn arguments_are_parsed_as_getopt_long_does() {
        let given = arguments(&[
            "--ip=10.0.0.1",
            "-l",
            "admin",
            "-psecret",
            "stray",
            "-vz",
            "--action",
            "off",
            "--ssl-insecure",
            "--systems_uri=/redfish/v1/Systems/1",
            "--power-t=5",
        ])
        .unwrap();
        for (name, value) in [
            ("ip", "10.0.0.1"),
            ("username", "admin"),
            ("password", "secret"),
            ("verbose", "1"),
            ("ssl", "1"),
            ("action", "off"),
            ("ssl_insecure", "1"),
            ("systems_uri", "/redfish/v1/Systems/1"),
            ("power_timeout", "5"),
        ] {
            assert_eq!(given.get(name), Some(value), "{name}");
        }
        assert_eq!(given.warnings.len(), 1, "{:?}", given.warnings);
    }

    #[test]
    fn unknown_argument_is_an_error() {
        for wrong in [
            &["--nodename=a"][..],
            &["-Z"],
            &["--ip"],
            &["--ss=1"],
            &["--=1"],
            &["-a"],
        ] {
            let said = arguments(wrong).err().unwrap();
            assert!(said.contains("option"), "{wrong:?}: {said}");
        }
        assert!(arguments(&["--", "--nodename=a"]).is_ok());
    }

    #[test]
    fn standard_input_lines_are_names_and_values() {
        let text = "# from the cluster\n\n action=status \nipaddr=\"10.0.0.1\"\nlogin=a=b\n\
                    nodename=node-1\ncolour=blue\nport=one\nplug=two\nssl-insecure=0\n";
        let given = Input::lines(text);
        for (name, value) in [
            ("action", "status"),
            ("ip", "10.0.0.1"),
            ("username", "a=b"),
            ("plug", "two"),
            ("ssl_insecure", "0"),
        ] {
            assert_eq!(given.get(name), Some(value), "{name}");
        }
        assert_eq!(given.warnings, ["option colour is not known and ignored"]);
        // The deprecated name of `action` is accepted, so that its value is not replaced by the
        // default.
        assert_eq!(Input::lines("option=status").get("action"), Some("status"));
    }

    proptest! {
        #[test]
        fn arbitrary_input_neither_panics_nor_leaks_a_value(
            words in prop::collection::vec("(-{0,2}[a-zA-Z_=-]{0,8})?.{0,6}", 0..8),
            text in "(.*\n){0,6}",
        ) {
            let _ = Input::arguments(&words);
            let _ = Input::lines(&text);
            let mut words = words;
            words.insert(0, "--password=hush-hush".to_owned());
            if let Err(said) = Input::arguments(&words) {
                prop_assert!(!said.contains("hush-hush"));
            }
        }
    }
}
