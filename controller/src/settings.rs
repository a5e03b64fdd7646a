//! The flags that decisions depend on: the controller publishes them on its Lease, and `explain` uses them.
//!
//! Flags of the command line take precedence over those of a Lease.

use std::{collections::BTreeMap, ffi::OsString};

use clap::{ArgMatches, CommandFactory, FromArgMatches, parser::ValueSource};
use rackhand_runtime::{SettingsError, ShownSettings};

use crate::args::Args;

/// Names of these flags in clap.
const DECIDING: [&str; 13] = [
    "namespace",
    "health_checks",
    "watch_filter",
    "cooperative_grace",
    "evidence_timeout",
    "drain_timeout",
    "drain_policy",
    "defer_timeout",
    "unreachable_policy",
    "node_gone",
    "node_action",
    "power_timeout",
    "words_of_persons",
];

fn flag(id: &str) -> String {
    id.replace('_', "-")
}

fn on_command_line(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// The values of these flags.
pub(crate) fn of(matches: &ArgMatches) -> BTreeMap<String, String> {
    let value = |id: &&str| {
        let raw = matches.get_raw(id)?.next()?.to_str()?.to_owned();
        Some((flag(id), raw))
    };
    DECIDING.iter().filter_map(value).collect()
}

/// The arguments with published flags in place of defaults, and the source of the settings, for messages.
pub(crate) fn adopt(
    own: Args,
    matches: &ArgMatches,
    line: &[OsString],
    shown: Result<ShownSettings, SettingsError>,
) -> (Args, String) {
    let own_ones = |why: String| format!("those of this command line: {why}");
    let shown = match shown {
        Ok(shown) => shown,
        Err(error) => return (own, own_ones(error.to_string())),
    };
    let (mut taken, mut kept) = (Vec::new(), Vec::new());
    for id in DECIDING {
        let flag = flag(id);
        if on_command_line(matches, id) {
            kept.push(format!("--{flag}"));
        } else if let Some(value) = shown.flags.get(&flag) {
            taken.push(OsString::from(format!("--{flag}={value}")));
        }
    }
    let program = line.iter().take(1).cloned();
    let line = program.chain(taken).chain(line.iter().skip(1).cloned());
    let read = Args::command().try_get_matches_from(line);
    match read.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) if kept.is_empty() => (args, format!("those of {}", shown.whose)),
        Ok(args) => {
            let kept = kept.join(", ");
            let words = format!(
                "those of {}, but for {kept} of this command line",
                shown.whose
            );
            (args, words)
        }
        Err(error) => {
            let whole = error.to_string();
            let first = whole.lines().next().unwrap_or_default();
            let why = format!("those of {} cannot be parsed: {first}", shown.whose);
            (own, own_ones(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use rackhand_runtime::HealthChecks;

    use super::*;

    fn adopted(line: &str, flags: &[(&str, &str)]) -> (rackhand_runtime::Config, String) {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let matches = Args::command().try_get_matches_from(&line).unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let shown = ShownSettings {
            flags: flags.iter().map(own).collect(),
            whose: "the controller c-0".into(),
        };
        let (args, words) = adopt(args, &matches, &line, Ok(shown));
        (args.config(), words)
    }

    const LINE: &str = "x explain mhc workers";

    #[test]
    fn published_settings_override_defaults_but_not_flags() {
        let shown = [("health-checks", "annotated"), ("drain-timeout", "7s")];
        let (config, words) = adopted(LINE, &shown);
        assert_eq!(config.health_checks, HealthChecks::Annotated);
        assert_eq!(config.drain_timeout.as_secs(), 7);
        assert_eq!(config.power_timeout.as_secs(), 180, "it is not shown");
        assert_eq!(words, "those of the controller c-0");
        for line in [
            "x explain mhc workers --health-checks=all",
            "x --health-checks=all explain mhc workers",
        ] {
            let (config, words) = adopted(line, &shown);
            assert_eq!(config.health_checks, HealthChecks::All, "{line}");
            assert_eq!(config.drain_timeout.as_secs(), 7);
            assert_eq!(
                words,
                "those of the controller c-0, but for --health-checks of this command line"
            );
        }
    }

    #[test]
    fn malformed_published_settings_are_reported_and_ignored() {
        let shown = [("health-checks", "every"), ("drain-timeout", "7s")];
        let (config, words) = adopted(LINE, &shown);
        assert_eq!(config.drain_timeout.as_secs(), 600);
        assert!(
            words.starts_with(
                "those of this command line: those of the controller c-0 cannot be parsed"
            ),
            "{words}"
        );
        let newer = [("not-yet-known", "1"), ("node-gone", "replace")];
        let (config, _) = adopted(LINE, &newer);
        assert_eq!(config.node_gone, rackhand_runtime::NodeGonePolicy::Replace);
    }

    #[test]
    fn published_settings_contain_every_deciding_flag_and_round_trip() {
        let line = "x --namespace=ns --health-checks=none --watch-filter=blue \
                    --drain-policy=give-up --node-action=taint";
        let matches = Args::command()
            .try_get_matches_from(line.split(' '))
            .unwrap();
        let shown = of(&matches);
        assert_eq!(shown.len(), DECIDING.len(), "all that have a value");
        assert_eq!(shown["drain-policy"], "give-up");
        assert_eq!(shown["cooperative-grace"], "20s");
        let flags: Vec<(&str, &str)> = shown
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let (config, _) = adopted(LINE, &flags);
        assert_eq!(config.health_checks, HealthChecks::None);
        assert_eq!(config.namespace.as_deref(), Some("ns"));
        assert_eq!(config.watch_filter.as_deref(), Some("blue"));
        assert_eq!(
            config.node_action,
            Some(rackhand_runtime::NodeAction::Taint)
        );
    }
}
