//! Output formats: table, JSON, YAML, names.

#[macro_use]
pub(crate) mod stdio;

pub(crate) mod exit_code;
pub(crate) mod private_files;
pub(crate) mod progress;

use rackhand_proto::v1;
use serde::Serialize;

use crate::cli::Output;

/// An item that can be printed.
pub(crate) trait TableRow: Serialize {
    /// Column titles; the first [`SHORT`](Self::SHORT) of them are the default table.
    const HEAD: &'static [&'static str];
    /// Number of columns of the default table.
    const SHORT: usize;

    /// The fields of its row, one per title.
    fn fields(&self) -> Vec<String>;

    /// Its name, for the output format `name`.
    fn name(&self) -> &str;
}

/// Prints all items in the given format.
///
/// # Errors
///
/// They cannot be serialized.
pub(crate) fn print<T: TableRow>(rows: &[T], output: Output) -> anyhow::Result<()> {
    match output {
        Output::Json => outln!("{}", serde_json::to_string_pretty(rows)?),
        Output::Yaml => out!("{}", serde_saphyr::to_string(&rows)?),
        Output::Name => rows.iter().for_each(|row| outln!("{}", row.name())),
        Output::Table | Output::Wide => {
            let columns = if output == Output::Wide {
                T::HEAD.len()
            } else {
                T::SHORT
            };
            let head = T::HEAD.get(..columns).unwrap_or(T::HEAD);
            let lines = rows.iter().map(|row| {
                let mut fields = row.fields();
                fields.truncate(columns);
                fields
            });
            out!("{}", table(head, lines.collect()));
        }
    }
    Ok(())
}

/// A table with columns as wide as their widest field, separated by two spaces, without trailing
/// white space.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut lines = vec![head.iter().map(|&title| title.to_owned()).collect()];
    lines.extend(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let fields = lines
                .iter()
                .filter_map(|line: &Vec<String>| line.get(column));
            fields.map(|field| field.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for line in &lines {
        let fields: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(field, &width)| format!("{field:width$}"))
            .collect();
        text.push_str(fields.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Removes the prefix `host NAME: ` from a message in a row of this host.
pub(crate) fn brief<'a>(host: &str, message: &'a str) -> &'a str {
    let rest = message.strip_prefix("host ");
    let rest = rest.and_then(|rest| rest.strip_prefix(host));
    rest.and_then(|rest| rest.strip_prefix(": "))
        .unwrap_or(message)
}

/// Number of hosts per result, with the names of those without the result `good`: `38 confirmed; 2
/// failed: n7, n9`.
pub(crate) fn summary(outcomes: &[(&str, &str)], good: &str) -> String {
    const NAMED: usize = 10;
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (outcome, host) in outcomes {
        match groups.iter_mut().find(|(known, _)| known == outcome) {
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((outcome, vec![host])),
        }
    }
    groups.sort_by_key(|(outcome, _)| *outcome != good);
    let words = groups.iter().map(|(outcome, hosts)| {
        if *outcome == good {
            return format!("{} {outcome}", hosts.len());
        }
        let named: Vec<&str> = hosts.iter().take(NAMED).copied().collect();
        let more = match hosts.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} {outcome}: {}{more}", hosts.len(), named.join(", "))
    });
    words.collect::<Vec<_>>().join("; ")
}

pub(crate) fn state_word(state: v1::PowerState) -> &'static str {
    match state {
        v1::PowerState::On => "on",
        v1::PowerState::Off => "off",
        v1::PowerState::PoweringOn => "powering-on",
        v1::PowerState::PoweringOff => "powering-off",
        v1::PowerState::Unknown | v1::PowerState::Unspecified => "unknown",
    }
}

/// Name of an outcome. A host that did not shut down, and a command with an unknown result, are not
/// failures and have their own names.
pub(crate) fn outcome_word(outcome: &v1::Outcome) -> &'static str {
    match (outcome.code(), outcome.detail()) {
        (v1::OutcomeCode::Confirmed, _) => "confirmed",
        (v1::OutcomeCode::Unconfirmed, v1::OutcomeDetail::NotShutDown) => "not-shut-down",
        (v1::OutcomeCode::Unconfirmed, v1::OutcomeDetail::Unknown) => "unknown",
        (v1::OutcomeCode::Unconfirmed, v1::OutcomeDetail::NotSent) => "not-sent",
        (v1::OutcomeCode::Unconfirmed, v1::OutcomeDetail::NotTaken) => "not-taken",
        (v1::OutcomeCode::Unconfirmed, v1::OutcomeDetail::Unproven) => "unproven",
        (v1::OutcomeCode::Unconfirmed, _) => "not-confirmed",
        (v1::OutcomeCode::Failed, v1::OutcomeDetail::NeedsPower) => "needs-power",
        (v1::OutcomeCode::Failed, v1::OutcomeDetail::FirmwareUpdate) => "firmware-update",
        (v1::OutcomeCode::Failed, _) => "failed",
        (v1::OutcomeCode::IdentityMismatch, _) => "identity-mismatch",
        (v1::OutcomeCode::Cancelled, v1::OutcomeDetail::CallerGone) => "caller-gone",
        (v1::OutcomeCode::Cancelled, _) => "cancelled",
        (v1::OutcomeCode::Interrupted, _) => "interrupted",
        (v1::OutcomeCode::Unspecified, _) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_columns_are_aligned() {
        let rows = vec![
            vec!["a".to_owned(), "x".to_owned(), String::new()],
            vec!["long-name".to_owned(), String::new(), "é".to_owned()],
        ];
        assert_eq!(
            table(&["HOST", "B", "C"], rows),
            "HOST       B  C\na          x\nlong-name     é\n"
        );
    }

    #[test]
    fn message_does_not_repeat_the_host_of_its_row() {
        assert_eq!(brief("n1", "host n1: confirmed off"), "confirmed off");
        assert_eq!(brief("n1", "host n12: no"), "host n12: no");
        assert_eq!(brief("n1", "no"), "no");
    }

    #[test]
    fn summary_counts_successes_and_lists_the_rest() {
        let all = [
            ("failed", "n7"),
            ("confirmed", "n1"),
            ("failed", "n9"),
            ("confirmed", "n2"),
        ];
        assert_eq!(summary(&all, "confirmed"), "2 confirmed; 2 failed: n7, n9");
        let names: Vec<String> = (0..12).map(|n| format!("n{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| ("off", name.as_str())).collect();
        assert!(
            summary(&many, "on").ends_with("n9 and 2 more"),
            "{}",
            summary(&many, "on")
        );
    }
}
