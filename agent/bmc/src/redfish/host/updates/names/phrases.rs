//! The words of a name, in the parts of its sentence.
//!
//! Owns: where a word and a phrase end. Must never: know what a word means, beside those that end a phrase.

use super::words::{BREAKS, JOINED, KEPT};

/// A word in lower case, without digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    /// Whether a colon is right before it.
    pub is_after_colon: bool,
}

/// The phrases of a name: what is in brackets, after a comma, or after a word such as `with` is one of its own.
pub(super) fn phrases(name: &str) -> Vec<Vec<Word>> {
    let signs: Vec<char> = name.chars().collect();
    let mut phrases = vec![Vec::new()];
    let mut is_after_colon = false;
    let mut at = 0;
    while let Some(&sign) = signs.get(at) {
        if sign.is_alphabetic() {
            let rest = signs.get(at..).unwrap_or_default();
            let run: Vec<char> = rest
                .iter()
                .copied()
                .take_while(|sign| sign.is_alphabetic())
                .collect();
            at += run.len();
            for text in split(&run) {
                let is_kept = KEPT.iter().any(|stem| text.starts_with(stem));
                if is_kept || BREAKS.contains(&&*text) {
                    phrases.push(Vec::new());
                } else if let Some(phrase) = phrases.last_mut() {
                    phrase.push(Word {
                        text,
                        is_after_colon,
                    });
                }
                is_after_colon = false;
            }
            continue;
        }
        let is_space = |at: Option<usize>| {
            let sign = at.and_then(|at| signs.get(at));
            sign.is_none_or(|sign| sign.is_whitespace())
        };
        let is_break = match sign {
            ',' | ';' | '|' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '&' | '+' | '!'
            | '–' | '—' => true,
            '-' => is_space(at.checked_sub(1)) && is_space(Some(at + 1)),
            '.' => is_space(Some(at + 1)),
            _ => false,
        };
        if is_break {
            phrases.push(Vec::new());
        }
        is_after_colon = sign == ':' || is_after_colon && !is_break;
        at += 1;
    }
    phrases.retain(|phrase| !phrase.is_empty());
    phrases
}

/// The words of letters that are written together: `FWUpdate`, `iLO`, `GPUs`, `fwupdate`.
fn split(run: &[char]) -> Vec<String> {
    let lower: Vec<char> = run
        .iter()
        .map(|sign| sign.to_lowercase().next().unwrap_or(*sign))
        .collect();
    let mut is_start = vec![false; run.len() + 1];
    let mut is_within = vec![false; run.len() + 1];
    let mut at = 0;
    while at < run.len() {
        let rest = lower.get(at..).unwrap_or_default();
        let length = JOINED
            .iter()
            .find(|word| {
                word.chars().count() <= rest.len()
                    && word.chars().zip(rest).all(|(one, other)| one == *other)
            })
            .map(|word| word.chars().count());
        let Some(length) = length else {
            at += 1;
            continue;
        };
        is_start[at] = true;
        is_within[at + 1..at + length].fill(true);
        // A plural is no word of its own.
        let is_plural = lower.get(at + length) == Some(&'s') && at + length + 1 == run.len();
        is_start[at + length] |= !is_plural;
        at += length;
    }
    let mut words: Vec<String> = Vec::new();
    let mut length = 0;
    for (at, sign) in run.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| run.get(at));
        let next = run.get(at + 1);
        let is_after_lower = before.is_some_and(|sign| sign.is_lowercase()) && length >= 2;
        let is_plural = next == Some(&'s') && at + 2 == run.len();
        let begins_capitalized = before.is_some_and(|sign| sign.is_uppercase())
            && next.is_some_and(|sign| sign.is_lowercase())
            && !is_plural
            && !is_start[at + 1];
        let is_by_case = sign.is_uppercase() && (is_after_lower || begins_capitalized);
        if words.is_empty() || is_start[at] || is_by_case && !is_within[at] {
            words.push(String::new());
            length = 0;
        }
        length += 1;
        if let Some(word) = words.last_mut() {
            word.extend(lower.get(at));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let words = |phrase: &Vec<Word>| {
            let words: Vec<&str> = phrase.iter().map(|word| &*word.text).collect();
            words.join(" ")
        };
        let all: Vec<String> = phrases(name).iter().map(words).collect();
        all.join(" | ")
    }

    #[test]
    fn words_end_by_case_digits_and_signs() {
        for (name, words) in [
            ("FWUpdate", "fw update"),
            ("UpdateFW", "update fw"),
            ("fwupdate", "fw update"),
            ("updatefw", "update fw"),
            ("FWupdate", "fw update"),
            ("BIOSupdate", "bios update"),
            ("BIOSFWUpdate", "bios fw update"),
            ("bmcfwupdate", "bmc fw update"),
            ("iLO5 update", "ilo update"),
            ("Update PSU1 FW2", "update psu fw"),
            ("GPUs", "gpus"),
            ("HGX_FW_BMC_0 update", "hgx fw bmc update"),
            ("BIOS.Setup.1-1", "bios setup"),
            ("RAIDConfiguration", "raid configuration"),
            ("", ""),
        ] {
            assert_eq!(shown(name), words, "{name}");
        }
    }

    #[test]
    fn phrases_end_by_brackets_commas_and_words() {
        for (name, phrases) in [
            ("CPLD upgrade (profile A)", "cpld upgrade | profile a"),
            ("BMC update by user root", "bmc update | user root"),
            (
                "BIOS Update Task - Configuration preserved",
                "bios update task | configuration",
            ),
            ("Update BIOS, keep settings", "update bios | settings"),
            ("BIOS update. Settings kept", "bios update | settings kept"),
        ] {
            assert_eq!(shown(name), phrases, "{name}");
        }
    }
}
