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
    for folder in ["controller", "agent", "proto"] {
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

#[test]
fn word_is_found_only_whole() {
    assert!(has_word("a wish.", "wish") && has_word("wish", "wish"));
    assert!(!has_word("wishes", "wish") && !has_word("swish", "wish"));
}
