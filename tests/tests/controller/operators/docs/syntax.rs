//! What holds for the commands of every block, also of those that are not run: bash parses them,
//! Rackhand's programs know their commands and flags, Kubernetes knows the kinds.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use rackhand_api::crds;
use rackhand_tests::{repository::root, stage::binaries};

use super::placeholders::with_placeholders;

/// Kinds of Kubernetes itself that the pages name.
const BUILT_IN: [&str; 12] = [
    "crd",
    "events",
    "lease",
    "leases",
    "namespace",
    "node",
    "nodes",
    "pod",
    "pods",
    "secret",
    "secrets",
    "validatingwebhookconfiguration",
];
/// Kinds of projects whose CRDs are not here.
const FOREIGN: [&str; 1] = ["networkfences"];
/// kubectl's commands that take a kind.
const WITH_KIND: [&str; 7] = [
    "annotate", "delete", "describe", "get", "label", "patch", "wait",
];
const BETWEEN: [&str; 5] = ["|", "&&", "||", ";", "&"];

/// Checks a script without running it.
///
/// # Errors
/// Something of it is wrong.
pub fn check(script: &str) -> Result<()> {
    let script = with_placeholders(script);
    let parsed = Command::new("bash").args(["-n", "-c", &script]).output()?;
    ensure!(
        parsed.status.success(),
        "{}",
        String::from_utf8_lossy(&parsed.stderr)
    );
    for words in simple_commands(&script)? {
        check_command(&words).with_context(|| words.join(" "))?;
    }
    Ok(())
}

/// The words of each simple command, without redirections and documents.
fn simple_commands(script: &str) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    let mut open = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        open.push_str(line.strip_suffix('\\').unwrap_or(line));
        open.push('\n');
        if line.ends_with('\\') {
            continue;
        }
        // A quote may end in a later line.
        let Some(words) = shlex::split(&open) else {
            continue;
        };
        open.clear();
        if line.contains("<<'EOF'") {
            lines
                .by_ref()
                .take_while(|line| *line != "EOF")
                .for_each(drop);
        }
        let words: Vec<String> = words.into_iter().flat_map(without_semicolon).collect();
        for words in words.split(|word| BETWEEN.contains(&word.as_str())) {
            let arguments = words.iter().take_while(|word| !is_redirection(word));
            all.push(arguments.cloned().collect());
        }
    }
    ensure!(open.is_empty(), "a quote does not end: {open}");
    Ok(all)
}

/// A semicolon at the end of a word as a word of its own.
fn without_semicolon(word: String) -> Vec<String> {
    match word.strip_suffix(';') {
        Some(rest) if !rest.is_empty() => vec![rest.to_owned(), ";".to_owned()],
        _ => vec![word],
    }
}

fn is_redirection(word: &str) -> bool {
    let word = word.trim_start_matches(|c: char| c.is_ascii_digit());
    word.starts_with(['>', '<'])
}

fn check_command(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words
        .iter()
        .map(|word| word.trim_start_matches('('))
        .collect();
    match words.as_slice() {
        [
            program @ ("rackhand-agent" | "rackhand-controller"),
            arguments @ ..,
        ] => check_arguments(program, arguments),
        ["kubectl", "rackhand", arguments @ ..] => {
            check_arguments("rackhand-controller", arguments)
        }
        ["kubectl", arguments @ ..] => check_kinds(arguments),
        [script, ..] if script.starts_with("hack/") || script.starts_with(".ci/") => {
            ensure!(root().join(script).is_file(), "there is no {script}");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// clap reads the words from left to right, and `--help` last shows the help only if it has
/// understood everything before.
fn check_arguments(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(binaries()?.join(program))
        .args(arguments)
        .arg("--help")
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && !output.stdout.is_empty(),
        "{errors}"
    );
    Ok(())
}

fn check_kinds(arguments: &[&str]) -> Result<()> {
    let verb = arguments.iter().position(|word| WITH_KIND.contains(word));
    let Some(kinds) = verb.and_then(|verb| arguments.get(verb + 1)) else {
        return Ok(());
    };
    let known = kinds_of_crds();
    for kind in kinds.split(',') {
        let kind = kind.split(['/', '.']).next().unwrap_or_default();
        ensure!(
            BUILT_IN.contains(&kind) || FOREIGN.contains(&kind) || known.contains(kind),
            "unknown kind {kind}"
        );
    }
    Ok(())
}

fn kinds_of_crds() -> BTreeSet<String> {
    let names = crds::all().into_iter().map(|crd| crd.spec.names);
    names
        .flat_map(|names| {
            let short = names.short_names.unwrap_or_default();
            [names.plural, names.kind.to_lowercase()]
                .into_iter()
                .chain(short)
        })
        .collect()
}

#[test]
fn a_script_is_split_into_its_commands() {
    let script = "a 'b\nc' | d > e && \\\n  (f <<'EOF'\nignored 'quote\nEOF\ng; h\n";
    let commands = simple_commands(script).unwrap();
    let commands: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    assert_eq!(commands, ["a b\nc", "d", "(f", "g", "h"]);
}

#[test]
fn wrong_commands_are_refused() {
    for (script, why) in [
        ("if true", "syntax error"),
        ("rackhand-agent power of node-7", "unrecognized subcommand"),
        ("rackhand-controller status --colour", "unexpected argument"),
        (
            "kubectl rackhand explain mhc workers --at noon",
            "invalid value",
        ),
        (
            "kubectl get powerremediation,premm -A",
            "unknown kind premm",
        ),
        ("hack/no-such-script", "there is no"),
    ] {
        let error = format!("{:#}", check(script).unwrap_err());
        assert!(error.contains(why), "{script}: {error}");
    }
    check("kubectl get m3r,prem -n x | rackhand-agent power status - > y").unwrap();
}
