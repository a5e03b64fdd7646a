//! The words that the glossary refuses.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use rackhand_tests::repository::root;

use super::blocks::pages;

/// The bold words of the column "instead of".
fn refused(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter(|line| line.starts_with("| "));
    let instead = rows.filter_map(|row| row.split('|').nth(3));
    let bold = instead.flat_map(|cell| cell.split("**").skip(1).step_by(2));
    bold.map(str::to_lowercase).collect()
}

/// Whether the line has the word, and not only as a part of another one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn sources(folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs" || e == "proto") {
            let path = path.strip_prefix(root())?;
            found.push(path.to_str().context("not UTF-8")?.to_owned());
        }
    }
    Ok(())
}

#[test]
fn pages_and_sources_use_the_words_of_the_glossary() {
    const GLOSSARY: &str = "docs/glossary.md";
    let refused = refused(&fs::read_to_string(root().join(GLOSSARY)).unwrap());
    assert!(refused.len() > 10, "{refused:?}");
    let mut files = pages().unwrap();
    files.retain(|page| page != GLOSSARY);
    for folder in ["controller", "agent", "proto", "tests/model", "tests/src"] {
        sources(&root().join(folder), &mut files).unwrap();
    }
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(root().join(&file))
            .unwrap()
            .to_lowercase();
        for (number, line) in text.lines().enumerate() {
            let words = refused.iter().filter(|word| has_word(line, word));
            found.extend(words.map(|word| format!("{file}:{}: {word}", number + 1)));
        }
    }
    assert!(
        found.is_empty(),
        "docs/glossary.md has better words:\n{}",
        found.join("\n")
    );
}

/// Folders in which nothing is a request but what these names and phrases say.
const WITHOUT_REQUESTS: [&str; 10] = [
    "controller/core/src/checks",
    "controller/core/src/explanation",
    "controller/core/src/overview",
    "controller/core/src/rehearsal",
    "controller/core/src/remediation",
    "controller/runtime/src/checks",
    "controller/runtime/src/history",
    "controller/runtime/src/orphaned_holds",
    "tests/model/src/checks",
    "tests/model/src/small/copies",
];
/// Names about the annotation of a Machine, about a stop, and about calls to an API server.
const NAMES_OF_REQUESTS: [&str; 7] = [
    "EndMachineRequest",
    "FakeRequest",
    "end_machine_request",
    "is_request_fulfilled",
    "one_annotation_of_the_machine_requests_one_power_cycle",
    "pause_requests",
    "revoked_stop_request_lets_the_remediation_continue",
];
/// Calls to an agent or an API server, and the stop that a NodeHealthCheck requests.
const REAL_REQUESTS: [&str; 6] = [
    "records the requests",
    "request for evidence",
    "request to begin",
    "request to stop",
    "request was in flight",
    "request was sent",
];

/// What calls a remediation a request: a name in code, or a noun in a sentence. Names in quotes are labels of
/// metrics, or names of other projects, and stay.
fn remediation_requests(line: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_request = |part: &str| matches!(part, "request" | "requests");
    let is_determiner = |word: &str| {
        let word = word.to_ascii_lowercase();
        [
            "a", "the", "its", "their", "this", "no", "each", "every", "open", "orphaned",
        ]
        .contains(&&*word)
    };
    let is_wrong_name = |name: &&str| {
        let has_request = name.split('_').any(is_request) && name.contains('_');
        (has_request || name.contains("Request"))
            && !matches!(*name, "Request" | "Requests" | "Requesting")
            && !NAMES_OF_REQUESTS.contains(name)
    };
    let outside_quotes = line.split('"').step_by(2);
    let names = outside_quotes.flat_map(|part| part.split(|c| !is_name(c)));
    let mut found: Vec<&str> = names.filter(is_wrong_name).collect();
    if !REAL_REQUESTS.iter().any(|real| line.contains(real)) {
        let words: Vec<&str> = line.split(|c| !is_name(c)).collect();
        let nouns = words.windows(2);
        found.extend(
            nouns
                .filter(|pair| is_determiner(pair[0]) && is_request(pair[1]))
                .map(|pair| pair[1]),
        );
    }
    found
}

#[test]
fn no_remediation_is_called_a_request() {
    let mut files = Vec::new();
    for folder in WITHOUT_REQUESTS {
        sources(&root().join(folder), &mut files).unwrap();
    }
    assert!(files.len() > 100, "{}", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        for (number, line) in text.lines().enumerate() {
            let words = remediation_requests(line).into_iter();
            found.extend(words.map(|word| format!("{file}:{}: {word}", number + 1)));
        }
    }
    assert!(
        found.is_empty(),
        "these are remediations, see docs/glossary.md:\n{}",
        found.join("\n")
    );
}

#[test]
fn request_is_found_where_it_is_a_remediation() {
    for wrong in [
        "    CreateRequest {",
        "fleet.set_request(&machine, open);",
        "/// The request of a member as it counts",
        "format!(\"{name}: an orphaned request\")",
        "let known: ExternalRequests<Owners> = ..;",
    ] {
        assert_eq!(remediation_requests(wrong).len(), 1, "{wrong}");
    }
    for right in [
        "Self::CreateRemediation { .. } => \"create_request\",",
        "/// What a person requests is carried out.",
        "/// A request to stop changes nothing here,",
        "Next::Do(Command::EndMachineRequest)",
        "writer.write(\"delete_request\", what, delete)",
    ] {
        assert_eq!(remediation_requests(right), [""; 0], "{right}");
    }
}

#[test]
fn word_is_found_only_whole() {
    assert!(has_word("a wish.", "wish") && has_word("wish", "wish"));
    assert!(!has_word("wishes", "wish") && !has_word("swish", "wish"));
}
