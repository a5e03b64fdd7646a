//! Runs every target on its corpus and on mutations of it. Proptest chooses the mutations, and minimises
//! and prints an input that fails.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};
use rackhand_fuzz::TARGETS;

/// Number of mutated inputs for each target.
const CASES: u32 = 3_000;
/// Longest input in bytes; a longer one is truncated.
const LONGEST: usize = 16 * 1024;

/// Bytes and words that parsers of many formats treat specially.
const TOKENS: [&[u8]; 22] = [
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\n---\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"null",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"true",
    b": ",
    b"- ",
    b"%",
    b"//",
    b"@",
    b"\xc3\x28",
    b"*&a",
];

/// One change of an input.
#[derive(Debug, Clone)]
enum Mutation {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, usize),
    Remove(Index, Index),
    Repeat(Index, Index),
    Cut(Index),
    /// Continues with the rest of another input.
    Splice(Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), 0..TOKENS.len()).prop_map(|(at, token)| Mutation::Insert(at, token)),
        any::<(Index, Index)>().prop_map(|(from, to)| Mutation::Remove(from, to)),
        any::<(Index, Index)>().prop_map(|(from, to)| Mutation::Repeat(from, to)),
        any::<Index>().prop_map(Mutation::Cut),
        any::<(Index, Index)>().prop_map(|(at, other)| Mutation::Splice(at, other)),
    ]
}

fn range(from: &Index, to: &Index, length: usize) -> std::ops::Range<usize> {
    let (a, b) = (from.index(length + 1), to.index(length + 1));
    a.min(b)..a.max(b)
}

fn apply(input: &mut Vec<u8>, mutation: &Mutation, corpus: &[Vec<u8>]) {
    let at = |index: &Index| index.index(input.len().max(1));
    match mutation {
        Mutation::Flip(index, bit) => {
            let at = at(index);
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Mutation::Set(index, value) => {
            let at = at(index);
            if let Some(byte) = input.get_mut(at) {
                *byte = *value;
            }
        }
        Mutation::Insert(index, token) => {
            let at = index.index(input.len() + 1);
            input.splice(at..at, TOKENS[*token].iter().copied());
        }
        Mutation::Remove(from, to) => drop(input.drain(range(from, to, input.len()))),
        Mutation::Repeat(from, to) => {
            let range = range(from, to, input.len());
            let (end, piece) = (range.end, input[range].to_vec());
            input.splice(end..end, piece);
        }
        Mutation::Cut(index) => input.truncate(index.index(input.len() + 1)),
        Mutation::Splice(index, other) => {
            input.truncate(index.index(input.len() + 1));
            let other = &corpus[other.index(corpus.len())];
            let tail = index.index(other.len() + 1);
            input.extend_from_slice(&other[tail..]);
        }
    }
    input.truncate(LONGEST);
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect()
}

fn mutate(name: &str) {
    let (_, target) = TARGETS
        .into_iter()
        .find(|(known, _)| *known == name)
        .unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    for input in &corpus {
        target(input);
    }
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (any::<Index>(), prop::collection::vec(mutation(), 1..8));
    let mutated = |(base, mutations): &(Index, Vec<Mutation>)| {
        let mut input = base.get(&corpus).clone();
        for mutation in mutations {
            apply(&mut input, mutation, &corpus);
        }
        input
    };
    TestRunner::new(config)
        .run(&strategy, |choice| {
            let input = mutated(&choice);
            let caught = std::panic::catch_unwind(|| target(&input));
            let shown = String::from_utf8_lossy(&input).into_owned();
            prop_assert!(caught.is_ok(), "{name} panics on {shown:?}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_target_has_a_test_and_a_corpus() {
    let names = TARGETS.map(|(name, _)| name);
    let tests = include_str!("corpus.rs");
    for name in names {
        assert!(tests.contains(&format!("mutate({name:?})")), "{name}");
        assert!(!corpus(name).is_empty(), "{name}");
    }
}

/// Inputs that are rejected at once would test little.
#[test]
fn objects_of_the_corpus_can_be_explained() {
    for input in corpus("objects") {
        let text = String::from_utf8(input).unwrap();
        assert_eq!(rackhand_fuzz::explains(&text), Ok(()), "{text}");
    }
}

/// Those of the corpus that are complete are accepted; one that names a program or a file is refused.
#[test]
fn kubeconfigs_of_the_corpus_are_accepted_or_refused() {
    for input in corpus("kubeconfig") {
        let text = String::from_utf8(input).unwrap();
        let refused = text.contains("exec:") || text.contains("tokenFile:");
        let result = rackhand_fuzz::connects(&text);
        assert_eq!(result.is_err(), refused, "{result:?}: {text}");
    }
}

#[test]
fn bmc_address_parser_survives_mutations() {
    mutate("address");
}

#[test]
fn agent_configuration_parser_survives_mutations() {
    mutate("agent_configuration");
}

#[test]
fn certificate_parser_survives_mutations() {
    mutate("certificates");
}

#[test]
fn grpc_decoder_survives_mutations() {
    mutate("grpc");
}

#[test]
fn ipmi_client_survives_mutated_answers() {
    mutate("ipmi_answers");
}

#[test]
fn outlet_reader_survives_mutated_snmp_values() {
    mutate("snmp_values");
}

#[test]
fn ipmi_packet_decoder_survives_mutations() {
    mutate("ipmi_wire");
}

#[test]
fn kubeconfig_parser_survives_mutations() {
    mutate("kubeconfig");
}

#[test]
fn explain_survives_mutated_objects() {
    mutate("objects");
}

#[test]
fn redfish_client_survives_mutated_documents() {
    mutate("redfish");
}
