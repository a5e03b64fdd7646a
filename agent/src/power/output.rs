//! Columns, and words for what the contract says in numbers.

use rackhand_proto::v1;

/// Columns as wide as their widest field, two spaces between them; nothing behind the last.
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

pub(super) fn state_word(state: v1::PowerState) -> &'static str {
    match state {
        v1::PowerState::On => "on",
        v1::PowerState::Off => "off",
        v1::PowerState::PoweringOn => "powering-on",
        v1::PowerState::PoweringOff => "powering-off",
        v1::PowerState::Unknown | v1::PowerState::Unspecified => "unknown",
    }
}

pub(super) fn outcome_word(code: v1::OutcomeCode) -> &'static str {
    match code {
        v1::OutcomeCode::Confirmed => "confirmed",
        v1::OutcomeCode::Unconfirmed => "not-confirmed",
        v1::OutcomeCode::Failed => "failed",
        v1::OutcomeCode::IdentityMismatch => "identity-mismatch",
        v1::OutcomeCode::Cancelled => "cancelled",
        v1::OutcomeCode::Interrupted => "interrupted",
        v1::OutcomeCode::Unspecified => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![
            vec!["a".to_owned(), "x".to_owned(), String::new()],
            vec!["long-name".to_owned(), String::new(), "é".to_owned()],
        ];
        assert_eq!(
            table(&["HOST", "B", "C"], rows),
            "HOST       B  C\na          x\nlong-name     é\n"
        );
    }
}
